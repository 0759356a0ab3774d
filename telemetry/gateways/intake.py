"""Appends robots' messages to the streams of the durable Redis: what it answers for is on disk.

Appending checks a window of seen messages, appends and marks in one script, so a resend costs nothing; the unique
row (robot, msg_id) in PostgreSQL stays the truth.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from telemetry.gateways.seldom import Seldom
from telemetry.stream import GROUP, key, mark, microseconds, partition_of

WINDOW_S = 900  # how long a resend is recognised here; PostgreSQL recognises it for ever
LATE_S = 1.0  # appended later than this, a message is not acknowledged: the gating of deadlines rests on it
FLUSH = 200  # entries per round trip
WAITING_LIMIT = 20_000  # callers; more are refused at once

log = logging.getLogger(__name__)

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
        self._refusals = Seldom(time.monotonic)  # robots try again at once

    async def store(
        self, robot_id: str, msg_id: UUID, raw: bytes, received_at: datetime
    ) -> Literal["stored", "duplicate"]:
        """Answer once the message is on disk. Call it at once after stamping `received_at`. Raises `Unavailable`."""
        if len(self._waiting) >= WAITING_LIMIT:
            raise Unavailable("too many messages are waiting to be stored")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        at = microseconds(received_at)
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
            except BaseException as error:  # also when it is cancelled: whoever waits is told
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
                if (more := self._refusals.more()) is not None:
                    log.error("durable Redis refuses to append to %s: %s%s", keys[0], reply, more)
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
    return [key(partition), *(mark(partition, w.robot_id, w.msg_id) for w in waiting)]


def _arguments(window_s: int, waiting: list[_Waiting]) -> list[str | int | bytes]:
    return [window_s, *(v for w in waiting for v in (w.robot_id, w.msg_id, w.raw, w.at))]


def _refuse(waiting: Iterable[_Waiting], why: str) -> None:
    for w in waiting:
        if not w.answer.done():
            w.answer.set_exception(Unavailable(why))
