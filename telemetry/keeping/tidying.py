"""Deletes what is old enough, by the table in telemetry/keeping/rules.py: in small batches, so that nobody waits for it.

`step` beside the worker's loop, in one of several workers at a time. A round reads each table from its oldest rows
up to the first slice in which nothing is old, then rests. What is locked by somebody stays for the next round.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from missions.alert_rules import buried
from telemetry import metrics, watermarks
from telemetry.keeping.rules import RULES, Rule

SLICE = 1000  # rows that one transaction looks at
BUSY_S = 2.0  # a step ends after so long, finished or not
REST_S = 0.01  # between two transactions
ROUND_S = 3600.0
PATIENCE_MS = 200  # for a lock; after it this slice waits for the next round
SLOW_MS = 5000
GAPS = 20  # gaps in numbers given up in one transaction
_LOCK = 0x0D71D1  # advisory lock
_NAMESPACE = uuid.UUID("0b0d1d5e-9d5f-4f0e-8f43-8f2a3c4b5d6e")

log = logging.getLogger(__name__)

MESSAGES, WATERMARKS = "telemetry_processedmessage", "telemetry_watermark"

# Each is looked at again: what was noted may not have been committed
_DELETE_KNOWN = f"""
DELETE FROM {MESSAGES} p WHERE p.id = ANY(%s) AND (
  p.session = 0 OR NOT EXISTS (SELECT FROM fleet_robot r WHERE r.id = p.robot_id) OR EXISTS (
    SELECT FROM {WATERMARKS} w WHERE w.robot_id = p.robot_id AND w.session = p.session AND w.forgotten_seq >= p.seq))
"""


class Tidying:
    """`step(now)` does some of it and says whether there is more. `rest(s)`: how it waits between transactions."""

    def __init__(self, rest: Callable[[float], Any] = time.sleep, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest, self._clock = rest, clock
        self._left: list[Callable[[datetime], bool]] = []  # what this round has still to do
        self._at: dict[str, Any] = {}  # table → how far this round has read it
        self._next_round = float("-inf")
        self._known: list[int] = []  # ids of messages whose number is noted as known
        self._more = False
        self.deleted: Counter[str] = Counter()  # rows by table, since it was made
        self._gone: Counter[str] = Counter()  # by the transaction under way

    def step(self, now: datetime) -> bool:
        """`now` is UTC. Outside of any transaction."""
        began = self._clock()
        if not self._left:
            if began < self._next_round:
                return False
            self._next_round = began + ROUND_S
            self._at.clear()
            self._left = [*(_by_rule(rule) for rule in RULES), Tidying._messages, Tidying._gaps, Tidying._sessions]
        while self._left and self._clock() - began < BUSY_S:
            if self._slice(self._left[0], now):
                self._rest(REST_S)
            else:
                self._left.pop(0)
        return bool(self._left)

    def whole_round(self, now: datetime) -> None:
        """All that is old now, whenever the last round was."""
        self._left, self._next_round = [], float("-inf")
        while self.step(now):
            pass

    def _slice(self, work: Any, now: datetime) -> bool:
        """One transaction. Says whether there is more to do of the same."""
        self._gone.clear()
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_try_advisory_xact_lock(%s), set_config('lock_timeout', %s, TRUE),"
                    " set_config('statement_timeout', %s, TRUE)",
                    [_LOCK, str(PATIENCE_MS), str(SLOW_MS)],
                )
                more = bool(cursor.fetchone()[0]) and bool(work(self, cursor, now))
        except DatabaseError as error:
            log.warning("tidying left something for the next round: %s", " ".join(str(error).split())[:200])
            if connection.connection is None or connection.connection.closed:
                raise
            return False
        self.deleted += self._gone
        for table, rows in self._gone.items():
            metrics.TIDIED.labels(table).inc(rows)
        return more

    def _rule(self, rule: Rule, cursor: Any, now: datetime) -> bool:
        until = now - timedelta(days=settings.KEEP_DAYS[rule.days])
        seen, old, gone, last = _delete(cursor, rule, until, self._at.get(rule.table))
        self._at[rule.table] = last
        self._gone[rule.table] += gone
        return seen == SLICE and (rule.scattered or old > 0)

    def _messages(self, cursor: Any, now: datetime) -> bool:
        """Processed messages: a number up to the watermark is known for ever, so its row may go (I4).

        In two transactions, so that a watermark that a worker moves again and again is held for a moment only.
        """
        if self._known:
            cursor.execute(_DELETE_KNOWN, [self._known])
            self._gone[MESSAGES] += cursor.rowcount
            self._known = []
            return self._more
        until = now - timedelta(days=settings.KEEP_DAYS["messages"])
        cursor.execute(
            f"SELECT id, robot_id, session, seq, applied_at < %s FROM {MESSAGES} WHERE id > %s ORDER BY id LIMIT %s",
            [until, self._at.get(MESSAGES, 0), SLICE],
        )
        rows = cursor.fetchall()
        old = [row[:4] for row in rows if row[4]]
        if rows:
            self._at[MESSAGES] = rows[-1][0]
        self._known = _forgettable(cursor, old)
        self._more = len(rows) == SLICE and bool(old)
        return self._more or bool(self._known)

    def _gaps(self, cursor: Any, now: datetime) -> bool:
        """Numbers that never came hold a watermark, and with it every later row: after so long they are given up."""
        until = now - timedelta(days=settings.KEEP_DAYS["messages"])
        found = _old_gaps(cursor, until)
        for robot, session, first, last in found:
            _give_up(cursor, robot, session, first, last, now)
        return len(found) == GAPS

    def _sessions(self, cursor: Any, now: datetime) -> bool:
        """Watermarks of each robot's oldest sessions. Messages of those become dead letters, should any come."""
        cursor.execute(
            f"SELECT robot_id, min(session) FROM (SELECT robot_id, session, row_number() OVER"
            f" (PARTITION BY robot_id ORDER BY session DESC) AS n FROM {WATERMARKS}) w WHERE n <= %s"
            " GROUP BY robot_id HAVING count(*) = %s",
            [settings.KEEP_ROBOT_SESSIONS, settings.KEEP_ROBOT_SESSIONS],
        )
        oldest_kept = dict(cursor.fetchall())
        cursor.execute(
            f"SELECT k.robot_id, least(k.session, (SELECT min(p.session) FROM {MESSAGES} p"
            "  WHERE p.robot_id = k.robot_id AND p.session > 0)) - 1"
            " FROM unnest(%s::text[], %s::bigint[]) AS k(robot_id, session)"
            f" WHERE EXISTS (SELECT FROM {WATERMARKS} w WHERE w.robot_id = k.robot_id AND w.session < k.session)",
            [list(oldest_kept), list(oldest_kept.values())],
        )
        for robot, session in cursor.fetchall():
            cursor.execute(
                "UPDATE telemetry_link SET forgotten_session = greatest(forgotten_session, %s) WHERE robot_id = %s",
                [session, robot],
            )
            if cursor.rowcount:
                cursor.execute(f"DELETE FROM {WATERMARKS} WHERE robot_id = %s AND session <= %s", [robot, session])
                self._gone[WATERMARKS] += cursor.rowcount
        return False


