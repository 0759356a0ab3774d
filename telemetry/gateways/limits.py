"""What a gateway does not let through: too much of one robot, and critical messages that nobody could apply or hold.

Telemetry over the limit is dropped, counted and told. Critical messages are never dropped: they are not taken, so their
robot keeps them and sends them again later.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from django.conf import settings
from redis import RedisError

from telemetry import metrics
from telemetry.gateways.intake import Intake
from telemetry.stream import partition_of
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
LOSSY_PER_S = 50.0  # a robot that moves says two a second
LOSSY_BURST = 500.0  # one whole batch over HTTP
HELLOS_PER_S, HELLOS = 1.0, 30.0  # of one robot, and at once: each opens a session, which is a write
CRITICAL_BURST_S = 25.0  # a robot that comes back may send so many seconds' worth at once
BACKLOG = 50_000  # entries of one partition; about 10 s of a worker's time
NEARLY_FULL, ROOM_AGAIN = 0.9, 0.85  # of the durable Redis's memory: refused before Redis itself has to, taken again
STORED_OVERHEAD = 500  # bytes that a message costs the store beside its text: fields, mark
ROOM = 64 * 2**20  # bytes of critical messages that wait in a process
OVERHEAD = 1000  # bytes that any of them costs beside its text
MEASURE_S = 1.0


@dataclass(slots=True)
class Bucket:
    """How many messages of a kind one robot may still send: fills by `per_s` up to `burst`."""

    per_s: float = LOSSY_PER_S
    burst: float = LOSSY_BURST
    level: float = LOSSY_BURST
    at: float = 0.0  # clock time in s
    told: float = float("-inf")  # when the robot was last told that something was dropped

    def take(self, now: float, count: int = 1) -> bool:
        """So many more messages: are they within the limit? All or none."""
        self.level = min(self.burst, self.level + max(0.0, now - self.at) * self.per_s)
        self.at = now
        if self.level < count:
            return False
        self.level -= count
        return True


def critical_bucket() -> Bucket:
    """Of one robot: a flood of one must not fill the stream that it shares with others."""
    per_s = float(settings.ROBOT_EVENTS_PER_S)
    return Bucket(per_s, CRITICAL_BURST_S * per_s, CRITICAL_BURST_S * per_s)


def hello_bucket() -> Bucket:
    """Of one robot: one that says hello again and again must not keep the database from others."""
    return Bucket(HELLOS_PER_S, HELLOS, HELLOS)


@dataclass(slots=True)
class Room:
    """Bytes of critical messages that wait in this process to be stored. When it is full, robots keep what they have."""

    limit: int = ROOM
    used: int = 0

    def take(self, size: int) -> bool:
        if self.used + size + OVERHEAD > self.limit:
            return False
        self.used += size + OVERHEAD
        return True

    def give(self, size: int) -> None:
        self.used -= size + OVERHEAD

    @property
    def is_crowded(self) -> bool:
        """Telemetry makes room first."""
        return self.used > self.limit / 2


def too_much(room: Room, bucket: Bucket, now: float) -> str:
    """Why this lossy message is not taken, for its robot; empty when it is."""
    if room.is_crowded:
        return "the site has no room for telemetry now"
    return "" if bucket.take(now) else f"more than {LOSSY_PER_S:.0f} lossy messages a second"


class Backlog:
    """How far the worker is behind, per partition, and how full the durable Redis is: measured once a second.

    What this process has appended since is counted, so a flood does not fill the store between two measurements.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._waiting: dict[int, int] = {}
        self._told: set[int] = set()
        self._used = self._limit = 0  # bytes of the store; no limit: 0
        self._is_full = False

    def too_long(self, robot: str) -> bool:
        return self._too_full() or self._waiting.get(partition_of(robot), 0) > BACKLOG

    def appending(self, size: int) -> None:
        """A message of so many bytes goes to the store."""
        self._used += size + STORED_OVERHEAD

    async def run(self) -> None:
        """Measure, until cancelled."""
        while True:
            started = time.monotonic()
            await uncut(self.step())
            await asyncio.sleep(max(0.0, MEASURE_S - (time.monotonic() - started)))

    async def step(self) -> None:
        """Measure once. Without an answer nothing is known, and storing says for itself whether it works."""
        try:
            self._waiting, (self._used, self._limit) = await self._intake.backlog(), await self._intake.memory()
        except (RedisError, OSError):
            self._waiting, self._used, self._limit = {}, 0, 0
        long = {p for p, n in self._waiting.items() if n > BACKLOG}
        for p in sorted(long - self._told):
            log.warning("partition %d has %d messages to apply; its robots are asked to wait", p, self._waiting[p])
        self._told = long
        if not self._limit or self._used <= ROOM_AGAIN * self._limit:
            self._is_full = False
        metrics.HELD_BACK.set(int(settings.PARTITIONS) if self._too_full() else len(long))

    def _too_full(self) -> bool:
        if not self._is_full and self._limit and self._used > NEARLY_FULL * self._limit:
            self._is_full = True
            log.warning("the durable Redis is %.0f %% full; robots are asked to wait", 100 * self._used / self._limit)
        return self._is_full
