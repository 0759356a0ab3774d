"""Passes signs of life and telemetry on to the live Redis without ever holding a robot up."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from redis import RedisError

log = logging.getLogger(__name__)
LIMIT = 5000  # writes that wait; the oldest go first
AT_ONCE = 100
REST_S = 1.0  # after a failure

Write = Callable[[], Awaitable[object]]


class Vitals:
    """A bounded queue of writes. Lossy: what the live Redis does not take is gone."""

    def __init__(self) -> None:
        self._waiting: deque[Write] = deque(maxlen=LIMIT)
        self._some = asyncio.Event()
        self._well = True

    def add(self, write: Write) -> None:
        self._waiting.append(write)
        self._some.set()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self._some.wait()
            if not await self.step():
                await asyncio.sleep(REST_S)
            if not self._waiting:
                self._some.clear()

    async def step(self) -> bool:
        """Do one round of writes; says whether the live Redis took them all."""
        writes = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
        failed = None
        for outcome in await asyncio.gather(*(write() for write in writes), return_exceptions=True):
            if isinstance(outcome, RedisError | OSError):
                failed = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        if failed and self._well:
            log.warning("live Redis takes no telemetry: %s", failed)
        self._well = not failed
        return self._well
