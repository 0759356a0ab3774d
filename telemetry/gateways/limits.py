"""What a gateway does not let through: too much telemetry of one robot, and critical messages that nobody could apply.

Telemetry over the limit is dropped, counted and told. Critical messages are never dropped: they are not taken, so their
robot keeps them and sends them again later.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from redis import RedisError

from telemetry.gateways.vitals import uncut
from telemetry.stream import Intake, partition_of

log = logging.getLogger(__name__)
LOSSY_PER_S = 50.0  # a robot that moves says two a second
LOSSY_BURST = 500.0  # one whole batch over HTTP
BACKLOG = 50_000  # entries of one partition; about 10 s of a worker's time
MEASURE_S = 1.0


@dataclass(slots=True)
class Bucket:
    """How many lossy messages one robot may still send: fills by LOSSY_PER_S up to LOSSY_BURST."""

    level: float = LOSSY_BURST
    at: float = 0.0  # clock time in s
    told: float = float("-inf")  # when the robot was last told that something was dropped

    def take(self, now: float) -> bool:
        """One more message: is it within the limit?"""
        self.level = min(LOSSY_BURST, self.level + max(0.0, now - self.at) * LOSSY_PER_S)
        self.at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True


def over_limit() -> str:
    """The reason, for the robot."""
    return f"more than {LOSSY_PER_S:.0f} lossy messages a second"


class Backlog:
    """How far the worker is behind, per partition, as measured once a second."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._waiting: dict[int, int] = {}
        self._told: set[int] = set()

    def too_long(self, robot: str) -> bool:
        return self._waiting.get(partition_of(robot), 0) > BACKLOG

    async def run(self) -> None:
        """Measure, until cancelled."""
        while True:
            started = time.monotonic()
            await uncut(self.step())
            await asyncio.sleep(max(0.0, MEASURE_S - (time.monotonic() - started)))

    async def step(self) -> None:
        """Measure once. Without an answer nothing is known, and storing says for itself whether it works."""
        try:
            self._waiting = await self._intake.backlog()
        except (RedisError, OSError):
            self._waiting = {}
        long = {p for p, n in self._waiting.items() if n > BACKLOG}
        for p in sorted(long - self._told):
            log.warning("partition %d has %d messages to apply; its robots are asked to wait", p, self._waiting[p])
        self._told = long
