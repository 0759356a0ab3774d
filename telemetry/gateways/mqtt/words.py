"""Stores what one robot says over MQTT, in order, and goes on trying: nobody sends it again by itself.

A word that cannot be stored waits here, unacknowledged, and all that follows it with it; the time of its receipt is
stamped anew with each try, because what is stored late must not count as if it had come in time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils import timezone

from telemetry.gateways.intake import LATE_S, Unavailable
from telemetry.gateways.limits import Bucket, Room

log = logging.getLogger(__name__)
WINDOW = 256  # words of one robot that wait
GROUP = 64  # stored at once
RETRY_S = (0.1, 0.2, 0.5, 1.0)


class Word(Protocol):
    """`frame` is asked for with each try. `numbered`: the frame was the robot's own, so several may go at once."""

    msg_id: UUID
    numbered: bool
    size: int

    def frame(self) -> bytes: ...

    def done(self, verdict: str, at: datetime) -> None: ...

    def failed(self, at: datetime) -> None: ...


class Words:
    """One robot's. `store` keeps the order of its calls and raises `Unavailable`."""

    def __init__(
        self, robot: str, store: Callable[..., object], room: Room, allowance: Bucket, clock: Callable[[], float],
        moved: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._robot, self._store, self._room = robot, store, room
        self._allowance, self._clock, self._moved = allowance, clock, moved
        self._waiting: deque[Word] = deque()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self.is_throttled = False  # it says more than it may

    def __len__(self) -> int:
        return len(self._waiting)

    def has(self, msg_id: UUID) -> bool:
        """This very word waits."""
        return any(word.msg_id == msg_id for word in self._waiting)

    @property
    def is_full(self) -> bool:
        """The robot has to wait, as far as that is in our power."""
        return len(self._waiting) >= WINDOW or self._room.is_crowded

    def put(self, word: Word) -> None:
        """To be stored after all that waits. `is_full` is for the caller to heed: what it has begun it may finish."""
        self._room.used += word.size
        self._waiting.append(word)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def settle(self) -> None:
        """Until all is stored. Cancel it when it takes too long."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def close(self) -> None:
        """Nothing waits any more."""
        if self._task is not None:
            self._task.cancel()
        for word in self._waiting:
            self._room.used -= word.size
        self._waiting.clear()

    async def _run(self) -> None:
        while self._waiting:
            group = self._next()
            self.is_throttled = not self._allowance.take(self._clock(), len(group))
            if self.is_throttled:
                await asyncio.sleep(len(group) / self._allowance.per_s)
                continue
            if await self._try(group):
                self._failures = 0
            else:
                await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S) - 1)])
                self._failures += 1

    def _next(self) -> list[Word]:
        """Several that need no number of ours, or one."""
        group: list[Word] = []
        most = max(1, min(GROUP, int(self._allowance.burst)))
        for word in self._waiting:
            if len(group) == most or (group and not word.numbered):
                break
            group.append(word)
            if not word.numbered:
                break
        return group

    async def _try(self, group: list[Word]) -> bool:
        """Store these, the first in the queue. Those that were stored leave it."""
        at, began = timezone.now(), self._clock()
        calls = [self._store(self._robot, word.msg_id, word.frame(), at) for word in group]
        answers = await asyncio.gather(*calls, return_exceptions=True)  # type: ignore[call-overload]
        for word, answer in zip(group, answers, strict=True):
            if isinstance(answer, BaseException) or self._clock() - began > LATE_S:
                if isinstance(answer, BaseException) and not isinstance(answer, Unavailable):
                    log.error("storing a word of %s failed", self._robot, exc_info=answer)
                word.failed(at)
                return False
            self._waiting.popleft()
            self._room.used -= word.size
            word.done(answer, at)
            self._moved()
        return True
