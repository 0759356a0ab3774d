"""Loops of the process `followers`: a thread for each thing that follows, woken by the stream `out`.

The stream only says that there is something new. Without it, or without Redis, everybody looks every `LOOK_S`.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.utils import timezone
from redis.backoff import NoBackoff
from redis.retry import Retry

from telemetry.failures import Blame, blame
from telemetry.out.relay import OUT

LOOK_S = 2.0
BLOCK_MS = 1000
REST_S = 1.0

log = logging.getLogger(__name__)


class Loop(threading.Thread):
    """Repeats `step(now)` with a database connection of its own: at once while it finds work, else when woken."""

    def __init__(self, name: str, step: Callable[[datetime], Any], stopping: threading.Event, look_s: float = LOOK_S):
        super().__init__(name=name, daemon=True)
        self.woken = threading.Event()
        self._step, self._stopping, self._look_s = step, stopping, look_s

    def run(self) -> None:
        failing = False
        while not self._stopping.is_set():
            self.woken.clear()
            try:
                found = self._step(timezone.now())
                if failing:
                    log.info("%s goes on", self.name)
                failing = False
            except Exception as error:  # whatever it is, the next round may do
                if not failing:
                    log.warning("%s rests: %s", self.name, error, exc_info=not _is_outage(error))
                failing, found = True, False
                connection.close()
            if not found:
                self.woken.wait(REST_S if failing else self._look_s)
        connection.close()


def _is_outage(error: Exception) -> bool:
    return blame(error) is Blame.OUTAGE


class Waker(threading.Thread):
    """Wakes loops when the stream `out` has something new."""

    def __init__(self, loops: list[Loop], stopping: threading.Event) -> None:
        super().__init__(name="waker", daemon=True)
        self._loops, self._stopping = loops, stopping
        self._redis = redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
        )
        self._last: bytes | str = "$"

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.wait()
            except (redis.RedisError, OSError):  # the worker says so; here the loops look by themselves
                self._last = "$"
                self._stopping.wait(REST_S)
        self._redis.close()

    def wait(self, block_ms: int = BLOCK_MS) -> bool:
        """Until something new came, at most `block_ms`. Says whether."""
        if not self._redis.xread({OUT: self._last}, count=1, block=block_ms):
            return False
        newest = self._redis.xrevrange(OUT, count=1)  # before anybody is woken, so that nothing is passed over
        self._last = newest[0][0] if newest else "$"
        for loop in self._loops:
            loop.woken.set()
        return True
