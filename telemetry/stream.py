"""The streams `in:{p}` on the durable Redis: gateways append to them, one worker per partition reads them.

Appending checks a window of seen messages, appends and marks in one script, so a resend costs nothing; the unique
row (robot, msg_id) in PostgreSQL stays the truth. `Intake` is the gateways' side (asyncio), `Streams` the worker's.
"""

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

import redis
import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoScriptError, RedisError, ResponseError
from redis.retry import Retry

GROUP = "worker"
CONSUMER = "owner"  # one name for every owner, so that the next one finds what the last one left pending
WINDOW_S = 900  # how long a resend is recognised here; PostgreSQL recognises it for ever
LATE_S = 1.0  # appended later than this, a message is not acknowledged: the gating of deadlines rests on it
FLUSH = 200  # entries per round trip
WAITING_LIMIT = 20_000  # callers; more are refused at once

log = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# KEYS: stream, then one mark per entry. ARGV: window in s, then robot, msg_id, raw, at per entry. Reply: 1 stored, 0 seen.
_APPEND = """
local reply = {}
for i = 2, #KEYS do
  local a = (i - 2) * 4 + 2
  if redis.call('SET', KEYS[i], 1, 'NX', 'EX', ARGV[1]) then
    redis.call('XADD', KEYS[1], '*', 'robot', ARGV[a], 'msg_id', ARGV[a + 1], 'raw', ARGV[a + 2], 'at', ARGV[a + 3])
    reply[i - 1] = 1
  else
    reply[i - 1] = 0
  end
end
return reply
"""


class Unavailable(Exception):
    """The durable Redis did not take it (or not in time): do not acknowledge."""


class Backlogged(Unavailable):
    """Too many messages wait for the worker already: the sender has to slow down."""


def partition_of(robot_id: str) -> int:
    """The partition of a robot: stable over processes and time, as long as PARTITIONS stays."""
    return zlib.crc32(robot_id.encode()) % int(settings.PARTITIONS)


def key(partition: int) -> str:
    """Name of the stream; the braces keep it and its marks on one node of a cluster."""
    return f"in:{{{partition}}}"


def _mark(partition: int, robot_id: str, msg_id: str) -> str:
    return f"seen:{{{partition}}}:{robot_id}:{msg_id}"


@dataclass(slots=True)
class _Waiting:
    partition: int
    robot_id: str
    msg_id: str
    raw: bytes
    at: int  # µs since 1970
    since: float  # loop time
    answer: asyncio.Future[str]