def _by_rule(rule: Rule) -> Callable[..., bool]:
    return lambda tidying, cursor, now: tidying._rule(rule, cursor, now)


def _delete(cursor: Any, rule: Rule, until: datetime, after: Any) -> tuple[int, int, int, Any]:
    """Of the next slice: rows seen, rows that are old, rows deleted, where it ended."""
    along = (
        f' along AS (DELETE FROM "{rule.along[0]}" WHERE "{rule.along[1]}" IN (SELECT id FROM gone))'
        if rule.along
        else ""
    )
    begin = "" if after is None else f'WHERE t."{rule.walk}" > %(after)s'
    cursor.execute(
        f'WITH slice AS MATERIALIZED (SELECT t.ctid AS at, t."{rule.walk}" AS place, {rule.age} < %(until)s AS old'
        f' FROM "{rule.table}" t {begin} ORDER BY t."{rule.walk}" LIMIT %(slice)s),'
        f' gone AS (DELETE FROM "{rule.table}" t WHERE t.ctid = ANY(ARRAY(SELECT at FROM slice WHERE old))'
        f" AND {rule.age} < %(until)s AND {rule.only} RETURNING {'t.id' if along else '1'}){',' if along else ''}{along}"
        " SELECT count(*), count(*) FILTER (WHERE old), (SELECT count(*) FROM gone), max(place) FROM slice",
        {"until": until, "after": after, "slice": SLICE},
    )
    return cursor.fetchone()  # type: ignore[no-any-return]


def old_rows(cursor: Any, rule: Rule, now: datetime) -> int:
    """How many rows would go."""
    until = now - timedelta(days=settings.KEEP_DAYS[rule.days])
    cursor.execute(
        f'SELECT count(*) FROM "{rule.table}" t WHERE {rule.age} < %(until)s AND {rule.only}', {"until": until}
    )
    return int(cursor.fetchone()[0])


