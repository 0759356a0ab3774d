"""Real worker processes on this test's database and Redis; none outlives its test."""

import json
import os
import subprocess
import sys
from urllib.parse import quote, urlencode

import pytest
import redis
from django.conf import settings
from django.db import connection

from telemetry import snapshots


def database_url() -> str:
    """The test's own database, as a libpq URI."""
    parts = connection.settings_dict
    where = {name: value for name, value in (("host", parts["HOST"]), ("port", parts["PORT"])) if value}
    return f"postgresql://{quote(parts['USER'])}@/{parts['NAME']}?{urlencode(where)}"


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
def start_worker(environment):
    """start_worker(die_at="before_commit", after=2, …) → Popen of tests/chaos/crashing_worker.py."""
    started = []

    def start(*, die_at: str = "", after: int = 1, note: str = "", grace_s: float = 5.0, **constants: float):
        options = {"die_at": die_at, "after": after, "note": note, "grace_s": grace_s, "set": constants}
        script = settings.BASE_DIR / "tests/chaos/crashing_worker.py"
        process = subprocess.Popen([sys.executable, script, json.dumps(options)], env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def manage(environment):
    """manage("worker") → Popen of `manage.py worker`."""
    started = []

    def start(*arguments: str):
        command = [sys.executable, settings.BASE_DIR / "manage.py", *arguments]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
