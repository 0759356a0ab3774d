"""However `make run` ends, nothing is left, and the next run goes on with the same data."""

import json
import os
import signal
import time

import pytest

from tests.eventually import eventually
from tests.run.copies import Copy, still_alive

pytestmark = pytest.mark.processes

PROMISED_S = 5.0  # to who presses Ctrl-C


def signal_program(copy: Copy, number: signal.Signals) -> None:
    os.kill(copy.supervisor(), number)


def signal_make(copy: Copy, number: signal.Signals) -> None:
    os.kill(copy.make.pid, number)


def signal_terminal(copy: Copy, number: signal.Signals) -> None:
    """As Ctrl-C does: everybody in the foreground."""
    os.killpg(copy.make.pid, number)


ENDS = {
    "kill -9": (signal_program, signal.SIGKILL),
    "kill -9 of make": (signal_make, signal.SIGKILL),
    "SIGTERM": (signal_program, signal.SIGTERM),
    "SIGTERM to make": (signal_make, signal.SIGTERM),
    "Ctrl-C": (signal_terminal, signal.SIGINT),
}


@pytest.mark.parametrize(("send", "number"), ENDS.values(), ids=ENDS)
def test_nothing_is_left_and_the_next_run_goes_on(start, kept_folder, send, number):
    """The next run is that of the next of these tests."""
    secrets, robots = kept_folder / "var" / "secrets", kept_folder / "var" / "robots.json"
    before = secrets.exists() and (secrets.read_text(), tokens(robots))
    copy = start(kept_folder / "var").until_ready()
    if before:
        assert (secrets.read_text(), tokens(robots)) == before
        assert "All invariants hold" in copy.manage("check_invariants").stdout
    family = copy.family()
    send(copy, number)
    eventually(lambda: nobody_of(family), what="all processes to be gone")
    copy.until_ended()
    assert (kept_folder / "var" / "environment").exists() is (number == signal.SIGKILL)


def tokens(robots) -> list[str]:
    return [robot["token"] for robot in json.loads(robots.read_text())["robots"]]


def nobody_of(family: dict[int, str]) -> bool:
    left = still_alive(family)
    assert not left, f"left are {left}"
    return True


@pytest.mark.quiet
def test_it_ends_within_the_seconds_that_are_promised(start, folder):
    copy = start(folder / "var").until_ready()
    family = copy.family()
    began = time.monotonic()
    signal_terminal(copy, signal.SIGINT)
    eventually(lambda: nobody_of(family), what="all processes to be gone")
    took_s = time.monotonic() - began
    print(f"Ctrl-C, and nothing is left after {took_s:.2f} s")
    assert took_s < PROMISED_S, copy.output


def test_two_copies_run_side_by_side(start, kept_folder, folder):
    one, two = start(kept_folder / "var"), start(folder / "b é 100%?", DROVER_ROBOTS="1")
    one.until_ready()
    two.until_ready()
    assert one.url != two.url
    assert len(one.robots()) == 2
    assert len(two.robots()) == 1
    two.stop()
    assert one.is_ready()


def test_a_signal_while_it_starts_ends_it_at_once(start, folder):
    copy = start(folder / "var")
    eventually(lambda: any("starting" in line for line in copy.lines))
    family = copy.family()
    os.kill(copy.supervisor(), signal.SIGTERM)
    copy.until_ended()
    assert "Drover is ready" not in copy.output
    assert not still_alive(family)
    start(folder / "var").until_ready()  # what was half made is made anew
