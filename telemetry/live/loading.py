"""What the live page needs of the database: one statement per load, for the entities asked for and no others."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from fleet.robots.abilities import ABLE_SQL, NEEDED_SQL
from missions.models import OPEN_SQL, QUEUED_SQL, RUNNING_SQL, WAITING_SQL, State

LONG = 300  # characters of a text that a card can ever show


class Hold(msgspec.Struct):
    number: int
    kind: str
    why: str
    by: str
    since: datetime
    until: datetime | None
    asked_at: datetime | None
    confirmed_at: datetime | None
    unconfirmed_at: datetime | None
    mission: str | None


class RobotRow(msgspec.Struct):
    """A robot as its card shows it. `mission_…` is the dispatched open mission, `next_title` the one that waits."""

    id: str
    version: int
    site: int
    name: str
    mode: str
    mode_since: datetime | None
    presence: str
    presence_since: datetime | None
    fault: str
    capabilities: list[str] | None
    charge_below_pct: int | None
    charge_until_pct: int | None
    holds: list[Hold]
    next_title: str | None
    mission: str | None
    mission_version: int | None
    mission_title: str | None
    mission_state: str | None
    mission_step: int | None
    mission_steps: int | None
    mission_command: str | None
    mission_params: dict[str, Any] | None
    mission_dispatched_at: datetime | None
    mission_paused_at: datetime | None
    mission_stop_requested_at: datetime | None
    mission_stop_requested_by: str | None
    mission_attempt: int | None = None
    mission_retry_for: str | None = None
    mission_retry_due_at: datetime | None = None
    suspect_after_s: int = 0
    safety: bool = False
    own_word: bool = False


class Waits(msgspec.Struct):
    """What counts of a mission that is not dispatched, for the rule that says why. `not_before`: null once it passed.

    `ahead`: how many are before it in its robot's queue, the last of them called `behind`.
    """

    commands: list[str] = []
    important: bool = False
    unapproved: bool = False
    not_before: datetime | None = None
    after: list[tuple[str, str]] = []
    charger: str = ""
    charger_taken_by: str | None = None
    ahead: int = 0
    behind: str | None = None


class MissionRow(msgspec.Struct):
    """A mission as its row in the strip shows it."""

    id: str
    version: int
    site: int
    title: str
    state: str
    step: int
    steps: int
    command: str | None
    params: dict[str, Any] | None
    robot: str | None
    robot_name: str | None
    robot_presence: str | None
    robot_presence_since: datetime | None
    robot_retired: bool | None
    waits: Waits | None
    priority: int
    created_at: datetime
    queued_at: datetime | None
    dispatched_at: datetime | None
    delivered_at: datetime | None
    paused_at: datetime | None
    stop_requested_at: datetime | None
    stop_requested_by: str
    stop_confirmed: bool | None
    abort_reason: str
    abort_detail: str
    ended_at: datetime | None
    held_at: datetime | None = None
    retry_for: str = ""
    retry_due_at: datetime | None = None
    attempt: int | None = None
    failed_attempts: int = 0
    timeout_retries: int = 0
    failure_retries: int = 0


class Loaded(NamedTuple):
    robots: dict[str, RobotRow]
    missions: dict[str, MissionRow]


_ROBOTS = f"""
SELECT 'robot', jsonb_build_object(
  'id', r.id, 'version', r.version, 'site', r.site_id, 'name', r.name, 'mode', r.mode, 'mode_since', r.mode_since,
  'presence', r.presence, 'presence_since', r.presence_since, 'fault', left(r.fault, {LONG}),
  'safety', r.faults @> '[{{"kind": "safety"}}]', 'capabilities', {ABLE_SQL}, 'own_word', r.capabilities IS NOT NULL,
  'charge_below_pct', b.charge_below_pct, 'charge_until_pct', b.charge_until_pct,
  'suspect_after_s', b.suspect_after_s,
  'holds', COALESCE((
    SELECT jsonb_agg(jsonb_build_object('number', h.number, 'kind', h.kind, 'why', left(h.why, {LONG}), 'by', h.by,
      'since', h.since, 'until', h.until, 'asked_at', h.asked_at, 'confirmed_at', h.confirmed_at, 'unconfirmed_at', h.unconfirmed_at,
      'mission', h.mission) ORDER BY h.number)
    FROM fleet_hold h WHERE h.robot_id = r.id AND h.released_at IS NULL), '[]'),
  'next_title', (
    SELECT w.title FROM missions_mission w WHERE w.robot_id = r.id AND {QUEUED_SQL.format("w")}
    ORDER BY w.priority DESC, w.queued_at, w.id LIMIT 1),
  'mission', m.id, 'mission_version', m.version, 'mission_title', m.title, 'mission_state', m.state,
  'mission_step', m.current_step, 'mission_steps', (SELECT count(*) FROM missions_step n WHERE n.mission_id = m.id),
  'mission_command', s.command, 'mission_params', s.params,
  'mission_dispatched_at', m.dispatched_at, 'mission_paused_at', m.paused_at,
  'mission_stop_requested_at', m.stop_requested_at, 'mission_stop_requested_by', m.stop_requested_by,
  'mission_attempt', s.attempt, 'mission_retry_for', m.retry_for, 'mission_retry_due_at', m.retry_due_at)::text
