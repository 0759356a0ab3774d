"""The last messages of each robot with what they were answered, for the inspector: a short list in the live Redis.

Gateways note what comes, also what is invalid; once a second the newest of each robot go out together, so the cost
does not grow with the rate of messages. Lossy: what the live Redis does not take is gone.
"""

import asyncio
import logging
from collections import deque
from datetime import datetime
from typing import NamedTuple

import msgspec
import redis.asyncio
from redis import RedisError

from telemetry.snapshots import milliseconds
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
KEPT = 50  # messages of one robot
SHOWN = 2048  # bytes of a message
ANSWER = 500  # characters of our answer
EVERY_S = 1.0
LIMIT = 10_000  # notes of all robots that wait to be passed on
FORGET_S = 7 * 86_400


class Noted(NamedTuple):
    """As stored. `at_ms`: received, ms since 1970; `size`: bytes of the whole message; `answer`: our frame, or what was
    made of it, or empty; `part`: which of its topics, as its driver calls it.
    """

    at_ms: int
    raw: bytes
    size: int
    answer: str
    over: str
    part: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Noted).decode


def key(robot_id: str) -> str:
    return f"heard:{robot_id}"


class Heard:
    """What this process has heard and not yet passed on."""

    def __init__(self, live: redis.asyncio.Redis) -> None:
        self._live = live
        self._new: dict[str, deque[Noted]] = {}
        self._count = 0

    def note(self, robot: str, raw: bytes | str, received_at: datetime, answer: str, over: str, part: str = "") -> None:
        """One message of a robot that has signed on, as it came, and our answer to it."""
        mine = self._new.get(robot)
        if mine is None:
            mine = self._new[robot] = deque(maxlen=KEPT)
        if len(mine) < KEPT:
            if self._count >= LIMIT:
                return  # a flood of many robots; what comes in the next second is noted again
            self._count += 1
        seen = raw[:SHOWN]
        head = seen.encode(errors="replace")[:SHOWN] if isinstance(seen, str) else bytes(seen)
        mine.append(Noted(milliseconds(received_at), head, len(raw), answer[:ANSWER], over, part))

    async def run(self) -> None:
        """Pass on what came, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await uncut(self.step())

    async def step(self) -> None:
        new, self._new, self._count = self._new, {}, 0
        if not new:
            return
        try:
            async with self._live.pipeline(transaction=False) as pipe:
                for robot, notes in new.items():
                    pipe.rpush(key(robot), *map(_encode, notes))
                    pipe.ltrim(key(robot), -KEPT, -1)
                    pipe.expire(key(robot), FORGET_S)
                await pipe.execute()
        except (RedisError, OSError) as error:
            log.debug("the inspector misses %d robots' messages: %s", len(new), error)
