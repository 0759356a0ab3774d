"""Stores one robot's critical messages in the order in which they came, several at a time.

What could not be stored is not acknowledged, and nothing that came after it is stored before it: the robot sends all
of it again. A robot that sends faster than it is served waits for its acknowledgements; memory is bounded.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from telemetry.gateways.intake import LATE_S, Unavailable
from telemetry.gateways.limits import Bucket, Room, critical_bucket

WINDOW = 256  # messages of one robot that wait to be stored
GROUP = 64  # stored at once
GIVE_UP_S = 60  # a robot that never repeats what was lost is served again after so long

Store = Callable[[str, UUID, bytes, datetime], Awaitable[str]]


@dataclass(slots=True)
class Message:
    """`done` is called with `stored` or `duplicate`, `lost` when it was not stored."""

    msg_id: UUID
    raw: bytes
    received_at: datetime
    done: Callable[[str], Awaitable[None]]
    lost: Callable[[], None] = lambda: None
    repeats: bool = True  # False: the sender will not send it again by itself
    since: float = 0.0  # clock time when it was taken


class Inbox:
    """One robot's queue. `store` keeps the order of its calls and raises `Unavailable`."""

    def __init__(
        self, robot: str, store: Store, clock: Callable[[], float] = time.monotonic, room: Room | None = None,
        allowance: Bucket | None = None,
    ) -> None:  # fmt: skip
        self._robot, self._store, self._clock = robot, store, clock
        self._room, self._allowance = room or Room(), allowance or critical_bucket()
        self._waiting: deque[Message] = deque()
        self._some = asyncio.Event()
        self._lost: list[UUID] = []  # in order; nothing later goes before the first of them
        self._lost_until = 0.0

    def offer(self, message: Message) -> bool:
        """Take a message to be stored. False: not now; it will come again, as it is not acknowledged."""
        if self._lost:
            if message.msg_id != self._lost[0] and self._clock() < self._lost_until:
                message.lost()
                return False
            self._lost = []
        if len(self._waiting) >= WINDOW or not self._may_take(message):
            self._lose([message])
            return False
        message.since = self._clock()
        self._waiting.append(message)
        self._some.set()
        return True

    def _may_take(self, message: Message) -> bool:
        """Is it within what this robot may send, and is there room for it?"""
        return self._allowance.take(self._clock()) and self._room.take(len(message.raw))

    def close(self) -> None:
        """The link has ended: nothing waits any more."""
        for message in self._waiting:
            self._room.give(len(message.raw))
        self._waiting.clear()

    def settled(self, msg_id: UUID) -> None:
        """A message that was lost here has been taken on another way, and will not come again."""
        if msg_id in self._lost:
            self._lost.remove(msg_id)

    async def run(self) -> None:
        """Store what comes, until cancelled."""
        while True:
            await self._some.wait()
            await self.step()
            if not self._waiting:
                self._some.clear()

    async def step(self) -> None:
        """Store one group and answer for it."""
        group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
        try:
            answers = await asyncio.gather(
                *(self._store(self._robot, m.msg_id, m.raw, m.received_at) for m in group), return_exceptions=True
            )
        finally:
            for message in group:
                self._room.give(len(message.raw))
        lost: list[Message] = []
        for message, answer in zip(group, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, Unavailable):
                raise answer
            if isinstance(answer, Unavailable) or self._clock() - message.since > LATE_S:
                lost.append(message)  # what was stored late is recognised when it comes again
            else:
                await message.done(answer)
        if lost:
            lost += self._waiting
            self.close()
            self._lose(lost)

    def _lose(self, messages: list[Message]) -> None:
        self._lost = [m.msg_id for m in messages if m.repeats]
        self._lost_until = self._clock() + GIVE_UP_S
        for message in messages:
            message.lost()
