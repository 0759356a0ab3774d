"""Alerts that a gateway raises itself, of what only it can see: each seldom, and without waiting for the database."""

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import Error as DatabaseError

from fleet.alerts.actions import raise_alert
from fleet.models import Robot
from telemetry.one_connection import OneConnection
from telemetry.watching.causes import CAUSES, words

log = logging.getLogger(__name__)
AGAIN_S = 60.0  # the same of the same robot


class Alarms:
    """Those of one process. `rows` asks the database, in its own thread."""

    def __init__(self, rows: OneConnection, clock: Callable[[], float]) -> None:
        self._rows, self._clock = rows, clock
        self._told: dict[str, float] = {}
        self.leaving: set[asyncio.Task[None]] = set()

    def sound(self, name: str, robot: str, **facts: Any) -> None:
        """A cause of `telemetry.watching.causes` that passed by itself, or nobody knows when it will."""
        cause = f"{name}:robot:{robot}"
        text, now = words(cause, robot=robot, **facts), self._clock()
        if now - self._told.get(text, -math.inf) < AGAIN_S:
            return
        self._told[text] = now
        log.error("%s", text)
        task = asyncio.create_task(self._raise(cause, robot, text))
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)

    async def _raise(self, cause: str, robot: str, text: str) -> None:
        with suppress(DatabaseError):
            await self._rows.ask(_raise, cause, robot, text)

    async def end(self) -> None:
        await asyncio.gather(*self.leaving, return_exceptions=True)


def _raise(cause: str, robot: str, text: str) -> None:
    severity = CAUSES[cause.partition(":")[0]].severity
    site = Robot.objects.filter(pk=robot).values_list("site_id", flat=True).first()
    raise_alert(cause, severity=severity, text=text, subject=f"robot:{robot}", robot=robot, site=site, lasts=False)
