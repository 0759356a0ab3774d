"""Deadlines of a mission: a pure function of its columns (I5, I6)."""

from datetime import datetime
from typing import Any

from fleet import deadlines as rules
from fleet.deadlines import Deadline

KINDS = (
    # column,          what happens when it passes
    ("queued", "say that it still waits, and why"),
    ("expires", "abort it, because it has not started"),
    ("undelivered", "say so; the assignment waits for the robot's link"),
    ("accepted", "send the assignment again; after the last try stop and abort as undeliverable"),
    (
        "step",
        "ask about the step, then do as its policy says: try again, skip it, or stop and abort with reason timeout",
    ),
    ("retry", "try the step again"),
    ("gap", "take what is missing as done where that may be inferred, else ask about it"),
    ("finished", "ask whether it has finished, then end the mission by the answer"),
    ("mission", "ask about the mission, then stop and abort with reason timeout"),
    ("answer", "go on without the robot's answer"),
    ("stop", "tell the robot to stop again; at last abort without confirmation and hold the robot"),
    ("robot_lost", "do as the policy for robots that are offline says: stop and abort, wait on, or hand over"),
    ("paused", "say that it is still paused"),
    ("held", "say that its robot is still stopped"),
)


def deadlines(mission: Any) -> list[Deadline]:
    """Open deadlines, the earliest first."""
    return rules.deadlines(mission, KINDS)


def next_due_at(mission: Any) -> datetime | None:
    """When the mission needs a look if nothing is heard; null when nothing is open."""
    return rules.next_due_at(mission, KINDS)
