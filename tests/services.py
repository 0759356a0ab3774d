"""Pytest plugin: a PostgreSQL and two Valkeys for this run, before Django's settings are read.

Loaded by `addopts = -p tests.services`, because a conftest would be too late. Workers of xdist inherit the
environment of the controller; each uses its own database, its own number of the durable Redis, and a live Redis of its
own, because PUBLISH knows no numbers.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.running.throwaway import stores, valkey

_stack = ExitStack()


@pytest.hookimpl(tryfirst=True)  # before pytest-django reads the settings
def pytest_load_initial_conftests() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and "DROVER_TEST_SERVICES" not in os.environ:
        _start()
    if worker is not None:
        _own_stores(worker)


def _start() -> None:
    folder = Path(_stack.enter_context(tempfile.TemporaryDirectory(prefix="drover-test-")))
    folder.chmod(0o755)
    os.environ.update(_stack.enter_context(stores(folder / "stores", fsync=False)))
    (folder / "static").mkdir()
    os.environ["STATIC_ROOT"] = str(folder / "static")  # whitenoise warns when there is none
    os.environ["DROVER_TEST_SERVICES"] = str(folder)


def _own_stores(worker: str) -> None:
    number = int(worker.removeprefix("gw")) + 1
    os.environ["REDIS_URL"] = os.environ["REDIS_URL"].split("?")[0] + f"?db={number}"
    os.environ["LIVE_REDIS_URL"] = valkey(_stack, Path(os.environ["DROVER_TEST_SERVICES"]), f"live-{worker}")


def pytest_unconfigure() -> None:
    _stack.close()
