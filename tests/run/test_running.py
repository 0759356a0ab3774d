"""What `make run` starts, and what it does when a part of it dies. One copy serves all these tests."""

import os
import signal

import pytest

from tests.eventually import eventually
from tests.run.copies import Copy, command_line

pytestmark = pytest.mark.processes

PARTS = {
    "web": ("daphne", "fleet.asgi"),
    "worker": ("manage.py worker",),
    "robots": ("manage.py robots",),
    "postgres": ("/bin/postgres",),
    "durable redis": ("valkey-server", "stream.sock"),
    "live redis": ("valkey-server", "live.sock"),
}


def part(copy: Copy, name: str) -> int:
    if name == "postgres":  # its own children show titles instead of a command line
        return next(pid for pid in copy.family() if "/bin/postgres" in command_line(pid))
    if name.endswith("redis"):  # shows a title, too
        return next(pid for pid in copy.family() if PARTS[name][1] in command_line(pid))
    return copy.pid(*PARTS[name])


def there(copy: Copy, name: str) -> int:
    """A part, as soon as it is one process: it may be starting, and looks like its parent until then."""
    return eventually(lambda: part(copy, name), what=name)


def test_parts_and_robots_are_processes_of_their_own(running):
    pids = {name: there(running, name) for name in PARTS}
    robots = eventually(lambda: _robots(running, 2), what="two robots' processes")
    assert len({*pids.values(), *robots}) == len(PARTS) + 2


def _robots(copy: Copy, count: int) -> list[int]:
    found = copy.pids("telemetry.simulator.robot")
    return found if len(found) == count else []


def test_it_says_where_it_is_and_how_to_sign_in(running):
    assert running.get("healthz") == (200, "ok\n")
    assert len({running.password(user) for user in ("admin", "supervisor", "auditor")}) == 3
    assert (running.var / "secrets").stat().st_mode & 0o777 == 0o600
    assert (running.var / "robots.json").stat().st_mode & 0o777 == 0o600
    assert len(running.robots()) == 2


def test_status_and_invariants_find_the_running_copy_from_another_terminal(running):
    status = running.manage("status")
    assert "ready         yes" in status.stdout, status.stdout + status.stderr
    invariants = running.manage("check_invariants")
    assert (invariants.returncode, invariants.stdout) == (0, "All invariants hold.\n"), invariants.stderr


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_killed_is_started_again(running, name):
    old = there(running, name)
    os.kill(old, signal.SIGKILL)

    def again() -> int:
        new = part(running, name)
        return new if new != old else 0

    eventually(again, what=f"a new {name}")
    eventually(running.is_ready, what="the copy to be ready again")


def test_no_part_has_complained(running):
    assert "Traceback" not in running.output, running.output
