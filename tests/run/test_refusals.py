"""When Drover cannot run here it says so in one clear line, with what to do, and exits with an error."""

import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.running import claim, trouble
from fleet.running.supervisor import Failed
from tests.run.copies import ROOT

pytestmark = pytest.mark.processes


def complaint(copy) -> str:
    """The line that names the trouble; there is one, and no traceback."""
    assert copy.until_ended() != 0
    lines = [line for line in copy.lines if line.startswith("drover: ")]
    assert len(lines) == 1, copy.output
    assert "Traceback" not in copy.output
    return lines[0]


def test_a_port_that_is_taken(start, folder):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = complaint(start(folder / "var", DROVER_PORT=str(port)))
    assert f"Port {port} is taken" in line
    assert "DROVER_PORT=" in line


@pytest.mark.parametrize(("port", "says"), [("70000", "between 0 and 65535"), ("http", "must be a whole number")])
def test_a_port_that_is_none(start, folder, port, says):
    assert says in complaint(start(folder / "var", DROVER_PORT=port))


def test_a_second_copy_on_the_same_folder(start, folder):
    (folder / "var").mkdir()
    first = claim.folder(folder / "var")
    try:
        line = complaint(start(folder / "var"))
    finally:
        os.close(first[0])
    assert f"Another Drover (process {os.getpid()}) runs on {folder / 'var'}" in line
    assert "DROVER_VAR" in line


def test_a_folder_that_cannot_be_written(start, folder):
    (folder / "file").write_text("")
    line = complaint(start(folder / "file" / "var"))
    assert f"Cannot write to {folder / 'file' / 'var'}" in line
    assert "Set DROVER_VAR" in line


def test_a_disk_that_is_nearly_full(folder, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 2**22, 2**22))
    with pytest.raises(trouble.Trouble, match=r"Only 4 MB are free under .*DROVER_VAR"):
        claim.folder(folder)


@pytest.mark.parametrize(
    "failed",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        Failed("postgres", "ended with exit code 1", ["initdb: error: could not write: No space left on device"]),
        Failed(
            "stream", "ended", ["# Short write while writing to the AOF file: (nwritten=9, expected=99)", "# Exiting"]
        ),
    ],
    ids=["here", "in PostgreSQL", "in Valkey"],
)
def test_a_disk_that_gets_full(folder, failed):
    said = str(trouble.explained(folder, failed))
    assert said == f"The disk under {folder} is full. Free some space, or set DROVER_VAR to a folder on another disk."


def make_setup(tree: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-C", str(tree), "setup", *arguments], env={"PATH": path}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What `make setup` needs, in a place of its own, with requirements that need no index."""
    tree = tmp_path / "tree"
    (tree / ".ci").mkdir(parents=True)
    for name in ("Makefile", ".ci/find-python"):
        shutil.copy(ROOT / name, tree / name)
    (tree / "requirements.txt").write_text("# nothing\n")
    return tree


def fake_python(folder: Path, version: str) -> None:
    """A python that says it has this version."""
    folder.mkdir(exist_ok=True)
    for name in ("python3.11", "python3.12", "python3.13", "python3"):
        file = folder / name
        file.write_text(
            f'#!/bin/sh\ncase "$2" in *version_info\\<*) exit 1;; *exit*) exit 1;; *) echo {version};; esac\n'
        )
        file.chmod(0o755)


def test_a_python_that_is_too_old(tree, tmp_path):
    fake_python(tmp_path / "bin", "3.9")
    result = make_setup(tree, f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert result.returncode != 0
    line = result.stderr.splitlines()[0]
    assert line.startswith("drover: needs Python 3.11 or newer.")
    assert "python3 is 3.9" in line
    assert not (tree / ".venv").exists()


def test_setup_makes_the_environment_once_and_again_when_requirements_change(tree):
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    first = make_setup(tree, path, f"PYTHON={sys.executable}")
    assert first.returncode == 0, first.stderr
    assert "Making .venv" in first.stdout
    second = make_setup(tree, path)
    assert (second.returncode, second.stderr) == (0, "")
    assert "pip" not in second.stdout
    stamp = tree / ".venv" / "run.stamp"
    before = stamp.stat().st_mtime_ns
    os.utime(tree / "requirements.txt", ns=(before + 10**9, before + 10**9))
    third = make_setup(tree, path)
    assert third.returncode == 0
    assert "Making .venv" not in third.stdout
    assert stamp.stat().st_mtime_ns > before


def test_help_is_the_default_and_lists_the_targets(tree):
    result = subprocess.run(["make", "-C", str(tree)], capture_output=True, text=True, check=True)
    for target in ("setup", "run", "test", "lint", "bench", "clean"):
        assert f"make {target} " in result.stdout