class Intake:
    """Appends robots' messages durably. One per event loop; callers that wait at the same time share a round trip.

    One round trip is under way at a time, so what is stored keeps the order of the calls.
    """

    def __init__(self, url: str, *, window_s: int = WINDOW_S) -> None:
        self._redis = redis.asyncio.from_url(
            url, socket_timeout=LATE_S, socket_connect_timeout=LATE_S, retry=Retry(NoBackoff(), 0)
        )
        self._append = self._redis.register_script(_APPEND)
        self._window_s = window_s
        self._waiting: deque[_Waiting] = deque()
        self._flusher: asyncio.Task[None] | None = None

    async def store(
        self, robot_id: str, msg_id: UUID, raw: bytes, received_at: datetime
    ) -> Literal["stored", "duplicate"]:
        """Answer once the message is on disk. Call it at once after stamping `received_at`. Raises `Unavailable`."""
        if len(self._waiting) >= WAITING_LIMIT:
            raise Unavailable("too many messages are waiting to be stored")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        at = (received_at - _EPOCH) // _MICROSECOND
        self._waiting.append(_Waiting(partition_of(robot_id), robot_id, str(msg_id), raw, at, loop.time(), answer))
        if self._flusher is None or self._flusher.done():
            self._flusher = loop.create_task(self._flush())
        return await answer  # type: ignore[no-any-return]

    async def backlog(self) -> dict[int, int]:
        """How many entries of each partition wait to be applied. Raises redis errors."""
        partitions = range(int(settings.PARTITIONS))
        async with self._redis.pipeline(transaction=False) as pipe:
            for p in partitions:
                pipe.xinfo_groups(key(p))
                pipe.xlen(key(p))
            replies = await pipe.execute(raise_on_error=False)
        return {
            p: _waiting_in(groups, length)
            for p, groups, length in zip(partitions, replies[::2], replies[1::2], strict=True)
        }

    async def memory(self) -> tuple[int, int]:
        """Bytes that the store uses, and its limit; 0 when it has none. Raises redis errors."""
        told = await self._redis.info("memory")
        return int(told["used_memory"]), int(told.get("maxmemory", 0))

    async def aclose(self) -> None:
        """Let what waits be stored, then let go of the connection."""
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
        await self._redis.aclose()

    async def _flush(self) -> None:
        now = asyncio.get_running_loop().time
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(FLUSH, len(self._waiting)))]
            in_time = [w for w in batch if now() - w.since <= LATE_S]
            try:
                stored = await self._store(in_time)
            except BaseException as error:
                self._refuse_with_followers(batch, f"{type(error).__name__}: {error}")
                if not isinstance(error, RedisError | OSError):
                    _refuse(self._waiting, "the intake stops")
                    self._waiting.clear()
                    raise
                continue
            for w in in_time:
                outcome = stored.get(id(w))
                if outcome is None or now() - w.since > LATE_S:
                    _refuse([w], "not stored in time" if outcome else "Redis refused it")
                elif not w.answer.done():
                    w.answer.set_result(outcome)
            self._refuse_with_followers([w for w in batch if not w.answer.done()], "not stored in time")  # the rest

    def _refuse_with_followers(self, refused: list[_Waiting], why: str) -> None:
        """With what waits behind them of the same robots: nothing overtakes what was not stored."""
        _refuse(refused, why)
        robots = {w.robot_id for w in refused}
        if robots and any(w.robot_id in robots for w in self._waiting):
            _refuse((w for w in self._waiting if w.robot_id in robots), "what came before it was not stored")
            self._waiting = deque(w for w in self._waiting if w.robot_id not in robots)

    async def _store(self, batch: list[_Waiting]) -> dict[int, str]:
        """What became of each, by identity; one that Redis refused is absent."""
        try:
            return await self._round_trip(batch)
        except ConnectionError:  # the connection was stale after a restart; a mark tells what was stored already
            return await self._round_trip(batch)

    async def _round_trip(self, batch: list[_Waiting]) -> dict[int, str]:
        parts: dict[int, list[_Waiting]] = {}
        for w in batch:
            parts.setdefault(w.partition, []).append(w)
        calls = [(_keys(p, ws), _arguments(self._window_s, ws)) for p, ws in parts.items()]
        if not calls:
            return {}
        async with self._redis.pipeline(transaction=False) as pipe:
            for keys, arguments in calls:
                pipe.evalsha(self._append.sha, len(keys), *keys, *arguments)
            replies = await pipe.execute(raise_on_error=False)
        outcome: dict[int, str] = {}
        for (keys, arguments), ws, reply in zip(calls, parts.values(), replies, strict=True):
            if isinstance(reply, NoScriptError):  # a restart forgot it
                reply = await self._redis.eval(_APPEND, len(keys), *keys, *arguments)
            if isinstance(reply, ResponseError):
                log.error("durable Redis refuses to append to %s: %s", keys[0], reply)
            elif isinstance(reply, Exception):
                raise reply
            else:
                outcome |= {id(w): "stored" if r else "duplicate" for w, r in zip(ws, reply, strict=True)}
        return outcome


