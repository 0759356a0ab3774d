"""Deadlines of a row: a pure function of its columns (I5, I6). Here with those of a robot."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from operator import attrgetter
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


def deadlines(row: Any, kinds: tuple[tuple[str, str], ...] = KINDS) -> list[Deadline]:
    """Open deadlines, the earliest first. `kinds`: the table of what can be due for such a row."""
    found = [(kind, getattr(row, f"{kind}_due_at"), then) for kind, then in kinds]
    return sorted((Deadline(*row) for row in found if row[1] is not None), key=lambda d: d.due_at)


def next_due_at(row: Any, kinds: tuple[tuple[str, str], ...] = KINDS) -> datetime | None:
    """When the row needs a look if nothing is heard; null when nothing is open."""
    return min((due_at for due_at in _columns(kinds)(row) if due_at is not None), default=None)


@cache
def _columns(kinds: tuple[tuple[str, str], ...]) -> Callable[[Any], tuple[datetime | None, ...]]:
    """Asked for with every event: all columns at once."""
    return attrgetter(*(f"{kind}_due_at" for kind, _ in kinds))
