"""The robots' links that this process owns, and the one task that keeps them: commands, replacement, revocation.

PostgreSQL is asked about each link once a second, a hundred together, and at once about those that a hint on the live Redis
names; without that Redis commands come within the second.
"""

import asyncio
import logging
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import msgspec
import redis.asyncio
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone
from redis import RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from telemetry import metrics, protocol
from telemetry.gateways.alarms import Alarms
from telemetry.gateways.beats import Beats
from telemetry.gateways.heard import Heard
from telemetry.gateways.intake import Backlogged, Intake
from telemetry.gateways.knocks import Knocks
from telemetry.gateways.limits import Backlog, Bucket, Room, critical_bucket, hello_bucket
from telemetry.gateways.link import Link
from telemetry.gateways.rows import Asked, Seen, look
from telemetry.gateways.seldom import Seldom
from telemetry.gateways.tries import Tries
from telemetry.gateways.vitals import Vitals
from telemetry.irregular import Duplicates
from telemetry.one_connection import OneConnection
from telemetry.snapshots import COMMANDS
from telemetry.uncut import uncut

log = logging.getLogger(__name__)
LOOK_S = 1.0
TOGETHER = 100  # links that one look is about: the messages of all robots wait while it lasts
GATEWAY = f"{socket.gethostname()}:{os.getpid()}"[:80]


