"""Ten seeded schedules of trouble with real processes and robots; `make soak` runs as many as one likes."""

import json
import subprocess
import sys

import pytest
from django.conf import settings

pytestmark = pytest.mark.processes

FIRST, COUNT = 1, 10
SEEDS = range(FIRST, FIRST + COUNT)


@pytest.fixture(scope="module")
def results():
    """Seed → its line. One site for all: starting one takes longer than a schedule."""
    command = [sys.executable, "-m", "tests.chaos.soak", "--seed", str(FIRST), "--count", str(COUNT), "--keep-going"]
    done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=1200)
    sys.stderr.write(done.stderr)  # shown with what fails
    return {line["seed"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_doubled_or_left_hanging(results, seed):
    line = results[seed]
    assert line["wrong"] == [], f"{line['told']}; again: make soak SEED={seed} COUNT=1"


def test_they_bring_trouble_to_everything_and_work_goes_on(results, capsys):
    told = " ".join(act for line in results.values() for act in line["told"])
    for what in ("postgres", "durable", "live", "web", "worker-", "robots-"):
        assert what in told
    ended = [line["ended"] for line in results.values()]
    assert sum(e.get("success", 0) for e in ended) > sum(e.get("aborted", 0) for e in ended)
    took, acknowledged = sum(line["took_s"] for line in results.values()), ended[-1]["acknowledged"]
    with capsys.disabled():
        print(f"\n  {COUNT} schedules in {took:.0f} s, {acknowledged} messages acknowledged")
