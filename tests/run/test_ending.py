"""However `make run` ends, nothing is left, and the next run goes on with the same data."""

import os
import signal
import time

import pytest

from tests.eventually import eventually
from tests.run.copies import Copy, still_alive

pytestmark = pytest.mark.processes


def signal_program(copy: Copy, number: signal.Signals) -> None:
    os.kill(copy.supervisor(), number)


def signal_make(copy: Copy, number: signal.Signals) -> None:
    os.kill(copy.make.pid, number)


def signal_terminal(copy: Copy, number: signal.Signals) -> None:
    """As Ctrl-C does: everybody in the foreground."""
    os.killpg(copy.make.pid, number)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        (signal_program, signal.SIGTERM),
        (signal_make, signal.SIGTERM),
        (signal_terminal, signal.SIGINT),
        (signal_program, signal.SIGKILL),
        (signal_make, signal.SIGKILL),
    ],
    ids=["SIGTERM", "SIGTERM to make", "Ctrl-C", "kill -9", "kill -9 of make"],
)
def test_nothing_is_left_within_5_s_and_the_next_run_goes_on(start, kept_folder, send, number):
    secrets = kept_folder / "var" / "secrets"
    known = secrets.read_text() if secrets.exists() else ""
    copy = start(kept_folder / "var").until_ready()
    family, password = copy.family(), copy.password("admin")
    tokens = [robot["token"] for robot in copy.robots()]
    assert password in known or not known
    began = time.monotonic()
    send(copy, number)
    eventually(lambda: not still_alive(family), 5, f"all processes to be gone; left are {still_alive(family)}")
    copy.until_ended(5)
    assert time.monotonic() - began < 5
    killed = number == signal.SIGKILL
    assert (kept_folder / "var" / "environment").exists() is killed

    if killed:  # after the others the next of these tests tells
        again = start(kept_folder / "var").until_ready()
        assert again.password("admin") == password
        assert [robot["token"] for robot in again.robots()] == tokens
        assert "All invariants hold" in again.manage("check_invariants").stdout


def test_two_copies_run_side_by_side(start, folder):
    one, two = start(folder / "a"), start(folder / "b é 100%?", DROVER_ROBOTS="1")
    one.until_ready()
    two.until_ready()
    assert one.url != two.url
    assert len(one.robots()) == 2
    assert len(two.robots()) == 1
    two.stop()
    assert one.is_ready()


def test_a_signal_while_it_starts_ends_it_at_once(start, folder):
    copy = start(folder / "var")
    eventually(lambda: any("starting" in line for line in copy.lines), 20)
    family = copy.family()
    os.kill(copy.supervisor(), signal.SIGTERM)
    copy.until_ended(5)
    assert not still_alive(family)
    start(folder / "var").until_ready()  # what was half made is made anew