def _waiting_in(groups: Any, length: Any) -> int:
    """From XINFO GROUPS and XLEN; without a group (lost, or not begun) everything waits."""
    for error in (groups, length):
        if isinstance(error, Exception) and not isinstance(error, ResponseError):
            raise error
    for group in groups if isinstance(groups, list) else ():
        if group["name"] == GROUP.encode() and group["lag"] is not None:
            return int(group["lag"]) + int(group["pending"])
    return int(length) if isinstance(length, int) else 0


def _keys(partition: int, waiting: list[_Waiting]) -> list[str]:
    return [key(partition), *(_mark(partition, w.robot_id, w.msg_id) for w in waiting)]


def _arguments(window_s: int, waiting: list[_Waiting]) -> list[str | int | bytes]:
    return [window_s, *(v for w in waiting for v in (w.robot_id, w.msg_id, w.raw, w.at))]


def _refuse(waiting: Iterable[_Waiting], why: str) -> None:
    for w in waiting:
        if not w.answer.done():
            w.answer.set_exception(Unavailable(why))


class Entry(NamedTuple):
    """One message as it was stored."""

    id: str
    robot_id: str
    msg_id: UUID
    raw: bytes
    received_at: datetime
    letter: int = 0  # the dead letter that it is, requeued


class Progress(NamedTuple):
    """How far a partition is: ids as (ms, number)."""

    last: tuple[int, int]  # newest entry ever appended
    read: tuple[int, int]  # handed to a worker up to here
    unacked: tuple[int, int] | None  # oldest entry that was handed out and not acknowledged

    def applied(self, target: tuple[int, int]) -> bool:
        """Is everything up to the target applied (or a dead letter)?"""
        return self.read >= target and (self.unacked is None or self.unacked > target)


