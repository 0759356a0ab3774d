"""A full disk under PostgreSQL, then under the durable Redis, while robots work: nothing is lost, and it resumes by itself."""

import json
import subprocess
import sys

import pytest
from django.conf import settings

from tests.chaos.world import mount
from tests.tools import missing

pytestmark = pytest.mark.processes
KINDS = ("postgres disk full", "durable disk full")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Kind of trouble → its line."""
    try:
        mount(disk := tmp_path_factory.mktemp("disk") / "small")
    except (OSError, subprocess.CalledProcessError) as error:
        missing(f"small disks cannot be mounted here ({error})")
    subprocess.run(["umount", str(disk)], check=True)
    arguments = ["--seed", "1", "--count", str(len(KINDS)), "--small-disks", "--keep-going"]
    for kind in KINDS:
        arguments += ["--trouble", kind]
    command = [sys.executable, "-m", "tests.chaos.soak", *arguments]
    done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=300)
    sys.stderr.write(done.stderr)
    return dict(zip(KINDS, map(json.loads, done.stdout.splitlines()), strict=False))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_acknowledged_is_lost_and_work_goes_on(results, kind):
    line = results[kind]
    assert line["wrong"] == [], line["told"]
    assert line["ended"].get("success")
    assert line["said"][kind.split()[0]]  # the disk was full indeed
