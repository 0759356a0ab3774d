"""Why a mission goes now: what came last of all that had to come before it. The cause of a dispatch out of the queue."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from fleet.models import Robot
from missions.models import Dependency, Mission

SAME_MOMENT = timedelta(seconds=5)  # a robot that says idle this near to its mission's end says the same thing twice
_OF_ROBOTS = """
SELECT r.id, m.id, m.ended_at, h.released_at FROM unnest(%s::text[]) AS r(id)
LEFT JOIN LATERAL (
  SELECT id, ended_at FROM missions_mission WHERE robot_id = r.id AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT 1
) m ON TRUE
LEFT JOIN LATERAL (
  SELECT released_at FROM fleet_hold WHERE robot_id = r.id AND released_at IS NOT NULL ORDER BY released_at DESC LIMIT 1
) h ON TRUE
"""


class _Robot(NamedTuple):
    """What it had last, and when that ended; when the last of its holds was released."""

    mission: UUID | None
    ended_at: datetime | None
    released_at: datetime | None


@dataclass(frozen=True, slots=True)
class Before:
    """What came before, of many robots and missions, read with two queries."""

    robots: dict[str, _Robot]
    after: dict[UUID, tuple[UUID, datetime]]  # of what a mission waited for, the last to end, and when it did

    @classmethod
    def of(cls, robots: Collection[str], missions: Collection[UUID]) -> "Before":
        with connection.cursor() as cursor:
            cursor.execute(_OF_ROBOTS, [list(robots)])
            had = {robot: _Robot(*rest) for robot, *rest in cursor.fetchall()}
        ended = Dependency.objects.filter(mission__in=missions, on__ended_at__isnull=False).order_by("on__ended_at")
        return cls(had, {m: (on, at) for m, on, at in ended.values_list("mission", "on", "on__ended_at")})

    def cause(self, mission: Mission, robot: Robot) -> str:
        """`queue:` and what came last."""
        had, (on, on_ended_at) = self.robots[robot.pk], self.after.get(mission.pk, (None, None))
        by_itself = had.ended_at and robot.mode_since and abs(robot.mode_since - had.ended_at) < SAME_MOMENT
        found = [
            (mission.queued_at, "asked to run"),
            (mission.not_before, "not_before reached"),
            (had.ended_at, f"{robot.pk} free after mission:{had.mission}"),
            (had.released_at, f"{robot.pk} released"),
            (on_ended_at, f"after mission:{on}"),
            (robot.presence_since, f"{robot.pk} {robot.presence}"),
            (None if by_itself else robot.mode_since, f"{robot.pk} {robot.mode}"),
        ]
        known = [(at, words) for at, words in found if at is not None]
        return f"queue:{max(known)[1]}" if known else "queue"