FROM fleet_robot r
JOIN fleet_brand b ON b.id = r.brand_id
LEFT JOIN missions_mission m ON m.robot_id = r.id AND {RUNNING_SQL.format("m")}
LEFT JOIN missions_step s ON s.mission_id = m.id AND s.number = m.current_step
WHERE r.retired_at IS NULL"""

_MISSIONS = f"""
SELECT 'mission', jsonb_build_object(
  'id', m.id, 'version', m.version, 'site', m.site_id, 'title', m.title, 'state', m.state, 'step', m.current_step,
  'steps', (SELECT count(*) FROM missions_step n WHERE n.mission_id = m.id), 'command', s.command, 'params', s.params,
  'robot', r.id, 'robot_name', r.name, 'robot_presence', r.presence, 'robot_presence_since', r.presence_since,
  'robot_retired', r.retired_at IS NOT NULL,
  'waits', CASE WHEN {WAITING_SQL.format("m")} THEN jsonb_build_object(
    'commands', COALESCE((SELECT jsonb_agg(DISTINCT {NEEDED_SQL}) FROM missions_step n WHERE n.mission_id = m.id), '[]'),
    'important', m.importance = 'important', 'unapproved', m.needs_approval AND m.approved_at IS NULL,
    'not_before', CASE WHEN m.not_before > now() THEN m.not_before END,
    'after', COALESCE((
      SELECT jsonb_agg(jsonb_build_array(o.title, o.state) ORDER BY d.number)
      FROM missions_dependency d JOIN missions_mission o ON o.id = d.on_id
      WHERE d.mission_id = m.id AND o.state <> 'success'), '[]'),
    'charger', m.charger,
    'charger_taken_by', CASE WHEN m.charger <> '' THEN (
      SELECT c.title FROM missions_mission c WHERE c.site_id = m.site_id AND c.charger = m.charger
      AND {RUNNING_SQL.format("c")}) END,
    'ahead', COALESCE(line.ahead, 0), 'behind', line.behind) END,
  'priority', m.priority, 'created_at', m.created_at, 'queued_at', m.queued_at,
  'dispatched_at', m.dispatched_at,
  'delivered_at', m.delivered_at, 'paused_at', m.paused_at, 'stop_requested_at', m.stop_requested_at,
  'stop_requested_by', m.stop_requested_by, 'stop_confirmed', m.stop_confirmed, 'abort_reason', m.abort_reason,
  'abort_detail', left(m.abort_detail, {LONG}), 'ended_at', m.ended_at,
  'held_at', m.held_at, 'retry_for', m.retry_for, 'retry_due_at', m.retry_due_at, 'attempt', s.attempt,
  'failed_attempts', COALESCE(s.failed_attempts, 0), 'timeout_retries', COALESCE(s.timeout_retries, 0),
  'failure_retries', COALESCE(s.failure_retries, 0))::text
FROM missions_mission m
LEFT JOIN fleet_robot r ON r.id = m.robot_id
LEFT JOIN missions_step s ON s.mission_id = m.id AND s.number = m.current_step
LEFT JOIN LATERAL (
  SELECT count(*) AS ahead, (array_agg(q.title ORDER BY q.priority, q.queued_at DESC, q.id DESC))[1] AS behind
  FROM missions_mission q
  WHERE {QUEUED_SQL.format("m")} AND {QUEUED_SQL.format("q")} AND q.robot_id = m.robot_id
  AND (q.priority > m.priority OR q.priority = m.priority AND (q.queued_at, q.id) < (m.queued_at, m.id))
) line ON TRUE
WHERE """

_ALL = f"{_ROBOTS} UNION ALL {_MISSIONS} {OPEN_SQL.format('m')}"
# a robot that changes also changes why its waiting missions wait
_SOME = f"""{_ROBOTS} AND r.id = ANY(%(robots)s) UNION ALL {_MISSIONS} m.id = ANY(%(missions)s::uuid[])
  OR (m.robot_id = ANY(%(robots)s) AND {WAITING_SQL.format("m")})"""

_VERSIONS = f"""
SELECT 'robot', id, version FROM fleet_robot WHERE retired_at IS NULL
UNION ALL SELECT 'mission', id::text, version FROM missions_mission m WHERE {OPEN_SQL.format("m")}"""
_ENDED = f"""
SELECT site_id, CASE WHEN state = '{State.ABORTED}' AND stop_confirmed IS FALSE THEN 'unconfirmed' ELSE state END, count(*)
FROM missions_mission WHERE ended_at > now() - interval '24 hours' GROUP BY 1, 2"""

_robot = msgspec.json.Decoder(RobotRow).decode
_mission = msgspec.json.Decoder(MissionRow).decode


def load(robots: Iterable[str] | None, missions: Iterable[str] = ()) -> Loaded:
    """Rows by id. None: all robots in service and all open missions. What is not there is absent."""
    found = Loaded({}, {})
    with connection.cursor() as cursor:
        if robots is None:
            cursor.execute(_ALL)
        else:
            cursor.execute(_SOME, {"robots": list(robots), "missions": list(missions)})
        for kind, text in cursor.fetchall():
            if kind == "robot":
                robot = _robot(text)
                found.robots[robot.id] = robot
            else:
                mission = _mission(text)
                found.missions[mission.id] = mission
    return found


class Versions(NamedTuple):
    """The version of every robot in service and every open mission, and (site, state) → missions ended in 24 h."""

    robots: dict[str, int]
    missions: dict[str, int]
    ended: dict[tuple[int, str], int]


def versions() -> Versions:
    """What a page must agree with. Versions only grow, so nothing that commits late can be missed."""
    found = Versions({}, {}, ended())
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS)
        for kind, entity_id, version in cursor.fetchall():
            (found.robots if kind == "robot" else found.missions)[entity_id] = version
    return found


def ended() -> dict[tuple[int, str], int]:
    """(site, state) → missions that ended in the last 24 h; “unconfirmed” are those aborted whose robot never said that it stopped."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDED)
        return {(site, state): count for site, state, count in cursor.fetchall()}
