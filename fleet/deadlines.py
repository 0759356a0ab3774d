"""Deadlines of a robot: a pure function of its columns, as for missions (I5, I6)."""

from datetime import datetime
from typing import Any, NamedTuple

KINDS = (
    # column (…_due_at), what happens when it passes
    ("stop", "tell it again to stop; after 15 s say that the stop is not confirmed"),
    ("hold", "the hold ends by itself: the robot may get work again"),
)


class Deadline(NamedTuple):
    """`due_at` is absolute; `then` says in words what will happen."""

    kind: str
    due_at: datetime
    then: str


def deadlines(robot: Any) -> list[Deadline]:
    """Open deadlines, the earliest first."""
    found = [(kind, getattr(robot, f"{kind}_due_at"), then) for kind, then in KINDS]
    return sorted((Deadline(*row) for row in found if row[1] is not None), key=lambda d: d.due_at)


def next_due_at(robot: Any) -> datetime | None:
    """When the robot needs a look if nothing is heard; null when nothing is open."""
    return min((d.due_at for d in deadlines(robot)), default=None)
