"""Tells the live Redis that this gateway is there: while it is not, the silence of its robots is not theirs."""

import asyncio
import logging

import redis.asyncio
from redis import RedisError

from telemetry.snapshots import DEAF, GATEWAYS, now_ms
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
EVERY_S = 1.0
FORGET_S = 3600  # one that died so long ago is of no interest


class Beats:
    """Signs of life of one process that holds robots' links."""

    def __init__(self, live: redis.asyncio.Redis, name: str) -> None:
        self._live, self._name = live, name
        self.deaf = False  # it lives, and cannot hear its robots: what is between them is away

    async def run(self) -> None:
        """Beat, until cancelled."""
        while True:
            await uncut(self.step())
            await asyncio.sleep(EVERY_S)

    async def step(self) -> None:
        try:
            async with self._live.pipeline(transaction=False) as pipe:
                pipe.zadd(GATEWAYS, {self._name: now_ms()})
                if self.deaf:
                    pipe.zadd(DEAF, {self._name: now_ms()})
                for key in (GATEWAYS, DEAF):
                    pipe.zremrangebyscore(key, "-inf", now_ms() - FORGET_S * 1000)
                await pipe.execute()
        except (RedisError, OSError) as error:
            log.debug("the live Redis takes no sign of life: %s", error)

    async def end(self) -> None:
        """It ends in order, or its last robot has left: from now on their silence is theirs."""
        try:
            await self._live.zrem(GATEWAYS, self._name)
        except (RedisError, OSError) as error:
            log.debug("the live Redis does not answer: %s", error)