def _forgettable(cursor: Any, rows: list[tuple[int, str, int, int]]) -> list[int]:
    """Ids of those rows (id, robot, session, seq) that may go, once their watermark says that they were known.

    A watermark that a worker is about to move is left alone: waiting for it could end in a deadlock.
    """
    newest: dict[tuple[str, int], int] = {}
    for _, robot, session, seq in rows:
        newest[robot, session] = max(seq, newest.get((robot, session), 0))
    sessions = [key for key in newest if key[1] > 0]
    cursor.execute(
        f"SELECT w.robot_id, w.session, w.applied_seq FROM {WATERMARKS} w"
        " JOIN unnest(%s::text[], %s::bigint[]) AS k(robot_id, session) USING (robot_id, session)"
        " FOR NO KEY UPDATE OF w SKIP LOCKED",
        [[robot for robot, _ in sessions], [session for _, session in sessions]],
    )
    applied = {(robot, session): seq for robot, session, seq in cursor.fetchall()}
    cursor.execute(
        "SELECT k.id FROM unnest(%s::text[]) AS k(id) LEFT JOIN fleet_robot r USING (id) WHERE r.id IS NULL",
        [list({robot for robot, _ in newest})],
    )
    strangers = {robot for (robot,) in cursor.fetchall()}  # they have no watermark
    gone = [row for row in rows if row[2] == 0 or row[1] in strangers or row[3] <= applied.get(row[1:3], 0)]
    up_to: dict[tuple[str, int], int] = {}
    for _, robot, session, seq in gone:
        if (robot, session) in applied:
            up_to[robot, session] = max(seq, up_to.get((robot, session), 0))
    cursor.execute(
        f"UPDATE {WATERMARKS} w SET forgotten_seq = k.seq"
        " FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(robot_id, session, seq)"
        " WHERE w.robot_id = k.robot_id AND w.session = k.session AND w.forgotten_seq < k.seq",
        [[robot for robot, _ in up_to], [session for _, session in up_to], list(up_to.values())],
    )
    return [row[0] for row in gone]


def _old_gaps(cursor: Any, until: datetime) -> list[tuple[str, int, int, int]]:
    """(robot, session, first and last number that never came) where what followed was applied before `until`.

    Among the oldest rows that are left: what is forgettable is gone already. One into which the robot still counts is
    none: it has used a number far ahead of its turn, and what it says next must not pass for said.
    """
    cursor.execute(
        f"SELECT p.robot_id, p.session, coalesce(w.applied_seq, 0) + 1, min(p.seq) - 1"
        f" FROM (SELECT * FROM {MESSAGES} WHERE session > 0 ORDER BY id LIMIT %s) p JOIN fleet_robot r ON r.id = p.robot_id"
        f" LEFT JOIN {WATERMARKS} w ON w.robot_id = p.robot_id AND w.session = p.session"
        " WHERE p.applied_at < %s AND p.seq > coalesce(w.applied_seq, 0)"
        " GROUP BY p.robot_id, p.session, w.applied_seq HAVING min(p.seq) > coalesce(w.applied_seq, 0) + 1"
        f" AND NOT EXISTS (SELECT FROM {MESSAGES} b WHERE b.robot_id = p.robot_id AND b.session = p.session"
        "  AND b.seq <= w.applied_seq AND b.applied_at >= %s) LIMIT %s",
        [10 * SLICE, until, until, GAPS],
    )
    return cursor.fetchall()  # type: ignore[no-any-return]


def _give_up(cursor: Any, robot: str, session: int, first: int, last: int, now: datetime) -> None:
    """One dead letter for all of the gap; then the watermark may pass it."""
    cursor.execute("SELECT 1 FROM fleet_robot WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED", [robot])
    if cursor.fetchone() is None:
        return
    numbers = f"number {first}" if first == last else f"numbers {first} to {last}"
    why = f"{numbers} of session {session} never came, although later ones did: given up"
    cursor.execute(
        "INSERT INTO missions_deadletter (direction, robot_id, msg_id, kind, body, reason, tries, created_at)"
        " VALUES ('in', %s, %s, '', '', %s, 0, %s) ON CONFLICT DO NOTHING",
        [robot, uuid.uuid5(_NAMESPACE, f"{robot} {session} {first}"), why, now],
    )
    watermarks.pass_over(robot, session, last)
    # should it be counting there after all, it goes on in a new session
    cursor.execute(
        "UPDATE telemetry_link SET gateway = '' WHERE robot_id = %s AND session = %s AND gateway <> ''",
        [robot, session],
    )
    buried([(robot, "", why)], now)
    log.warning("%s: %s", robot, why)
