"""What the site wants of robots that a driver speaks with, in one statement and one decoding.

A place is as it was sent with the assignment: what people change of it is for the missions to come.
"""

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
    'resuming', m.paused_at IS NOT NULL AND h.robot_id IS NULL AND coalesce((
      SELECT c.kind = 'mission.resume' AND c.state IN ('open', 'delivered') FROM fleet_command c
      WHERE c.robot_id = r.id AND c.created_at >= m.dispatched_at
        AND (c.mission = m.id AND c.kind IN ('mission.pause', 'mission.resume') OR c.kind = 'robot.stop')
      ORDER BY c."order" DESC LIMIT 1
    ), FALSE),
    'steps', (
      SELECT json_agg(json_build_object(
        'number', s.number, 'command', s.command, 'params', s.params,
        'attempt', greatest(s.attempt, 1), 'outcome', s.outcome, 'started_at', s.started_at,
        'place', CASE WHEN sent.step->'params'->'x' IS NOT NULL OR p.id IS NOT NULL THEN json_build_object(
          'name', s.params->>'place', 'x', coalesce((sent.step->'params'->>'x')::float8, p.x),
          'y', coalesce((sent.step->'params'->>'y')::float8, p.y),
          'theta', coalesce((sent.step->'params'->>'theta')::float8, p.theta),
          'node', coalesce(sent.step->>'node', p.nodes->>r.brand_id::text, '')
        ) END
      ) ORDER BY s.number)
      FROM missions_step s
      LEFT JOIN LATERAL (SELECT a.steps->(s.number - 1) AS step) sent ON TRUE
      LEFT JOIN fleet_place p ON p.site_id = m.site_id AND p.name = s.params->>'place'
      WHERE s.mission_id = m.id
    )
  ) END
))::text
FROM fleet_robot r
LEFT JOIN missions_mission m ON m.robot_id = r.id AND {RUNNING_SQL.format("m")}
LEFT JOIN LATERAL (
  SELECT c.body::json->'data'->'steps' AS steps FROM fleet_command c
  WHERE c.mission = m.id AND c.dispatch_no = m.dispatch_no AND c.kind = 'mission.assign' ORDER BY c."order" LIMIT 1
) a ON TRUE
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
