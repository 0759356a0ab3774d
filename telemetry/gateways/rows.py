"""What gateways ask PostgreSQL about robots and their links: whose token, which session, which commands."""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

import msgspec
from django.db import connection

from fleet.robots.credentials import credential_of_token
from telemetry.generation import SPAN
from telemetry.models import Link
from telemetry.protocol import URGENT


class Holder(NamedTuple):
    """Whose token it is, and which credential: it may be revoked later."""

    robot: str
    credential: int


def holder_of(token: str) -> Holder | None:
    found = credential_of_token(token)
    return Holder(found.robot_id, found.pk) if found else None


class Opened(NamedTuple):
    session: int
    applied: dict[int, int]  # session → seq; the newest sessions


# a robot that is new here may have had a link before the site was restored: it begins in the newest generation
_OPEN = f"""
WITH opened AS (
  INSERT INTO telemetry_link (robot_id, session, gateway, opened_at)
  SELECT %(robot)s, 1 + coalesce(max(session), 0) / {SPAN} * {SPAN}, %(gateway)s, now() FROM telemetry_link
  ON CONFLICT (robot_id) DO UPDATE
    SET session = telemetry_link.session + 1, gateway = EXCLUDED.gateway, opened_at = EXCLUDED.opened_at
  RETURNING session
)
SELECT opened.session, w.session, w.applied_seq FROM opened LEFT JOIN LATERAL (
  SELECT session, applied_seq FROM telemetry_watermark WHERE robot_id = %(robot)s ORDER BY session DESC LIMIT 100
) w ON TRUE
"""


def open_session(robot: str, gateway: str) -> Opened:
    """The next session of this robot: from now on its older link is replaced."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, {"robot": robot, "gateway": gateway})
        rows = cursor.fetchall()
    return Opened(rows[0][0], {session: seq for _, session, seq in rows if session is not None})


class Standing(NamedTuple):
    """The newest link of a robot. `gateway`: who holds it; empty when the robot was sent back to hello."""

    session: int
    gateway: str
    applied: dict[int, int]


def standing_of(robot: str) -> Standing | None:
    """For a gateway that holds no connection. None: this robot has never said hello."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT k.session, k.gateway, w.session, w.applied_seq FROM telemetry_link k LEFT JOIN LATERAL ("
            " SELECT session, applied_seq FROM telemetry_watermark WHERE robot_id = k.robot_id"
            " ORDER BY session DESC LIMIT 100) w ON TRUE WHERE k.robot_id = %s",
            [robot],
        )
        rows = cursor.fetchall()
    if not rows:
        return None
    return Standing(*rows[0][:2], {session: seq for _, _, session, seq in rows if session is not None})


def sent_commands(robot: str, ids: list[UUID]) -> dict[UUID, bool]:
    """Which of these commands were sent to this robot: id → does it still wait for an acknowledgement?"""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, state = 'open' FROM fleet_command WHERE robot_id = %s AND id = ANY(%s) AND sent_at IS NOT NULL",
            [robot, ids],
        )
        return dict(cursor.fetchall())


def send_back(robots: Iterable[str]) -> int:
    """Have these robots say hello again: then they repeat all that is not applied (I3). How many were connected.

    For when what they were told is stored may be lost. Their links' owner sees it with its next look.
    """
    return Link.objects.filter(pk__in=list(robots)).exclude(gateway="").update(gateway="")


class Asked(NamedTuple):
    """One link: `sessions` are those whose watermark its robot waits for.

    `credential`: which it showed; None where its address on a broker is all there is: then `address` and `brand` are
    those that it was opened for.
    """

    robot: str
    session: int
    credential: int | None
    sessions: list[int]
    takes: bool = True  # False: it can be sent nothing at the moment, so nothing is marked as sent
    quiet: bool = False  # True: its robot is silent, so nothing but what is urgent is marked as sent
    address: str = ""
    brand: int = 0


class OpenCommand(NamedTuple):
    id: UUID
    kind: str
    body: str


class Seen(NamedTuple):
    """What the database says about one link. Commands in sending order; each is marked as sent already."""

    robot: str
    replaced: bool
    refused: bool
    sent_back: bool
    applied: dict[int, int]
    commands: list[OpenCommand]


