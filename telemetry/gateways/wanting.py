"""What the site wants of robots that a driver speaks with, in one look at the database."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection

from missions.models import RUNNING_SQL
from telemetry.drivers.contract import Dispatch, Place, Step, Wanted

_WANTED = f"""
SELECT r.id, EXISTS (SELECT FROM fleet_hold h WHERE h.robot_id = r.id AND h.kind = 'stopped' AND h.released_at IS NULL),
  m.id, m.dispatch_no, m.title, m.current_step, m.started_at IS NOT NULL, m.paused_at IS NOT NULL OR m.held_at IS NOT NULL,
  m.stop_requested_at IS NOT NULL,
  (SELECT jsonb_agg(jsonb_build_object('number', s.number, 'command', s.command, 'params', s.params,
     'timeout_s', s.timeout_s, 'attempt', greatest(s.attempt, 1), 'outcome', s.outcome, 'started_at', s.started_at,
     'place', (SELECT jsonb_build_object('name', p.name, 'x', p.x, 'y', p.y, 'theta', p.theta,
        'node', coalesce(p.nodes ->> r.brand_id::text, '')) FROM fleet_place p
        WHERE p.site_id = m.site_id AND p.name = s.params ->> 'place')) ORDER BY s.number)
   FROM missions_step s WHERE s.mission_id = m.id)::text
FROM fleet_robot r LEFT JOIN missions_mission m ON m.robot_id = r.id AND {RUNNING_SQL.format("m")}
WHERE r.id = ANY(%s)
"""

_steps = msgspec.json.Decoder(list[dict[str, Any]]).decode


def wanted(robots: Iterable[str]) -> dict[str, Wanted]:
    """Robot → what the site wants of it now. Raises `django.db.Error`."""
    with connection.cursor() as cursor:
        cursor.execute(_WANTED, [list(robots)])
        return {
            robot: Wanted(stopped=stopped, dispatch=None if mission is None else _dispatch(mission, *columns))
            for robot, stopped, mission, *columns in cursor.fetchall()
        }


def _dispatch(
    mission: UUID, dispatch_no: int, title: str, current: int, accepted: bool, paused: bool, stopping: bool, steps: str
) -> Dispatch:
    return Dispatch(
        mission=mission, dispatch_no=dispatch_no, title=title, current=current, accepted=accepted, paused=paused,
        stopping=stopping, steps=tuple(_step(step) for step in _steps(steps or "[]")),
    )  # fmt: skip


def _step(step: dict[str, Any]) -> Step:
    place = step.pop("place")
    return msgspec.convert({**step, "place": place and msgspec.convert(place, Place)}, Step)
