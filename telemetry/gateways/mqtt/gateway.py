"""The MQTT gateway: robots of its partitions, whatever their driver, over one connection to the broker.

Messages are read, put in line by robot, and heard robot by robot in turns, so that one who says much holds nobody up.
The broker sends no more events than may wait here; of what says everything each time, the newest is kept.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone
from paho.mqtt.matcher import MQTTMatcher

from telemetry import metrics
from telemetry.drivers import registry
from telemetry.drivers.contract import Driver, Wanted
from telemetry.gateways import rows
from telemetry.gateways.links import Links
from telemetry.gateways.mqtt import asking, enrolled
from telemetry.gateways.mqtt.broker import Address, Broker, Incoming
from telemetry.gateways.mqtt.driven_link import MQTT
from telemetry.gateways.mqtt.enrolled import Enrolled, Robot
from telemetry.gateways.mqtt.sharing import Clash, Share
from telemetry.gateways.mqtt.talk import Talk
from telemetry.gateways.mqtt.waiting import Crowd
from telemetry.gateways.mqtt.wanted import wanted
from telemetry.gateways.rows import Asked, Seen
from telemetry.one_connection import OneConnection

log = logging.getLogger(__name__)
TEND_S = 0.5
ROBOTS_S = 1.0  # a robot that was retired, or lost its address, is refused within this
STRANGERS_S = 10.0
TURN_S = 0.005  # hearing messages, until others have their turn
TOPICS, LONGEST_TOPIC = 5000, 300  # so many, of so many characters, are remembered with whose they are
END_S = 0.7  # for what was said to be stored


class DrivenLinks(Links):
    """Links of robots that drivers speak with: each look also says what the site wants of them."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock, name)
        self.talks: dict[str, Talk] = {}
        self._about: list[str] = []  # robots of this look whose driver asks what is wanted of them

    def everybody(self) -> set[str]:
        return set(self.talks)

    async def look(self, asked: list[Asked]) -> list[Seen]:
        """In one visit to the database; what is wanted is newer than the commands, so that a driver can make sense of them."""
        seen, want = await self.rows.ask(_look, asked, self._about)
        for robot, one in want.items():
            if (talk := self.talks.get(robot)) is not None:
                talk.wanted = msgspec.structs.replace(one, applied=talk.wanted.applied)
        return seen

    async def step(self, robots: Iterable[str]) -> None:
        talks = [talk for robot in robots if (talk := self.talks.get(robot)) is not None]
        self._about = [talk.robot.spec.id for talk in talks if talk.robot.driver.transport == "mqtt"]
        await super().step([talk.robot.spec.id for talk in talks])
        now = timezone.now()
        for talk in talks:
            talk.step(now)


def _look(asked: list[Asked], robots: list[str]) -> tuple[list[Seen], dict[str, Wanted]]:
    return rows.look(asked) if asked else [], wanted(robots) if robots else {}