# A robot that was told to stop and has not said that it stands is given no work that it does not have (I13), not even
# what was dispatched just before the stop, which overtook it. It comes when the robot has said so.
_WITHHELD = """(fleet_command.kind = 'mission.assign' AND (
    EXISTS (SELECT FROM fleet_command s WHERE s.robot_id = fleet_command.robot_id AND s.state = 'open' AND s.kind = 'robot.stop')
    OR EXISTS (SELECT FROM fleet_hold h WHERE h.robot_id = fleet_command.robot_id AND h.released_at IS NULL
      AND h.confirmed_at IS NULL AND h.kind IN ('stopped', 'unconfirmed'))))"""

# A command that is locked is being changed: it comes with the next look, and what may not overtake it waits as well.
# Marked as sent before its first byte leaves, so that whoever cancels knows whether the robot can have heard of it.
# Only the newest link takes any.
_LOOK = f"""
WITH asked AS (
  SELECT a.*, k.session IS DISTINCT FROM a.session AS replaced, k.gateway = '' AS sent_back,
    r.id IS NULL OR r.retired_at IS NOT NULL OR CASE WHEN a.credential IS NULL
      THEN (coalesce(nullif(r.address, ''), r.id), r.brand_id) <> (a.address, a.brand) ELSE c.id IS NULL END AS refused
  FROM jsonb_to_recordset(%(asked)s::jsonb) AS a(robot text, session bigint, credential bigint, sessions bigint[],
    takes boolean, quiet boolean, address text, brand bigint)
  LEFT JOIN telemetry_link k ON k.robot_id = a.robot
  LEFT JOIN fleet_robot r ON r.id = a.robot
  LEFT JOIN fleet_robotcredential c ON c.id = a.credential AND c.revoked_at IS NULL
), newest AS (
  SELECT robot, takes, quiet FROM asked WHERE NOT replaced AND NOT refused AND NOT sent_back
), sent AS (
  UPDATE fleet_command SET sent_at = now() WHERE id IN (
    SELECT id FROM fleet_command
    WHERE robot_id IN (SELECT robot FROM newest WHERE takes) AND state = 'open' AND sent_at IS NULL
      AND (kind = ANY(%(urgent)s) OR robot_id NOT IN (SELECT robot FROM newest WHERE quiet))
      AND NOT {_WITHHELD}
    FOR NO KEY UPDATE SKIP LOCKED
  ) RETURNING id, robot_id, kind, body, "order"
), skipped AS (
  SELECT robot_id, min("order") FILTER (WHERE NOT {_WITHHELD}) AS "order", min("order") FILTER (WHERE {_WITHHELD}) AS held
  FROM fleet_command
  WHERE robot_id IN (SELECT robot FROM newest) AND state = 'open' AND sent_at IS NULL AND id NOT IN (SELECT id FROM sent)
  GROUP BY robot_id
), taken AS (
  SELECT * FROM sent UNION ALL
  SELECT id, robot_id, kind, body, "order" FROM fleet_command
  WHERE robot_id IN (SELECT robot FROM newest) AND state = 'open' AND sent_at IS NOT NULL
), open AS (
  SELECT t.* FROM taken t LEFT JOIN skipped s USING (robot_id)
  WHERE t.kind = ANY(%(urgent)s) OR (
    (s."order" IS NULL OR t."order" < s."order") AND (s.held IS NULL OR t."order" < s.held OR t.kind LIKE 'robot.%%')
  )
)
SELECT robot, replaced, refused, sent_back,
  (SELECT jsonb_object_agg(w.session, w.applied_seq) FROM telemetry_watermark w
   WHERE w.robot_id = asked.robot AND w.session = ANY(asked.sessions))::text,
  (SELECT array_agg(ARRAY[id::text, kind, body] ORDER BY "order") FROM open WHERE robot_id = asked.robot AND NOT replaced)
FROM asked
"""

_encode = msgspec.json.Encoder().encode
_watermarks = msgspec.json.Decoder(dict[int, int]).decode


def look(links: Iterable[Asked]) -> list[Seen]:
    """The state of all these links in one statement."""
    with connection.cursor() as cursor:
        asked = _encode([link._asdict() for link in links]).decode()
        cursor.execute(_LOOK, {"asked": asked, "urgent": list(URGENT)})
        return [
            Seen(robot, replaced, refused, sent_back, _watermarks(applied) if applied else {},
                 [OpenCommand(UUID(id), kind, body) for id, kind, body in commands or ()])
            for robot, replaced, refused, sent_back, applied, commands in cursor.fetchall()
        ]  # fmt: skip
