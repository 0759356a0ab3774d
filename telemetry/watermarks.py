"""The applied watermark: every critical message of a session up to it is applied or a dead letter (I3).

Robots keep their events until it passes them, so it may never run ahead; a gap holds it until the gap is filled.
"""

from collections.abc import Iterable
from typing import Any

Session = tuple[str, int]  # robot id, session


def move(cursor: Any, processed: Iterable[tuple[str, int, int]]) -> None:
    """Move the watermarks over (robot, session, seq) that this transaction has just written as processed.

    The caller holds the robots' row locks. Session 0 is the site's own and has no watermark.
    """
    seqs: dict[Session, set[int]] = {}
    for robot_id, session, seq in processed:
        if session > 0:
            seqs.setdefault((robot_id, session), set()).add(seq)
    if not seqs:
        return
    marks = _read(cursor, list(seqs))
    moved = {}
    for session, new in seqs.items():
        before = mark = marks.get(session, 0)
        while mark + 1 in new:
            mark += 1
        if mark > before:
            moved[session] = mark
    if moved:
        _over_earlier(cursor, moved)
        cursor.execute(
            "INSERT INTO telemetry_watermark AS w (robot_id, session, applied_seq)"
            " SELECT k.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(robot_id, session, seq)"
            " JOIN fleet_robot r ON r.id = k.robot_id"  # a robot that is not enrolled has none
            " ON CONFLICT (robot_id, session) DO UPDATE SET applied_seq = EXCLUDED.applied_seq"
            " WHERE w.applied_seq < EXCLUDED.applied_seq",
            _columns(moved),
        )


def _read(cursor: Any, sessions: list[Session]) -> dict[Session, int]:
    cursor.execute(
        "SELECT w.robot_id, w.session, w.applied_seq FROM telemetry_watermark w"
        " JOIN unnest(%s::text[], %s::bigint[]) AS k(robot_id, session) USING (robot_id, session)",
        [[robot for robot, _ in sessions], [session for _, session in sessions]],
    )
    return {(robot, session): seq for robot, session, seq in cursor.fetchall()}


def _over_earlier(cursor: Any, moved: dict[Session, int]) -> None:
    """A gap was filled: go on over what came before its turn, in an earlier batch."""
    cursor.execute(
        "SELECT p.robot_id, p.session, p.seq FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(robot_id, session, seq)"
        " JOIN telemetry_processedmessage p ON p.robot_id = k.robot_id AND p.session = k.session AND p.seq > k.seq"
        " ORDER BY p.seq",
        _columns(moved),
    )
    for robot, session, seq in cursor.fetchall():
        if seq == moved[robot, session] + 1:
            moved[robot, session] = seq


def _columns(moved: dict[Session, int]) -> list[list[Any]]:
    return [[robot for robot, _ in moved], [session for _, session in moved], list(moved.values())]
