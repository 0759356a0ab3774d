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
    ("accepted", "send the assignment again; after 5 tries stop and abort as undeliverable"),
    ("step", "ask about the step, then stop and abort with reason timeout"),
    ("finished", "ask whether it has finished, then end the mission by the answer"),
    ("mission", "ask about the mission, then stop and abort with reason timeout"),
    ("answer", "go on without the robot's answer"),
    ("stop", "abort without confirmation and hold the robot"),
    ("robot_lost", "stop and abort with reason robot fault"),
    ("paused", "say that it is still paused"),
)


def deadlines(mission: Any) -> list[Deadline]:
    """Open deadlines, the earliest first."""
    return rules.deadlines(mission, KINDS)


def next_due_at(mission: Any) -> datetime | None:
    """When the mission needs a look if nothing is heard; null when nothing is open."""
    return rules.next_due_at(mission, KINDS)
