"""Copies of Drover for tests of `make run`: started with their own folder and port, stopped at the end."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.run.copies import Copy


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder that another system user can reach (pytest's own are private)."""
    path = Path(tempfile.mkdtemp(prefix="drover-run-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def kept_folder() -> Iterator[Path]:
    """The same for all tests of a module: later copies find what earlier ones left."""
    path = Path(tempfile.mkdtemp(prefix="drover-run-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start() -> Iterator[Callable[..., Copy]]:
    copies: list[Copy] = []

    def start(var: Path, **environment: Any) -> Copy:
        copies.append(Copy(var, **environment))
        return copies[-1]

    yield start
    for copy in copies:
        copy.stop()


@pytest.fixture(scope="module")
def running() -> Iterator[Copy]:
    """One copy for the tests of a module that leave it running."""
    path = Path(tempfile.mkdtemp(prefix="drover-run-"))
    path.chmod(0o755)
    copy = Copy(path / "var")
    try:
        yield copy.until_ready()
    finally:
        copy.stop()
        shutil.rmtree(path)