class Links:
    """All links of one process and what they share. Begins with the first link and ends with the last."""

    _here: ClassVar["Links | None"] = None

    def __init__(self, clock: Callable[[], float] = time.monotonic, name: str = GATEWAY) -> None:
        self.clock, self.name = clock, name
        self.loop = asyncio.get_running_loop()
        self.counts: Counter[str] = Counter()  # bad input by field, and other things worth counting
        self.intake = Intake(settings.REDIS_URL)
        self.rows = OneConnection("robot-links")  # robots never wait for pages, nor pages for robots
        self.direct = OneConnection(
            "robot-stops"
        )  # waits for robots' rows, which must not keep the look at commands waiting
        self.live = redis.asyncio.from_url(
            settings.LIVE_REDIS_URL, socket_timeout=1.5, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0)
        )
        self.vitals, self.heard, self.knocks = Vitals(self.live), Heard(self.live), Knocks(self.rows)
        self.tries, self.duplicates = Tries(self.rows, name), Duplicates(self.rows)
        self.backlog, self.room = Backlog(self.intake), Room()
        self.alarms = Alarms(self.rows, clock)
        self._allowances: dict[str, Bucket] = {}  # of critical messages, by robot: a new link is no new allowance
        self._hellos: dict[str, Bucket] = {}
        self.beats = Beats(self.live, name)
        self._by_robot: dict[str, Link] = {}
        self._sockets = 0
        self._hinted: set[str] = set()
        self._wake = asyncio.Event()
        self._database_well = True
        self._shut = Seldom(clock)
        works = (
            self._run, self._listen, self.vitals.run, self.heard.run, self.knocks.run, self.backlog.run, self.beats.run,
            self.tries.run, self.duplicates.run,
        )  # fmt: skip
        self._tasks = [asyncio.create_task(work()) for work in works]

    @classmethod
    def enter(cls) -> "Links":
        """The links of this process, for one more socket. Each call needs one `leave`."""
        if cls._here is None or cls._here.loop is not asyncio.get_running_loop():
            cls._here = Links()
        cls._here._sockets += 1
        return cls._here

    async def leave(self) -> None:
        self._sockets -= 1
        if self._sockets:
            return
        if Links._here is self:
            Links._here = None
        await self.end()

    async def end(self) -> None:
        """Pass on what waits, and stop."""
        await self.knocks.step()
        await self.tries.step()
        await self.duplicates.step()
        await self.heard.step()
        await self.alarms.end()
        for task in self._tasks:
            task.cancel()
        self.rows.close()
        self.direct.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.beats.end()  # no beat comes after it
        await self.intake.aclose()
        await self.live.aclose()

    async def store(self, robot: str, msg_id: UUID, raw: bytes, received_at: datetime) -> str:
        """Store a critical message of a robot, or ask it to slow down. Raises `Unavailable`."""
        if self.backlog.too_long(robot):
            self.counts["backlogged"] += 1
            raise Backlogged("too many messages of this robot's partition wait to be applied")
        self.backlog.appending(len(raw))
        return await self.intake.store(robot, msg_id, raw, received_at)

    def allowance(self, robot: str) -> Bucket:
        """How many critical messages this robot may send now."""
        return self._allowances.setdefault(robot, critical_bucket())

    def welcomes(self, robot: str) -> bool:
        """May this robot open one more session now? One that does nothing else has to wait."""
        return self._hellos.setdefault(robot, hello_bucket()).take(self.clock())

    def not_now(self, error: Exception) -> None:
        """No robot can be let in for want of the database: all of them come again and again, so one line says it."""
        if (more := self._shut.more()) is not None:
            log.warning("robots cannot be let in, the database does not answer, or takes no writes: %s%s", error, more)

    def of(self, robot: str) -> Link | None:
        """The link of this robot that this process holds."""
        return self._by_robot.get(robot)

    async def add(self, link: Link) -> None:
        """This link has the newest session; an older one of the same robot in this process closes at once."""
        older = self._by_robot.get(link.robot)
        self._by_robot[link.robot] = link
        metrics.LINKS.set(len(self._by_robot))
        self.hint([link.robot])
        if older is not None:
            await self._close(older, protocol.REPLACED)

    def remove(self, link: Link) -> None:
        if self._by_robot.get(link.robot) is link:
            del self._by_robot[link.robot]
            metrics.LINKS.set(len(self._by_robot))

    def everybody(self) -> set[str]:
        """Whom each look is about."""
        return set(self._by_robot)

    def hint(self, robots: Iterable[str]) -> None:
        """These robots may have new commands."""
        mine = self._by_robot.keys() & set(robots)
        if mine:
            self._hinted |= mine
            self._wake.set()

    async def _run(self) -> None:
        next_look, pause, left = self.clock(), LOOK_S, list[str]()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_look - self.clock())):
                    await self._wake.wait()
            self._wake.clear()
            hinted, self._hinted = self._hinted, set()
            if self.clock() >= next_look:
                if not left:
                    left = list(self.everybody())
                    pause = LOOK_S / max(1, math.ceil(len(left) / TOGETHER))
                next_look = self.clock() + pause
                hinted |= set(left[:TOGETHER])
                left = left[TOGETHER:]
            try:
                await self.step(hinted)
            except Exception:  # nobody else would look after them
                log.exception("looking after robots' links failed; it goes on")

    async def step(self, robots: Iterable[str]) -> None:
        """Look after the links of these robots: one statement, then close, learn, send."""
        links = {r: link for r in robots if (link := self._by_robot.get(r)) is not None}
        asked = [link.ask(self.clock()) for link in links.values()]
        try:
            seen = await self.look(asked)
            self._database_well = True
        except DatabaseError as error:  # commands that are known are still sent
            if self._database_well:
                log.warning("the database does not answer, or takes no writes; robots' commands wait: %s", error)
            self._database_well, seen = False, []
        for row in seen:
            await self._attend(links[row.robot], row)
        for link in links.values():
            if self._by_robot.get(link.robot) is link:
                await self._send_due(link)

    async def look(self, asked: list[Asked]) -> list[Seen]:
        """What the database says about these links. Raises `django.db.Error`."""
        return await self.rows.ask(look, asked) if asked else []

    async def _attend(self, link: Link, row: Seen) -> None:
        if self._by_robot.get(link.robot) is not link:
            return
        if row.refused or row.replaced or row.sent_back:
            self.remove(link)
            code = protocol.REPLACED if row.replaced else protocol.COME_BACK
            await self._close(link, protocol.UNAUTHORISED if row.refused else code)
            return
        link.passed(row.applied)
        link.learn(row.commands)

    async def _send_due(self, link: Link) -> None:
        left, why = link.take_due(self.clock()), ""
        try:
            while left:
                await link.send(left[0])
                del left[0]
        except Exception as error:  # each transport has its own; what did not leave comes again
            why = f"{type(error).__name__}: {error}"
            log.warning("sending to %s failed: %s", link.robot, error)
        sent, not_sent = link.settle(left)
        self.tries.note(link, sent, not_sent, why, timezone.now())

    async def _close(self, link: Link, code: int) -> None:
        log.info("closing the link of %s (%d)", link.robot, code)
        with suppress(Exception):  # it may be gone already
            await link.close(code)

    async def _listen(self) -> None:
        """Hints, as long as the live Redis gives any."""
        while True:
            try:
                async with self.live.pubsub() as hints:
                    await uncut(hints.subscribe(COMMANDS))
                    while True:
                        message = await hints.get_message(ignore_subscribe_messages=True, timeout=1.0)
                        if message is not None:
                            self.hint(_robots(message))
            except (RedisError, OSError):
                await asyncio.sleep(LOOK_S)


def _robots(message: dict[str, Any]) -> list[str]:
    try:
        return msgspec.json.decode(message["data"], type=list[str])
    except msgspec.DecodeError:
        log.warning("a hint that is no list of robots: %.200r", message["data"])
        return []
