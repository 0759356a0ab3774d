"""One robot that a driver speaks with: its messages one after the other, its session, its commands.

The driver decides, `effects` does. What a driver raises costs that message, nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from django.db import Error as DatabaseError
from django.utils import timezone

from telemetry import metrics, protocol
from telemetry.drivers import contract
from telemetry.drivers.contract import Effect, Heard, Wanted
from telemetry.gateways import direct, rows
from telemetry.gateways.complaints import Complaints
from telemetry.gateways.limits import Bucket
from telemetry.gateways.links import Links
from telemetry.gateways.mqtt import asking
from telemetry.gateways.mqtt.broker import Incoming
from telemetry.gateways.mqtt.driven_link import MQTT, DrivenLink
from telemetry.gateways.mqtt.effects import DO, NOT_NOW, Broker, Came, lives
from telemetry.gateways.mqtt.enrolled import Robot
from telemetry.gateways.mqtt.shown import made_of, without_tokens
from telemetry.gateways.mqtt.spoken import Receipt
from telemetry.gateways.mqtt.waiting import Crowd, Message, Waiting
from telemetry.gateways.mqtt.words import WINDOW, Words
from telemetry.gateways.seldom import Seldom
from telemetry.gateways.vitals import SignsOfLife

log = logging.getLogger(__name__)
MESSAGES_PER_S = 200.0  # of one robot that are looked at; more wait, or give way to newer ones
BURST_S = 25.0  # so many seconds' worth at once
MAX_BYTES = 64 * 1024  # of a message, where the driver's settings say nothing
REST_S = 1.0  # after the database did not open a session
REFUSED_S = 5.0  # after a link was refused or replaced

_command = msgspec.json.Decoder(
    msgspec.defstruct("_Command", [
        ("msg_id", UUID), ("type", str), ("data", dict[str, Any], {}), ("mission", UUID | None, None),
        ("dispatch_no", int | None, None),
    ])
).decode  # fmt: skip


class Talk:
    """One robot's conversation and what it needs. `ready` is called when it can go on after it could not."""

    def __init__(
        self, robot: Robot, links: Links, broker: Broker, ready: Callable[["Talk"], None], crowd: Crowd | None = None,
        ours: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """`ours`: whether the robot is still this gateway's to drive."""
        self.robot, self.links, self.broker, self._ready = robot, links, broker, ready
        self._ours = ours
        self.wanted = Wanted()
        self.link: DrivenLink | None = None
        self.queued = False  # for the gateway: it is in the line of those that have something to do
        id = robot.spec.id
        self.words = Words(id, links.store, links.room, links.allowance(id), links.clock, self._moved)
        self.complaints = Complaints(id, links.clock)
        self._sheds, self._failures = Seldom(links.clock), Seldom(links.clock)
        self.signs = SignsOfLife(links.vitals, id)
        self.unsent = False
        self.offered: frozenset[str] | None = None
        self._messages = Waiting(robot.driver.newest, crowd or Crowd(), broker.ack)
        profile = robot.spec.profile
        self._max_bytes = int(getattr(profile, "max_payload_bytes", MAX_BYTES))
        per_s = 2 * float(getattr(profile, "max_states_per_s", MESSAGES_PER_S / 2))
        self._rate = Bucket(per_s, BURST_S * per_s, BURST_S * per_s)
        self._opening: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._direct: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._is_hasty = False  # more comes of it than is looked at
        self.topics = asking.topics(robot.driver, robot.spec)
        self._conversation = self._converse()

    # --- what comes

    @property
    def may_send(self) -> bool:
        """A robot that speaks for itself takes the same frame twice for one. What a driver says on its own is said by one
        gateway only: one that was frozen, or is cut off from the database, may be replaced by now, and not know it.
        """
        if asking.is_left_alone(self.robot.driver):
            return False
        return self.broker.hears and (self.robot.driver.transport != "mqtt" or self._ours())

    def listens(self, topic: str) -> bool:
        """Whether it is one of its own topics: another robot of that name may be on the broker, under another prefix."""
        return topic in self.topics or asking.shows(self.topics, topic)

    def take(self, message: Incoming, part: str, at: datetime) -> None:
        """A message of this robot gets in its line."""
        if not self._messages.put(message, part, at, is_throttled=self._is_hasty or self.words.is_throttled):
            self._shed(message)

    def _shed(self, message: Incoming) -> None:
        """It sends more than it may, for long, and would take the room of all others at the broker.

        Its messages are let go of; as its link ends, it will say hello and repeat what is not applied.
        """
        if (more := self._sheds.more()) is not None:
            log.warning("%s sends too much: it is made to begin anew%s", self.robot.spec.id, more)
        self.broker.ack(message)
        self._messages.clear()
        if self.link is not None:
            self.links.remove(self.link)
        self._forget()
        self._rest(REFUSED_S)

    @property
    def has_work(self) -> bool:
        return bool(self._messages) and not self.is_held_up

    @property
    def is_held_up(self) -> bool:
        """It goes on when `ready` is called."""
        return self._opening is not None or self._pause is not None or self.words.is_full

    def work(self) -> None:
        """Let the conversation hear the next message."""
        now = self.links.clock()
        if asking.is_left_alone(self.robot.driver):
            self._rest(asking.REST_S / 10)
            return
        if now < self._rests_until:
            self._rest(self._rests_until - now)
            return
        self._is_hasty = not self._rate.take(now)
        if self._is_hasty:
            self._rest(1 / self._rate.per_s)
            return
        message, part, at = self._messages.take()
        receipt = Receipt(partial(self.broker.ack, message)) if message.qos else None
        is_long = len(message.payload) > self._max_bytes
        payload = b"" if is_long else message.payload
        heard = Heard(part=part, payload=payload, at=at, retained=message.retained, too_long=is_long)
        effects = self._ask("hear", heard, self.wanted)
        if is_long:
            wrong = contract.Complaint(field="message", reason=f"is longer than {self._max_bytes} bytes")
            effects = [wrong, *(e for e in effects if type(e) is not contract.Complaint)]
        self.links.heard.note(
            self.robot.spec.id, without_tokens(message.payload), at, made_of(effects), MQTT, part[:40]
        )
        old = message.retained or (message.qos > 0 and self.broker.catches_up)
        self._carry_out(effects, Came(at, old, receipt, (message, part, at)))

    def _rest(self, wait_s: float) -> None:
        self._rests_until = self.links.clock() + wait_s
        if self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._ready(self)

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._opening = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("opening a session of %s failed", self.robot.spec.id, exc_info=error)
        self._ready(self)

    def _moved(self) -> None:
        if self._messages and len(self.words) < WINDOW:
            self._ready(self)

    # --- what the conversation answers

    def _ask(self, method: str, *args: Any) -> list[Effect]:
        """All effects of a call; none when the driver fails."""
        try:
            effects = asking.everything(self.robot.driver, getattr(self._conversation, method), *args)
            if unknown := [type(e).__name__ for e in effects if type(e) not in DO and type(e) is not contract.Begins]:
                raise TypeError(f"{unknown[0]} is no effect")
            return effects
        except TimeoutError:
            self._forget()  # it was cut short anywhere
            return []
        except Exception:  # a driver may raise anything
            self._failed("the driver %s failed (%s of %s)", self.robot.driver.name, method, self.robot.spec.id)
            return []

    def _failed(self, text: str, *about: object) -> None:
        """To be called where an exception is handled. A robot that talks much shall not fill the disk with tracebacks."""
        metrics.bad("driver")
        if (more := self._failures.more()) is not None:
            log.exception(f"{text}%s", *about, more)

    def _carry_out(self, effects: Iterable[Effect], came: Came) -> None:
        """Do what the effects say, in their order. The rest waits while a session is opened."""
        effects, self.unsent = list(effects), False
        for n, effect in enumerate(effects):
            if type(effect) is contract.Begins:
                if self._opening is None:
                    self._opening = asyncio.create_task(self._open(effect, effects[n + 1 :], came))
                    self._opening.add_done_callback(self._opened)
                    return
            else:
                try:
                    DO[type(effect)](self, effect, came)
                except Exception:  # a driver may fill its effects with anything
                    self._failed("what the driver %s answers cannot be done: %.300r", self.robot.driver.name, effect)
        if came.receipt is not None:
            came.receipt.done()

    async def _open(self, begins: contract.Begins, rest: list[Effect], came: Came) -> None:
        robot = self.robot.spec.id
        try:
            holder = await self.links.rows.ask(rows.holder_of, begins.token) if begins.token else None
            if begins.token is not None and (holder is None or holder.robot != robot):
                self._turn_away(begins.token, came.at)
                if came.receipt is not None:
                    came.receipt.done()
                return
            if not self.links.welcomes(robot):
                self._later(came.message)
                return
            opened = await self.links.rows.ask(rows.open_session, robot, self.links.name)
        except DatabaseError as error:
            self.links.not_now(error)
            self._later(came.message)
            return
        credential = holder.credential if holder is not None else None
        self.link = DrivenLink(self, opened.session, credential, opened.applied, self.links.clock())
        self.applied({})
        self._carry_out(self._ask("begun", opened.session, opened.applied, came.at), Came(came.at, came.old))
        await self.links.add(self.link)
        lives(self, came)
        self._carry_out(rest, came)

    def _later(self, message: Message | None) -> None:
        """No session can be opened now: the message is heard again in a moment."""
        self._forget()
        if message is not None:
            self._messages.put_back(message)
        self._rest(REST_S)

    def _turn_away(self, token: str, at: datetime) -> None:
        self.links.counts["unauthorised"] += 1
        metrics.UNAUTHORISED.inc()
        self.links.knocks.note(token, self.robot.spec.id, MQTT, "")
        if self.link is not None:
            self.links.remove(self.link)
        self._carry_out(self._ask("refused", at), Came(at))
        self._forget()
        self._rest(REFUSED_S)

    # --- words

    def stored(self, word: contract.Say, verdict: str, at: datetime) -> None:
        if verdict == "duplicate":
            metrics.DUPLICATES.labels("gateway").inc()
            if word.raw:
                self.links.duplicates.note(self.robot.spec.id, word.type)
        if self.link is not None:
            self._carry_out(self._ask("stored", word, verdict, at), Came(at))

    def apply_directly(self, frame: bytes, at: datetime) -> None:
        """That a robot stands waits for no store (I13)."""
        if self._direct is None or self._direct.done():
            self._direct = asyncio.create_task(self._apply_directly(frame, at))

    async def _apply_directly(self, frame: bytes, at: datetime) -> None:
        try:
            await self.links.direct.ask(direct.apply, protocol.decode_up(frame), at)
        except Exception as error:  # it is stored as soon as that can be
            log.warning("%s says that it stands; that could not be written: %s", self.robot.spec.id, error)

    # --- commands, the clock, the end

    async def send(self, frame: str) -> None:
        """A command. One that cannot leave is no try: raises."""
        if not self.may_send:
            raise ConnectionResetError(NOT_NOW)
        got: Any = _command(frame)
        command = contract.Command(
            id=got.msg_id, type=got.type, data=got.data, mission=got.mission, dispatch_no=got.dispatch_no, raw=frame
        )
        now = timezone.now()
        self._carry_out(self._ask("command", command, self.wanted, now), Came(now))

    def step(self, now: datetime) -> None:
        """What is due by the clock; not while nothing can be sent, for then no time passes that a robot could use."""
        if self._opening is None and self.may_send:
            self._carry_out(self._ask("step", self.wanted, now), Came(now))
        if self.has_work:
            self._ready(self)

    def applied(self, applied: dict[int, int]) -> None:
        """So far what this robot said is applied."""
        self.wanted = msgspec.structs.replace(self.wanted, applied=applied)

    async def closed(self, link: DrivenLink, code: int) -> None:
        """This link has ended: what comes next is the beginning of another one."""
        if self.link is link:
            self._forget()
            if code != protocol.COME_BACK:
                self._rest(REFUSED_S)

    def _forget(self) -> None:
        self.link = None
        try:
            self._conversation = self._converse()
        except Exception as error:  # the same
            log.error(
                "the driver %s fails: %s goes on with what it had: %r",
                self.robot.driver.name,
                self.robot.spec.id,
                error,
            )

    def _converse(self) -> contract.Conversation:
        return asking.in_time(self.robot.driver, partial(self.robot.driver.converse, self.robot.spec))

    def end(self) -> None:
        """The robot is not ours any more. What it has said is still stored; what waits to be heard is not."""
        if self.link is not None:
            self.links.remove(self.link)
        if self._opening is not None:
            self._opening.cancel()
        if self._pause is not None:
            self._pause.cancel()
        self._messages.clear()
