"""Passes signs of life and telemetry on to the live Redis without ever holding a robot up."""

import asyncio
import logging
from collections import deque
from datetime import datetime

import redis.asyncio
from redis import RedisError

from telemetry import metrics, snapshots
from telemetry.snapshots import Put
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
LIMIT = 5000  # messages that wait; the oldest go first
AT_ONCE = 500  # per round trip; when more wait, what was superseded goes first
REST_S = 1.0  # after a failure
TOUCH_S = 1.0  # a sign of life of one robot is passed on this often


class Vitals:
    """A bounded queue of writes. Lossy: what the live Redis does not take is gone, the newest of a robot last."""

    def __init__(self, live: redis.asyncio.Redis) -> None:
        self._live = live
        self._puts: deque[Put] = deque()
        self._touches: dict[str, datetime] = {}
        self._hints: dict[str, dict[str, datetime]] = {}
        self._some = asyncio.Event()
        self._well = True

    def put(self, put: Put) -> None:
        """What a lossy message told."""
        if len(self._puts) >= LIMIT:
            self._thin_out()
        if len(self._puts) >= LIMIT:
            self._puts.popleft()
            metrics.DROPPED.inc()
        self._puts.append(put)
        self._some.set()

    def touch(self, robot_id: str, received_at: datetime) -> None:
        """A message that tells nothing but that the robot lives."""
        self._touches[robot_id] = received_at
        self._some.set()

    def hint(self, kind: str, robot_id: str, at: datetime) -> None:
        """What somebody witnessed of a robot's link: `snapshots.GONE` or `UNANSWERED`."""
        self._hints.setdefault(kind, {})[robot_id] = at
        self._some.set()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self._some.wait()
            if not await uncut(self.step()):
                await asyncio.sleep(REST_S)
            if not (self._puts or self._touches or self._hints):
                self._some.clear()

    def _thin_out(self) -> None:
        """One for each robot, the newest laid over what came before it, in the order of who has waited longest."""
        newest: dict[str, Put] = {}
        for put in self._puts:
            known = newest.get(put.robot_id)
            newest[put.robot_id] = put if known is None else _together(known, put)
        self._puts = deque(newest.values())

    async def step(self) -> bool:
        """One round trip; says whether the live Redis took it."""
        if len(self._puts) > AT_ONCE:
            self._thin_out()
        puts = [self._puts.popleft() for _ in range(min(AT_ONCE, len(self._puts)))]
        touches, self._touches = self._touches, {}
        hints, self._hints = self._hints, {}
        try:
            await snapshots.write(self._live, puts, touches, hints)
        except (RedisError, OSError) as error:
            if self._well:
                log.warning("live Redis takes no telemetry: %s", error)
            self._well = False
        else:
            self._well = True
        return self._well


class SignsOfLife:
    """One robot's. Every message is one; of those that come close together the first is passed on."""

    __slots__ = ("_passed_at", "_robot", "_vitals")

    def __init__(self, vitals: Vitals, robot: str) -> None:
        self._vitals, self._robot = vitals, robot
        self._passed_at = float("-inf")

    def give(self, received_at: datetime, now: float) -> None:
        """`now`: clock time."""
        if now - self._passed_at >= TOUCH_S:
            self._passed_at = now
            self._vitals.touch(self._robot, received_at)


def _together(one: Put, other: Put) -> Put:
    """Two messages of a robot as one: the newer number, and its facts where both tell something."""
    older, newer = sorted((one, other), key=lambda put: (put.session, put.seq))
    return newer._replace(facts=older.facts | newer.facts)
