"""Waiting for missions to change: one query at a time per process, however many callers wait."""

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from django.db import Error as DatabaseError

from missions.models import Mission
from telemetry.one_connection import OneConnection

LOOK_EVERY_S = 0.25
MAX_WAIT_S = 25


def versions(mission_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Versions of missions by id. One query."""
    return dict(Mission.objects.filter(pk__in=list(mission_ids)).values_list("pk", "version"))


class Followers:
    """Who waits for which mission to pass which version. The task that looks lives while somebody waits."""

    def __init__(self, look: Callable[[Iterable[UUID]], dict[UUID, int]] = versions) -> None:
        self.look = look
        self.waiting: dict[UUID, list[tuple[int, asyncio.Event]]] = {}
        self.task: asyncio.Task[None] | None = None

    async def wait(self, mission_id: UUID, version: int, wait_s: float) -> None:
        """Return when the mission's version is above `version`, or after `wait_s` seconds."""
        mine = (version, asyncio.Event())
        self.waiting.setdefault(mission_id, []).append(mine)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(min(wait_s, MAX_WAIT_S)):
                await mine[1].wait()
        except TimeoutError:
            pass
        finally:
            self.waiting[mission_id].remove(mine)
            if not self.waiting[mission_id]:
                del self.waiting[mission_id]

    async def _run(self) -> None:
        rows = OneConnection("api-following")
        try:
            while self.waiting:
                await self.step(rows)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            rows.close()

    async def step(self, rows: OneConnection) -> None:
        """Look once, and wake who waited for what has changed. A database that does not answer wakes all."""
        try:
            found = await rows.ask(self.look, list(self.waiting))
        except DatabaseError:
            for waiting in self.waiting.values():
                for _, event in waiting:
                    event.set()  # their own query says what is wrong
            return
        for mission_id, now in found.items():
            for version, event in self.waiting.get(mission_id, ()):
                if now > version:
                    event.set()


_of_loop: dict[asyncio.AbstractEventLoop, Followers] = {}


def followers() -> Followers:
    """The one of this event loop."""
    loop = asyncio.get_running_loop()
    for old in [old for old in _of_loop if old.is_closed()]:
        del _of_loop[old]
    return _of_loop.setdefault(loop, Followers())
