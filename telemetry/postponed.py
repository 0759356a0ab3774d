"""Deadlines that were set before the wall clock jumped ahead wait as much longer: nobody's time is cut short by it.

They stay as they are stored (I6); what they wait is kept by the worker that saw the jump. Times that people name (when a
mission expires, a hold ends) are not counted from anything, so they are none of these.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID

from fleet.deadlines import Deadline
from fleet.deadlines import deadlines as robot_deadlines
from fleet.models import Robot
from missions.deadlines import deadlines
from missions.models import Mission

NAMED = ("expires", "queued", "hold")  # by people, or of no consequence

Key = UUID | str  # of a mission, of a robot


class Postponed:
    def __init__(self) -> None:
        self._by: dict[
            tuple[Key, str], tuple[datetime, timedelta]
        ] = {}  # (whose, kind) → when it was due, how much longer

    def jumped(self, ahead_s: float) -> None:
        """The wall clock has just jumped ahead: what is open now was set before."""
        more, before = timedelta(seconds=ahead_s), self._by
        self._by = {}
        for key, deadline in _open():
            due, longer = before.get((key, deadline.kind), (None, timedelta()))
            longer = longer if due == deadline.due_at else timedelta()
            self._by[key, deadline.kind] = (deadline.due_at, longer + more)

    def spare(self, key: Key, until: datetime) -> Callable[[Deadline], bool]:
        """Does a deadline of this mission or robot wait on, at `until`?"""

        def waits(deadline: Deadline) -> bool:
            due, longer = self._by.get((key, deadline.kind), (None, timedelta()))
            return due == deadline.due_at and deadline.due_at + longer > until

        return waits

    def rests(self, key: Key, until: datetime) -> bool:
        """Has none of its deadlines passed really? False is the usual answer, at no cost."""
        if not self._by:
            return False
        self._by = {whose: (due, longer) for whose, (due, longer) in self._by.items() if due + longer > until}
        if not any(whose == key for whose, _ in self._by):
            return False
        waits = self.spare(key, until)
        row = (Robot if isinstance(key, str) else Mission).objects.filter(pk=key).first()
        found = [] if row is None else robot_deadlines(row) if isinstance(key, str) else deadlines(row)
        return all(waits(deadline) for deadline in found if deadline.due_at <= until)


def _open() -> Iterator[tuple[Key, Deadline]]:
    for mission in Mission.objects.filter(next_due_at__isnull=False).iterator(500):
        yield from ((mission.pk, deadline) for deadline in deadlines(mission) if deadline.kind not in NAMED)
    for robot in Robot.objects.filter(next_due_at__isnull=False).iterator(500):
        yield from ((robot.pk, deadline) for deadline in robot_deadlines(robot) if deadline.kind not in NAMED)
