"""Deadlines that were set before the wall clock jumped wait as long as they were to: no jump cuts time short or draws it out.

They stay as they are stored (I6); by how much they move is kept by the worker that saw the jump. Times that people name
(when a mission expires, a hold ends) are not counted from anything, so they are none of these.
"""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from fleet.deadlines import Deadline
from fleet.deadlines import deadlines as robot_deadlines
from fleet.models import Robot
from missions.deadlines import deadlines
from missions.models import Mission

NAMED = ("expires", "queued", "hold")  # by people, or of no consequence

Key = UUID | str  # of a mission, of a robot
_NOT = (None, timedelta())


class Postponed:
    def __init__(self) -> None:
        self._by: dict[
            Key, dict[str, tuple[datetime, timedelta]]
        ] = {}  # whose → kind → when it was due, by how much that moved
        self._over: datetime | None = None  # then the last of them is past, moved or not

    def jumped(self, ahead_s: float) -> None:
        """The wall clock has just jumped ahead, or back (negative): what is open now was set before."""
        more, before = timedelta(seconds=ahead_s), self._by
        self._by, self._over = {}, None
        for key, deadline in _open():
            due, moved = before.get(key, {}).get(deadline.kind, _NOT)
            moved = (moved if due == deadline.due_at else timedelta()) + more
            self._by.setdefault(key, {})[deadline.kind] = (deadline.due_at, moved)
            last = max(deadline.due_at, deadline.due_at + moved)
            self._over = max(self._over or last, last)

    def passed(self, key: Key, until: datetime) -> Callable[[Deadline], bool]:
        """Is a deadline of this mission or robot past, at `until`?"""
        mine = self._by.get(key, {})

        def passed(deadline: Deadline) -> bool:
            due, moved = mine.get(deadline.kind, _NOT)
            return deadline.due_at + (moved if due == deadline.due_at else timedelta()) <= until

        return passed

    def early(self, until: datetime) -> list[tuple[Key, datetime]]:
        """Missions and robots of which one may be past that was set for later, and when it was; usually nobody, at no cost."""
        return [
            (key, due + moved)
            for key, its in self._by.items()
            for due, moved in its.values()
            if due + moved <= until < due
        ]

    def resting(self, keys: Collection[Key], until: datetime) -> set[Key]:
        """Those of which no deadline has passed really. Usually nobody, at no cost; else one query for each kind of key."""
        if self._over is None or until >= self._over:
            self._by, self._over = {}, None
            return set()
        found: set[Key] = set()
        for row, its in _rows([key for key in keys if key in self._by]):
            if not any(map(self.passed(row.pk, until), its)):
                found.add(row.pk)
            self._forget(row.pk, {deadline.kind: deadline.due_at for deadline in its})
        return found

    def _forget(self, key: Key, now_set_for: dict[str, datetime]) -> None:
        """What is not due any more, or anew since the jump."""
        mine = self._by[key]
        for kind in [kind for kind, (due, _) in mine.items() if now_set_for.get(kind) != due]:
            del mine[kind]
        if not mine:
            del self._by[key]


def _rows(keys: Collection[Key]) -> Iterator[tuple[Any, list[Deadline]]]:
    missions, robots = ([key for key in keys if isinstance(key, kind)] for kind in (UUID, str))
    if missions:
        yield from ((row, deadlines(row)) for row in Mission.objects.filter(pk__in=missions))
    if robots:
        yield from ((row, robot_deadlines(row)) for row in Robot.objects.filter(pk__in=robots))


def _open() -> Iterator[tuple[Key, Deadline]]:
    for mission in Mission.objects.filter(next_due_at__isnull=False).iterator(500):
        yield from ((mission.pk, deadline) for deadline in deadlines(mission) if deadline.kind not in NAMED)
    for robot in Robot.objects.filter(next_due_at__isnull=False).iterator(500):
        yield from ((robot.pk, deadline) for deadline in robot_deadlines(robot) if deadline.kind not in NAMED)
