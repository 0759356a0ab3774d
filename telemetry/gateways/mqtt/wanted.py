"""What the site wants of robots that a driver speaks with, in one statement and one decoding."""

from collections.abc import Iterable

import msgspec
from django.db import connection

from fleet import rows
from missions.models import RUNNING_SQL
from telemetry.drivers.contract import Wanted

NOTHING = Wanted()

# the same names as the contract's, so that one decoder makes its structs of the whole answer
_WANTED = f"""
SELECT json_object_agg(r.id, json_build_object(
  'stopped', h.robot_id IS NOT NULL,
  'dispatch', CASE WHEN m.id IS NOT NULL THEN json_build_object(
    'mission', m.id, 'dispatch_no', m.dispatch_no, 'current', m.current_step,
    'accepted', m.started_at IS NOT NULL, 'paused', m.paused_at IS NOT NULL OR m.held_at IS NOT NULL OR h.robot_id IS NOT NULL,
    'stopping', m.stop_requested_at IS NOT NULL,
    'steps', (
      SELECT json_agg(json_build_object(
        'number', s.number, 'command', s.command, 'params', s.params,
        'attempt', greatest(s.attempt, 1), 'outcome', s.outcome, 'started_at', s.started_at,
        'place', CASE WHEN p.id IS NOT NULL THEN json_build_object(
          'name', p.name, 'x', p.x, 'y', p.y, 'theta', p.theta, 'node', coalesce(p.nodes->>r.brand_id::text, '')
        ) END
      ) ORDER BY s.number)
      FROM missions_step s LEFT JOIN fleet_place p ON p.site_id = m.site_id AND p.name = s.params->>'place'
      WHERE s.mission_id = m.id
    )
  ) END
))::text
FROM fleet_robot r
LEFT JOIN missions_mission m ON m.robot_id = r.id AND {RUNNING_SQL.format("m")}
LEFT JOIN (SELECT DISTINCT robot_id FROM fleet_hold WHERE released_at IS NULL AND kind = 'stopped') h ON h.robot_id = r.id
WHERE r.id = ANY(%s::text[]) AND (m.id IS NOT NULL OR h.robot_id IS NOT NULL)
"""

_wanted = msgspec.json.Decoder(dict[str, Wanted]).decode


def wanted(robots: Iterable[str]) -> dict[str, Wanted]:
    """What the site wants of each of these, as the database has it now. Nobody is missing."""
    asked = dict.fromkeys(robots, NOTHING)
    with connection.cursor() as cursor:
        cursor.execute(_WANTED, [rows.array(asked)])
        (found,) = cursor.fetchone()
    return asked | _wanted(found) if found else asked
