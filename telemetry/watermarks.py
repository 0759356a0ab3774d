"""The applied watermark: every critical message of a session up to it is applied or a dead letter (I3).

Robots keep their events until it passes them, so it may never run ahead; a gap holds it until the gap is filled.
"""

from collections.abc import Iterable
from typing import Any

from fleet import rows
from telemetry.generation import SPAN

Session = tuple[str, int]  # robot id, session


def move(processed: Iterable[tuple[str, int, int]], asked: rows.Cursor | None = None, *, in_order: bool = True) -> None:
    """Move the watermarks over (robot, session, seq) that this transaction is about to write as processed.

    `asked`: what `asking` asked about them, or about more, in this transaction.

    The caller owns the robot's partition or, for a message that goes past the stream, holds the robot's row locked.
    Session 0 is the site's own and has no watermark. `in_order`: every robot's messages came as it sent them.

    A gap in a session of an earlier generation is never filled: before the restore the robot was told that it is
    applied, and let go of it. It repeats the rest in order, so the newest that came is as far as it goes.
    """
    seqs: dict[Session, set[int]] = {}
    for robot_id, session, seq in processed:
        if session > 0:
            seqs.setdefault((robot_id, session), set()).add(seq)
    if not seqs:
        return
    moved, early = {}, {}
    for robot_id, number, before, newest, past in (asked or asking(seqs)).fetchall():
        session = robot_id, number
        if session not in seqs:  # nothing of it is new
            continue
        mark = max(before, *seqs[session]) if past and in_order else _run(before, seqs[session])
        if mark > before:
            moved[session] = mark
            if newest > mark:
                early[session] = mark
    for session, found in _earlier(early).items():  # a gap was filled: go on over what came before its turn
        moved[session] = _run(moved[session], seqs[session] | found)
    _write(moved)


def pass_over(robot_id: str, session: int, seq: int) -> None:
    """What never came up to `seq` is given up: go on over it, and over what came after it.

    The caller holds the robot's row locked.
    """
    later = _earlier({(robot_id, session): seq}).get((robot_id, session), set())
    _write({(robot_id, session): _run(seq, later)})


def _write(moved: dict[Session, int]) -> None:
    if moved:
        rows.ask(
            "INSERT INTO telemetry_watermark AS w (robot_id, session, applied_seq)"
            " SELECT k.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(robot_id, session, seq)"
            " JOIN fleet_robot r ON r.id = k.robot_id"  # a robot that is not enrolled has none
            " ON CONFLICT (robot_id, session) DO UPDATE SET applied_seq = EXCLUDED.applied_seq"
            " WHERE w.applied_seq < EXCLUDED.applied_seq",
            _columns(moved),
        )


def _run(mark: int, seqs: set[int]) -> int:
    """The last of the unbroken run of seqs that follows the mark."""
    while mark + 1 in seqs:
        mark += 1
    return mark


def asking(sessions: Iterable[tuple[Any, ...]]) -> rows.Cursor:
    """Ask for the stand of (robot, session, …): its watermark, the newest seq that was processed before, whether it is of an
    earlier generation. Ask when the robots' rows are locked: somebody who goes past the stream moves watermarks as well.
    """
    asked = {(robot, session) for robot, session, *_ in sessions}
    return rows.ask(
        "SELECT k.robot_id, k.session, coalesce(w.applied_seq, 0), coalesce((SELECT max(p.seq)"
        " FROM telemetry_processedmessage p WHERE p.robot_id = k.robot_id AND p.session = k.session), 0),"
        f" k.session / {SPAN} < coalesce(l.session, 0) / {SPAN}"
        " FROM unnest(%s::text[], %s::bigint[]) AS k(robot_id, session)"
        " LEFT JOIN telemetry_watermark w USING (robot_id, session) LEFT JOIN telemetry_link l ON l.robot_id = k.robot_id",
        rows.arrays(asked, 2),
    )


def _earlier(marks: dict[Session, int]) -> dict[Session, set[int]]:
    """Seqs above the marks that earlier batches processed."""
    found: dict[Session, set[int]] = {}
    if marks:
        answer = rows.ask(
            "SELECT p.robot_id, p.session, p.seq"
            " FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(robot_id, session, seq)"
            " JOIN telemetry_processedmessage p"
            " ON p.robot_id = k.robot_id AND p.session = k.session AND p.seq > k.seq",
            _columns(marks),
        )
        for robot, session, seq in answer.fetchall():
            found.setdefault((robot, session), set()).add(seq)
    return found


def _columns(marks: dict[Session, int]) -> list[Any]:
    return rows.arrays(((*session, mark) for session, mark in marks.items()), 3)
