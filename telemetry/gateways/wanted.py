"""What drivers are told of the site's side: which robots are theirs, and what is wanted of each, in one statement each."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from fleet import rows
from missions.models import RUNNING_SQL
from telemetry.drivers.contract import Driver, Spec, Wanted
from telemetry.drivers.registry import settings

NOTHING = Wanted()

# the same names as the contract's, so that one decoder makes its structs of the whole answer
_WANTED = f"""
SELECT json_object_agg(r.id, json_build_object(
  'stopped', h.robot_id IS NOT NULL,
  'dispatch', CASE WHEN m.id IS NOT NULL THEN json_build_object(
    'mission', m.id, 'dispatch_no', m.dispatch_no, 'title', m.title, 'current', m.current_step,
    'accepted', m.started_at IS NOT NULL, 'paused', m.paused_at IS NOT NULL OR m.held_at IS NOT NULL OR h.robot_id IS NOT NULL,
    'stopping', m.stop_requested_at IS NOT NULL,
    'steps', (
      SELECT json_agg(json_build_object(
        'number', s.number, 'command', s.command, 'params', s.params, 'timeout_s', s.timeout_s,
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


class Enrolled(NamedTuple):
    """A robot in service and what its driver needs to know. `wrong`: why it cannot be driven; then `spec` is None."""

    robot: str
    driver: str
    brand: int
    address: str
    spec: Spec | None
    wrong: str = ""


_ENROLLED = """
SELECT r.id, b.driver, r.brand_id, r.address, b.profile::text, r.profile::text FROM fleet_robot r
JOIN fleet_brand b ON b.id = r.brand_id WHERE r.retired_at IS NULL AND b.driver = ANY(%s::text[]) ORDER BY r.id
"""


class Roll:
    """The robots of these drivers. Remembers settings that it has read."""

    def __init__(self, drivers: Iterable[Driver]) -> None:
        self._drivers = {driver.name: driver for driver in drivers}
        self._read: dict[tuple[str, str, str], tuple[Any, str]] = {}

    def call(self) -> list[Enrolled]:
        """All that are in service, in the order of their ids. One statement."""
        with connection.cursor() as cursor:
            cursor.execute(_ENROLLED, [rows.array(self._drivers)])
            found = cursor.fetchall()
        if len(self._read) > 2 * len(found) + 100:
            self._read.clear()
        return [self._enrolled(*row) for row in found]

    def _enrolled(self, robot: str, driver: str, brand: int, address: str, usual: str, own: str) -> Enrolled:
        key = (driver, usual, own)
        if key not in self._read:
            self._read[key] = self._profile(*key)
        profile, wrong = self._read[key]
        spec = None if wrong else Spec(id=robot, address=address, profile=profile)
        return Enrolled(robot, driver, brand, address, spec, wrong)

    def _profile(self, driver: str, usual: str, own: str) -> tuple[Any, str]:
        try:
            told = (msgspec.json.decode(text, type=dict[str, Any]) for text in (usual, own))
            return settings(self._drivers[driver], *told), ""
        except Exception as error:  # a driver's own check may raise anything
            return None, f"settings that {driver} cannot read: {error}"[:500]


def specs(drivers: Iterable[Driver]) -> list[Enrolled]:
    """As `Roll.call`, remembering nothing."""
    return Roll(drivers).call()
