"""Deadlines that were set before the wall clock jumped ahead wait as much longer: nobody's time is cut short by it.

They stay as they are stored (I6); what they wait is kept by the worker that saw the jump. Times that people name (when a
mission expires, a hold ends) are not counted from anything, so they are none of these.
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
        ] = {}  # whose → kind → when it was due, how much longer
        self._over: datetime | None = None  # then the last of them has waited enough

    def jumped(self, ahead_s: float) -> None:
        """The wall clock has just jumped ahead: what is open now was set before."""
        more, before = timedelta(seconds=ahead_s), self._by
        self._by, self._over = {}, None
        for key, deadline in _open():
            due, longer = before.get(key, {}).get(deadline.kind, _NOT)
            longer = (longer if due == deadline.due_at else timedelta()) + more
            self._by.setdefault(key, {})[deadline.kind] = (deadline.due_at, longer)
            self._over = max(self._over or deadline.due_at, deadline.due_at + longer)

    def spare(self, key: Key, until: datetime) -> Callable[[Deadline], bool]:
        """Does a deadline of this mission or robot wait on, at `until`?"""
        mine = self._by.get(key, {})

        def waits(deadline: Deadline) -> bool:
            due, longer = mine.get(deadline.kind, _NOT)
            return due == deadline.due_at and deadline.due_at + longer > until

        return waits

    def resting(self, keys: Collection[Key], until: datetime) -> set[Key]:
        """Those of which no deadline has passed really. Usually nobody, at no cost; else one query for each kind of key."""
        if self._over is None or until >= self._over:
            self._by, self._over = {}, None
            return set()
        found: set[Key] = set()
        for row, its in _rows([key for key in keys if key in self._by]):
            waits = self.spare(row.pk, until)
            if all(waits(deadline) for deadline in its if deadline.due_at <= until):
                found.add(row.pk)
        return found


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
