"""Real servers and a real Chromium; without one these tests are left out (tests/tools.py)."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import psycopg.conninfo
import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from fleet.models import Alert, Event, Robot
from fleet.running.tether import tied
from missions.models import Mission
from tests.eventually import PATIENCE_S, eventually
from tests.tools import tool

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--force-prefers-reduced-motion"]  # what turns for ever is painted for ever, and here by the processor
VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Web:
    """A daphne on the tests' database and live Redis. One that was stopped comes back on the same port."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Unless it runs; until it answers."""
        if self.process is None:
            self._spawn()
        eventually(self._answers, what=f"web server on {self.port}")

    def _spawn(self) -> None:
        database = psycopg.conninfo.make_conninfo(os.environ["DATABASE_URL"], dbname=connection.settings_dict["NAME"])
        env = {
            **os.environ,
            "DATABASE_URL": database,
            "REDIS_URL": settings.REDIS_URL,
            "LIVE_REDIS_URL": settings.LIVE_REDIS_URL,
            "SECRET_KEY": settings.SECRET_KEY,
            "SESSION_COOKIE_NAME": settings.SESSION_COOKIE_NAME,
            "DEBUG": "1",
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "fleet.asgi:application"],
                cwd=ROOT, env=env, stdout=log, stderr=log, preexec_fn=tied(),
            )  # fmt: skip

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-2000:]
        with urlopen(f"{self.url}/login/", timeout=20) as response:
            return response.status == 200

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            process, self.process = self.process, None
            process.send_signal(how)
            try:
                process.wait(timeout=PATIENCE_S)
            finally:
                process.kill()
                process.wait()

    def is_at_rest(self) -> bool:
        """Nothing of it is under way in the database: its rows may be emptied."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend' AND state <> 'idle'"
            )
            return bool(cursor.fetchone()[0] == 0)


@pytest.fixture(autouse=True)
def nothing_was_left(request):
    """The test before had the same web process: it has written nothing after its rows were taken away."""
    if "server" in request.fixturenames:
        request.getfixturevalue("transactional_db")
        for model in (Event, Robot, Mission, User, Session, Alert):
            assert not model.objects.exists(), model


@pytest.fixture
def empty_live_redis():
    """Nothing is known of where robots are, whatever tests before have said."""
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as client:
        client.flushdb()


@pytest.fixture(scope="module")
def server(django_db_setup, tmp_path_factory):
    """The web process of a file's tests: starting one for each would be more than half of their work."""
    web = Web(tmp_path_factory.mktemp("web") / "web.log")
    web.log.touch()
    yield web
    web.stop()


@pytest.fixture
def web(transactional_db, server):
    """It runs when the test begins; what it says until the test ends has no traceback."""
    before = server.log.stat().st_size
    server.start()
    yield server
    runs = server.process is None or server.process.poll() is None  # or a test has stopped it
    if not runs:
        server.process = None
    eventually(server.is_at_rest, what="nothing is under way")
    with server.log.open("rb") as log:
        log.seek(before)
        said = log.read().decode(errors="replace")
    assert runs, f"it has ended by itself:\n{said}"
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")  # no longer: playwright's loop runs in this thread, and others' async tests need theirs
def chromium():
    path = tool("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(PATIENCE_S * 1000)

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # playwright's loop lives in this thread
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def sign_in(chromium, web):
    """`sign_in(user, **context options)` gives a page of a signed-in person; at the end its console must be clean.

    `page.expected` holds parts of console lines that a test provokes on purpose.
    """
    opened = []

    def sign_in(user: User, **options):
        client = Client()
        client.force_login(user)
        context = chromium.new_context(base_url=web.url, **options)
        context.set_default_timeout(PATIENCE_S * 1000)
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": web.url}])
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        page.expected, said = [], []
        page.on("console", lambda m: said.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(f"pageerror: {error}"))
        opened.append((context, page, said))
        return page

    yield sign_in
    for context, page, said in opened:
        violations = page.evaluate("window.violations")
        context.close()
        assert violations == []
        assert [line for line in said if not any(part in line for part in page.expected)] == []
