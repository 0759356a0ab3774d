"""One batch of one partition, applied in one transaction: all of it or nothing.

Order inside: hold the partition, drop what was applied before, tell the facts, write rows and history, remember the
messages, move the watermarks. What cannot be understood becomes a dead letter here, and the watermark passes it.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from fleet import logs, rows
from missions.ledger import Ledger
from missions.letters.rows import Settled, claim, settle
from missions.models import Direction
from telemetry import irregular, metrics, translate, watermarks
from telemetry.partitions import holding
from telemetry.protocol import Bad, Up, decode_up
from telemetry.stream import Entry
from telemetry.worker.burying import Letter, bury

log = logging.getLogger(__name__)

DEAD = "dead"
Hook = Callable[[str], None]


@dataclass(slots=True, eq=False)
class _Message:
    entry: Entry
    up: Up | None  # None: not even the envelope can be read
    verdict: str = ""
    reason: str = ""  # why it is a dead letter
    invalid: bool = False  # nobody can ever apply it
    tries: int = 0
    says: str = ""  # of a requeued letter: where its mission stands now

    @property
    def about(self) -> dict[str, str]:
        """For the log."""
        return about(self.entry, self.up)

    @property
    def final(self) -> str:
        return DEAD if self.reason else str(self.verdict)


def about(entry: Entry, up: Up | None = None) -> dict[str, str]:
    """What log lines about a message carry."""
    trace = translate.trace_of(up)[0] if up else entry.msg_id.hex
    return {"trace_id": trace, logs.MESSAGE: str(entry.msg_id)}


def apply(
    partition: int,
    fence: int,
    entries: list[Entry],
    *,
    now: datetime,
    hook: Hook,
    doomed: tuple[str, int] | None = None,
    redelivered: bool = False,
) -> set[UUID]:
    """Apply entries durably; the questions that they answer. Raises, and then nothing of it is kept.

    `doomed` (reason, tries) makes all of them dead letters without another try. `redelivered`: a worker had them before,
    so what is known already was not sent twice.
    """
    began = time.perf_counter()
    read = [_read(entry) for entry in entries]
    for message in read if doomed else ():
        message.reason, message.tries = doomed
    with transaction.atomic(), connection.wrap_database_errors:
        with rows.pipeline():  # all that has to be known, with few waits for the database; the fence first
            held, new = holding(partition, fence), [m for m in read if not m.entry.letter]
            known = _known(new)
            ledger = _open([m for m in read if m.up and not m.reason], now)
            marks = watermarks.asking((m.entry.robot_id, *_number(m)) for m in new)
            held()
            fresh = _unknown(new, known)
        letters = _claimed([m for m in read if m.entry.letter])
        messages = [m for m in read if m in fresh or m in letters] if letters else fresh
        hook("before_decide")
        if messages:
            _tell(ledger, [m for m in messages if m.up and not m.reason])
            bury(rows.Cursor(), [_letter(m) for m in fresh if m.reason], now)
            _write(ledger, lambda: _remember(fresh, marks, now))
            _settle(letters, now)
        irregular.write(rows.Cursor(), _irregular(fresh, [] if redelivered else read), now)
        hook("before_commit")
    took_s = time.perf_counter() - began
    metrics.BATCH_SECONDS.observe(took_s)
    metrics.BATCH_ENTRIES.observe(len(entries))
    metrics.DUPLICATES.labels("worker").inc(sum(not m.entry.letter for m in read) - len(fresh))
    metrics.applied([(m.final, m.entry.received_at) for m in messages], now, took_s)
    _report([m for m in fresh if m.reason])
    return {
        UUID(str(m.up.data["reply_to"]))
        for m in messages
        if m.up and not m.reason and m.up.type == "robot.state" and m.up.data["reply_to"]
    }


def _known(messages: list[_Message]) -> rows.Cursor:
    """Ask for (robot, msg_id, whether it was applied) of those that are not to be applied now.

    Applied is what has a row, and what is numbered up to `forgotten_seq` of its session: rows of old messages are
    deleted (`telemetry.keeping.tidying`). Of a session that is forgotten as a whole nobody can say what was applied.
    """
    keys = [(m.entry.robot_id, m.entry.msg_id, *_number(m)) for m in messages]
    return rows.ask(
        "SELECT k.robot_id, k.msg_id, p.id IS NOT NULL OR w.forgotten_seq >= k.seq"
        " FROM unnest(%s::text[], %s::uuid[], %s::bigint[], %s::bigint[]) AS k(robot_id, msg_id, session, seq)"
        " LEFT JOIN telemetry_processedmessage p USING (robot_id, msg_id)"
        " LEFT JOIN telemetry_watermark w ON w.robot_id = k.robot_id AND w.session = k.session AND w.forgotten_seq > 0"
        " LEFT JOIN telemetry_link l ON l.robot_id = k.robot_id AND l.forgotten_session > 0"
        " WHERE p.id IS NOT NULL OR w.forgotten_seq >= k.seq OR k.session BETWEEN 1 AND l.forgotten_session",
        rows.arrays(keys, 4),
    )


def _unknown(messages: list[_Message], known: rows.Cursor) -> list[_Message]:
    """Those not applied before; the first of each."""
    fresh = {(m.entry.robot_id, m.entry.msg_id): m for m in reversed(messages)}
    for robot, msg_id, applied in known.fetchall():
        if applied:
            fresh.pop((robot, msg_id), None)
        else:
            fresh[robot, msg_id].reason = "its session is so old that nobody can say whether it was applied"
    return list(reversed(fresh.values()))


def _claimed(messages: list[_Message]) -> list[_Message]:
    """Requeued letters that are still to be applied; the first of each."""
    if not messages:
        return []
    claimed = claim([m.entry.letter for m in messages])
    first = {m.entry.letter: m for m in reversed(messages) if m.entry.letter in claimed}
    return [m for m in messages if first.get(m.entry.letter) is m]


def _number(message: _Message) -> tuple[int, int]:
    return (message.up.session, message.up.seq) if message.up else (0, 0)


def _read(entry: Entry) -> _Message:
    try:
        up = decode_up(entry.raw)
    except Bad as bad:
        return _Message(entry, bad.envelope, reason=str(bad), invalid=True)
    if up.robot != entry.robot_id:
        return _Message(entry, up, reason=f"it speaks for {up.robot}", invalid=True)
    return _Message(entry, up)


def _open(messages: list[_Message], now: datetime) -> Ledger | None:
    if not messages:
        return None
    named = {mission for m in messages if m.up for mission in translate.missions_named(m.up)}
    return Ledger.open({m.entry.robot_id for m in messages}, named, now=now)


def _tell(ledger: Ledger | None, messages: list[_Message]) -> None:
    if ledger is None or not messages:
        return
    for message in messages:
        if message.entry.robot_id in ledger.robots and message.up:
            with logs.working_on(**message.about):
                message.verdict = translate.tell(ledger, message.up, message.entry.received_at)
                if message.entry.letter:
                    message.says = _stands(ledger, message.up)
        else:
            message.reason = "there is no robot of this id"


def _write(ledger: Ledger | None, also: Callable[[], None]) -> None:
    """What the facts changed and what `also` asks for, in one wait for the database."""
    if ledger is not None:
        ledger.commit(also)
    else:
        with rows.pipeline():
            also()


def _stands(ledger: Ledger, up: Up) -> str:
    mission = ledger.missions.get(up.mission) if up.mission else None
    return f"“{mission.row.title}” is now {mission.row.get_state_display().lower()}." if mission else ""


def _irregular(fresh: list[_Message], read: list[_Message]) -> Counter[irregular.Key]:
    """What is worth counting. `read`: what came, whose rest was known already; of a batch without any it costs nothing."""
    found = Counter(
        (m.entry.robot_id, irregular.kind_of(m.up.type if m.up else None), m.final)
        for m in fresh if m.final in irregular.COUNTED
    )  # fmt: skip
    if len(read) > len(fresh):
        new = {id(m) for m in fresh}
        found.update(
            (m.entry.robot_id, irregular.kind_of(m.up.type if m.up else None), irregular.DUPLICATE)
            for m in read if id(m) not in new and not m.entry.letter
        )  # fmt: skip
    return found


def _settle(letters: list[_Message], now: datetime) -> None:
    """Their numbers were passed when they became dead letters: watermarks stay as they are."""
    if letters:
        settle((Settled(m.entry.letter, m.verdict, _no_nul(m.reason), m.tries, m.says) for m in letters), now)
        rows.Cursor().executemany(
            "UPDATE telemetry_processedmessage SET verdict = %s, applied_at = %s WHERE robot_id = %s AND msg_id = %s",
            [(m.final, now, m.entry.robot_id, m.entry.msg_id) for m in letters],
        )


def _remember(messages: list[_Message], marks: rows.Cursor, now: datetime) -> None:
    if not messages:
        return
    remembered = [
        (m.entry.robot_id, m.entry.msg_id, *_number(m), m.final, m.entry.received_at)
        for m in messages
    ]  # fmt: skip
    watermarks.move([(m.entry.robot_id, m.up.session, m.up.seq) for m in messages if m.up], marks)
    rows.ask(
        "INSERT INTO telemetry_processedmessage (robot_id, msg_id, session, seq, verdict, received_at, applied_at)"
        " SELECT k.*, %s FROM unnest(%s::text[], %s::uuid[], %s::bigint[], %s::bigint[], %s::text[], %s::timestamptz[])"
        " AS k(robot_id, msg_id, session, seq, verdict, received_at)",
        [now, *rows.arrays(remembered, 6)],
    )


def _letter(m: _Message) -> Letter:
    kind = m.up.type if m.up else ""
    return Letter(m.entry.robot_id, m.entry.msg_id, kind, _text(m.entry.raw), _no_nul(m.reason), m.tries, m.invalid)


def _report(dead: list[_Message]) -> None:
    """One line per robot: a robot that sends nothing else must not bury the log."""
    counts = Counter(m.entry.robot_id for m in dead)
    for message in dead:
        metrics.DEAD_LETTERS.labels(Direction.IN.value).inc()
        if n := counts.pop(message.entry.robot_id, 0):
            more = f" (and {n - 1} more)" if n > 1 else ""
            entry = message.entry
            with logs.working_on(**message.about):
                log.error("dead letter from %s, %s: %s%s", entry.robot_id, entry.msg_id, message.reason, more)


def _text(raw: bytes) -> str:
    """What came, as text that PostgreSQL can hold."""
    return _no_nul(raw.decode("utf-8", "replace"))


def _no_nul(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
