"""Pytest plugin for tests that take their time, several at once: what stays together, and what begins first.

Loaded by the Makefile, with xdist. A file stays together, because what it shares is dear: a running copy, a web process,
a browser. What takes longest begins first, or it would run on alone in the end.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/browser/first_day/",)  # all on one copy
FIRST = (
    "tests/chaos/test_schedules.py",
    "tests/browser/first_day/",
    "tests/peers/test_foreign_robots.py",
    "tests/run/test_restore_drill.py",
    "tests/run/test_ending.py",
    "tests/run/test_backup.py",
    "tests/bench/test_bench_report.py",
    "tests/browser/test_live_page.py",
    "tests/browser/test_text_of_others.py",
    "tests/peers/test_in_the_browser.py",
    "tests/browser/test_end_to_end.py",
    "tests/chaos/test_kill_worker.py",
    "tests/chaos/test_disk_full.py",
    "tests/peers/test_gateway_fleet.py",
    "tests/peers/test_gateway_broker.py",
)


def group_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


class SideBySide(LoadScopeScheduling):
    """A group to a worker, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_configure(config: Any) -> None:
    for name in FIRST:
        assert (Path(config.rootpath) / name).exists(), f"{name} of tests/side_by_side.py is gone"


def pytest_xdist_make_scheduler(config: Any, log: Any) -> SideBySide:
    config.option.loadscopereorder = False  # else by the number of tests, and the longest have one
    return SideBySide(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: n for n, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(group_of(item.nodeid), len(FIRST)))