class Gateway:
    """One process of them. `start`, then `run` until it raises `Clash` or is cancelled, then `end`."""

    def __init__(
        self, url: str, name: str, *, count: int | None = None, share: Share | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.name, self.clock = name, clock
        self.links = DrivenLinks(name, clock)
        self.broker = Broker(
            Address.of(url), name, self.heard, clock=clock, changed=self._changed,
            presence=f"drover/gateways/{name}/presence",
        )  # fmt: skip
        self.share = share or Share(name, count or int(settings.PARTITIONS))
        self.talks = self.links.talks
        self._rows = OneConnection("gateway-share")  # a lease must not wait behind robots' questions
        self._crowd = Crowd()
        self._line: deque[Talk] = deque()
        self._working = False
        self._by_address: dict[tuple[str, str], Talk] = {}
        self._enrolled = Enrolled({}, frozenset())
        self._drivers: list[Driver] = [registry.get(name) for name in registry.names()]
        self._discovery: list[str] = []
        self._commands: dict[str, Talk] = {}
        self._next: dict[str, float] = {}
        self._heard_at = clock()  # when the broker was there, or we began
        self._ours_until = -math.inf  # by our clock: then another gateway may take our robots
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: set[asyncio.Task[None]] = set()

    # --- life

    async def start(self) -> None:
        """Take a share and know its robots, before the first message comes. Raises `Clash`, and database errors."""
        self.links.beats.deaf = True
        await self._tend()
        self._tasks = [asyncio.create_task(self.broker.run())]

    async def run(self) -> None:
        """Keep the share and the robots, until cancelled. Raises `Clash`."""
        told = False
        while True:
            await asyncio.sleep(TEND_S)
            try:
                await self._tend()
                if told:
                    log.info("the share of robots is renewed again")
                told = False
            except DatabaseError as error:
                if not told:
                    log.warning(
                        "the share of robots cannot be renewed, the database does not answer, or takes no writes: %s",
                        error,
                    )
                told = True
            except Clash:
                raise
            except Exception:  # nobody else would look after it
                log.exception("looking after the share of robots failed; it goes on")

    async def end(self) -> None:
        """What was said is stored, if that is quick; then nothing is ours any more."""
        self.broker.want({})
        self._line.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.gather(*(talk.words.settle() for talk in self.talks.values()))
        await self.broker.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._leaving, return_exceptions=True)
        for talk in self.talks.values():
            talk.end()
            talk.words.close()
        with suppress(DatabaseError):
            await self._rows.ask(self.share.release)
        self._rows.close()
        await self.links.end()

    # --- messages

    def heard(self, message: Incoming) -> None:
        """From the broker: put it in its robot's line."""
        at = timezone.now()
        theirs = self._whose(message.topic)
        for driver, address, part in theirs:
            talk = self._by_address.get((driver.name, address))
            if talk is not None and talk.listens(message.topic):
                talk.take(message, part, at)
                self.ready(talk)
                return
        if not theirs:
            if (commanded := self._commands.get(message.topic)) is not None and message.retained and message.payload:
                self._alarm(commanded, message.topic)
        elif not any((driver.name, address) in self._enrolled.addresses for driver, address, _ in theirs):
            self.links.knocks.note("", theirs[0][1], MQTT, "", driver=theirs[0][0].name)
        self.broker.ack(message)
        self.broker.drop(message.topic) if message.qos else None

    def _whose(self, topic: str) -> list[tuple[Driver, str, str]]:
        """What drivers say of a topic; asked once for each, as most come again and again."""
        known = self._topics.get(topic)
        if known is None:
            known = list(asking.whose(self._drivers, topic))
            if len(self._topics) >= TOPICS:
                self._topics.clear()
            if len(topic) <= LONGEST_TOPIC and not any(map(asking.is_left_alone, self._drivers)):
                self._topics[topic] = known
        return known

    def ready(self, talk: Talk) -> None:
        """It can go on: it gets in line."""
        if not talk.queued and talk.has_work:
            talk.queued = True
            self._line.append(talk)
        if self._line and not self._working:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """One message of each in line, for a while; then the loop has its turn."""
        until = self.clock() + TURN_S
        while self._line:
            talk = self._line.popleft()
            talk.queued = False
            try:
                if talk.has_work:
                    talk.work()
            except Exception:  # it costs this message, and no other robot
                log.exception("a message of %s could not be heard", talk.robot.spec.id)
            if talk.has_work:
                talk.queued = True
                self._line.append(talk)
            if self.clock() >= until:
                break
        self._working = False
        if self._line:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)

    def _alarm(self, talk: Talk, topic: str) -> None:
        """Somebody left a command on the broker: the robot is given it whenever it comes back."""
        self.links.alarms.sound("retained_command", talk.robot.spec.id, topic=topic)

    # --- share, robots, subscriptions

    def _changed(self) -> None:
        """The broker came or went."""
        self.links.beats.deaf = not self.broker.hears
        metrics.BROKER.set(int(self.broker.hears))

    async def _tend(self) -> None:
        now = self.clock()
        before = self.share.mine
        trouble = "" if self.broker.hears else self.broker.why or "the broker does not answer"
        self._heard_at = now if self.broker.hears else self._heard_at
        deaf_s = math.inf if self.broker.is_refused else now - self._heard_at  # that does not pass by itself
        mine = await self._rows.ask(self.share.tend, trouble, deaf_s)
        self._ours_until = now + self.share.lease_s
        if mine != before:
            log.info("%s has the robots of partitions %s", self.name, sorted(mine))
        if mine != before or self._is_time("robots", ROBOTS_S, now):
            self._enrolled = await self._rows.ask(enrolled.look, mine)
            await self._meet(self._enrolled.mine)
        if mine != before or self._is_time("strangers", STRANGERS_S, now):
            where = await self._rows.ask(enrolled.strangers) if 0 in mine else []
            found = sorted({name for driver, profile in where for name in asking.discovery(driver, profile)})
            if found != self._discovery:
                self._discovery = found
                self._subscribe()

    def _ours(self) -> bool:
        """Nobody else can have taken our robots yet."""
        return self.clock() < self._ours_until

    def _is_time(self, what: str, every_s: float, now: float) -> bool:
        if now < self._next.get(what, -math.inf):
            return False
        self._next[what] = now + every_s
        return True

    async def _meet(self, robots: dict[str, Robot]) -> None:
        """Robots that come, go, or have other settings."""
        gone = [id for id, talk in self.talks.items() if robots.get(id) != talk.robot]
        new = [id for id in robots if id not in self.talks or id in gone]
        want = await self._rows.ask(wanted, new) if new else {}
        for id in gone:
            self._part(self.talks.pop(id))
        for id in new:
            if asking.is_left_alone(robots[id].driver):
                continue
            try:
                talk = Talk(robots[id], self.links, self.broker, self.ready, self._crowd, self._ours)
            except Exception:  # a driver may raise anything
                log.exception("the driver %s fails: %s is not served", robots[id].driver.name, id)
                continue
            talk.wanted = want.get(id, Wanted())
            self.talks[id] = talk
        if gone or new:
            self._by_address = {(t.robot.driver.name, t.robot.spec.address): t for t in self.talks.values()}
            self._commands = {
                topic: t for t in self.talks.values() for topic in asking.commands(t.robot.driver, t.robot.spec)
            }
            self._topics = {}
            self._drivers = [registry.get(name) for name in registry.names()]
            self._subscribe()

    def _part(self, talk: Talk) -> None:
        talk.end()
        task = asyncio.create_task(talk.words.settle())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _subscribe(self) -> None:
        """What a filter for strangers shows is not asked for once more: many brokers would send it twice."""
        filters: dict[str, int] = dict.fromkeys(self._discovery, 0)
        shown = MQTTMatcher()
        for name in self._discovery:
            shown[name] = True
        for talk in self.talks.values():
            for name, qos in talk.topics.items():
                if qos or next(shown.iter_match(name), None) is None:
                    filters[name] = qos
        self.broker.want(filters, self._commands)


async def serve(gateway: Gateway, stopping: asyncio.Event) -> None:
    """Until it is told to stop. Raises `Clash`."""
    running = asyncio.create_task(gateway.run())
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
    finally:
        for task in (running, stop):
            task.cancel()
        await asyncio.gather(running, stop, return_exceptions=True)
        await gateway.end()


__all__ = ["Clash", "Gateway", "serve"]