class Streams:
    """The worker's side. Raises redis errors; the caller decides what an outage means.

    `read_new` blocks far below the socket timeout (redis-py gives up on a socket that stays silent as long).
    """

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.from_url(
            url, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0), protocol=2
        )

    def close(self) -> None:
        self.redis.close()

    def ensure_groups(self, partitions: Iterable[int]) -> None:
        """Make stream and group where they are absent; the group starts with the oldest entry."""
        for p in partitions:
            try:
                self.redis.xgroup_create(key(p), GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def read_new(self, partitions: Iterable[int], count: int, block_ms: int | None) -> dict[int, list[Entry]]:
        """Up to `count` new entries of each partition; waits for the first if there are none. None: does not wait."""
        return self._read(dict.fromkeys(partitions, ">"), count, block_ms)

    def read_pending(self, partition: int, count: int) -> list[Entry]:
        """Entries that were handed out and never acknowledged, the oldest first."""
        return self._read({partition: "0"}, count, None).get(partition, [])

    def _read(self, positions: dict[int, str], count: int, block_ms: int | None) -> dict[int, list[Entry]]:
        by_key = {key(p).encode(): p for p in positions}
        names = {key(p): position for p, position in positions.items()}
        reply = self.redis.xreadgroup(GROUP, CONSUMER, names, count=count, block=block_ms)
        return {by_key[name]: self._entries(by_key[name], rows) for name, rows in reply or ()}

    def _entries(self, partition: int, rows: list[tuple[bytes, dict[bytes, bytes] | None]]) -> list[Entry]:
        found, useless = [], []
        for entry_id, fields in rows:
            try:
                found.append(_entry(entry_id.decode(), fields or {}))
            except (KeyError, ValueError):
                useless.append(entry_id.decode())
        if useless:  # trimmed by a hand while they were pending, or not written by an intake
            log.error("entries of %s hold no message: %s", key(partition), ", ".join(useless))
            self.ack(partition, useless)
        return found

    def ack(self, partition: int, entry_ids: list[str]) -> None:
        if entry_ids:
            self.redis.xack(key(partition), GROUP, *entry_ids)

    def requeue(self, letters: Iterable[tuple[int, str, UUID, bytes, datetime]]) -> None:
        """Append dead letters (id, robot, msg_id, message, when) behind all that waits. Twice does no harm."""
        with self.redis.pipeline(transaction=False) as pipe:
            for letter, robot_id, msg_id, raw, at in letters:
                fields = {"robot": robot_id, "msg_id": str(msg_id), "raw": raw, "at": (at - _EPOCH) // _MICROSECOND}
                pipe.xadd(key(partition_of(robot_id)), {**fields, "letter": letter})
            pipe.execute()

    def progress(self, partitions: Iterable[int]) -> dict[int, Progress]:
        """Where each partition stands, read at one moment per partition. Absent: no stream or no group (data loss)."""
        partitions = list(partitions)
        with self.redis.pipeline(transaction=True) as pipe:
            for p in partitions:
                pipe.xinfo_stream(key(p))
                pipe.xinfo_groups(key(p))
                pipe.xpending(key(p), GROUP)
            replies = pipe.execute(raise_on_error=False)
        found = {}
        for p, stream, groups, pending in zip(partitions, replies[::3], replies[1::3], replies[2::3], strict=True):
            for reply in (stream, groups, pending):
                if isinstance(reply, Exception) and not isinstance(reply, ResponseError):
                    raise reply
            if any(isinstance(reply, ResponseError) for reply in (stream, groups, pending)):
                continue
            read = next(g["last-delivered-id"] for g in groups if g["name"] == GROUP.encode())
            oldest = pending["min"]
            found[p] = Progress(
                _number(stream["last-generated-id"]), _number(read), _number(oldest) if oldest else None
            )
        return found

    def replication(self) -> dict[str, Any]:
        """INFO replication: which server this is, and whose replica it was before it was promoted."""
        return dict(self.redis.info("replication"))

    def forget_marks(self, partitions: Iterable[int]) -> None:
        """Of streams that are gone: what robots say again must not pass for a duplicate."""
        for p in (p for p in partitions if not self.redis.exists(key(p))):
            for name in self.redis.scan_iter(_mark(p, "*", "*").replace("[", "\\["), count=1000):
                self.redis.unlink(name)

    def trim(self, partitions: Iterable[int]) -> None:
        """Drop what is acknowledged (never by length: that would drop what is not)."""
        for p, progress in self.progress(partitions).items():
            ms, number = progress.unacked or (progress.read[0], progress.read[1] + 1)
            self.redis.xtrim(key(p), minid=f"{ms}-{number}", approximate=True)

    def oldest_unapplied_s(self, partitions: Iterable[int], now: datetime) -> float:
        """Age in s of the oldest entry that is not applied yet; 0 when all are."""
        return max(self.ages_s(partitions, now).values(), default=0.0)

    def ages_s(self, partitions: Iterable[int], now: datetime) -> dict[int, float]:
        """The same of each partition in which something is not applied."""
        ages = {}
        for p, progress in self.progress(partitions).items():
            oldest = progress.unacked
            if oldest is None:
                after = self.redis.xrange(key(p), min=f"({progress.read[0]}-{progress.read[1]}", count=1)
                oldest = _number(after[0][0]) if after else None
            if oldest is not None:
                ages[p] = max(0.0, now.timestamp() - oldest[0] / 1000)
        return ages


def _entry(entry_id: str, fields: dict[bytes, bytes]) -> Entry:
    received_at = _EPOCH + timedelta(microseconds=int(fields[b"at"]))
    msg_id, letter = UUID(fields[b"msg_id"].decode()), int(fields.get(b"letter", 0))
    return Entry(entry_id, fields[b"robot"].decode(), msg_id, fields[b"raw"], received_at, letter)


def is_group_lost(error: Exception) -> bool:
    """NOGROUP: stream or group vanished (FLUSHALL, failover, new disk)."""
    return isinstance(error, ResponseError) and str(error).startswith("NOGROUP")


def _number(entry_id: bytes | str) -> tuple[int, int]:
    ms, _, number = (entry_id.decode() if isinstance(entry_id, bytes) else entry_id).partition("-")
    return int(ms), int(number or 0)
