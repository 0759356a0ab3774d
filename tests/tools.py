"""Programs that some tests need beside what pip brings. Where one is absent its tests are left out and say so; with
DROVER_REQUIRE_TOOLS=1 (the gate) that is a failure."""

import os
import shutil
from typing import NoReturn

import pytest


def tool(*names: str) -> str:
    """Path of the first of these programs that is there; none: the test is left out."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        missing(f"{names[0]} is not on PATH")
    return path


def missing(what: str) -> NoReturn:
    """What these tests need is not to be had here."""
    (pytest.fail if os.environ.get("DROVER_REQUIRE_TOOLS") == "1" else pytest.skip)(what)
    raise AssertionError
