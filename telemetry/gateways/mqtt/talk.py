"""One robot that a driver speaks with: carries out what its conversation answers, and routes commands through it.

The driver decides, this module does: opens sessions, stores words and acknowledges what they came with, passes
telemetry and signs of life on, sends. What a driver raises costs that message, nothing else.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import msgspec
from django.db import Error as DatabaseError
from django.utils import timezone

from telemetry import frames, metrics, protocol, snapshots
from telemetry.drivers import contract
from telemetry.drivers.contract import Effect, Heard, Wanted
from telemetry.gateways import direct, rows
from telemetry.gateways.complaints import Complaints
from telemetry.gateways.limits import Bucket, too_much
from telemetry.gateways.links import SILENT_S, Link, Links
from telemetry.gateways.mqtt import asking
from telemetry.gateways.mqtt.broker import Incoming
from telemetry.gateways.mqtt.enrolled import Robot
from telemetry.gateways.mqtt.shown import made_of, without_tokens
from telemetry.gateways.mqtt.soundness import kept, sound
from telemetry.gateways.mqtt.spoken import Internal, Receipt, Spoken
from telemetry.gateways.mqtt.waiting import Crowd, Waiting
from telemetry.gateways.mqtt.words import WINDOW, Words
from telemetry.gateways.rows import Asked
from telemetry.protocol import Bad
from telemetry.snapshots import Put

log = logging.getLogger(__name__)
MQTT = "MQTT"
TOUCH_S = 1.0  # a sign of life is passed on this often
MESSAGES_PER_S = 200.0  # of one robot that are looked at; more wait, or give way to newer ones
BURST_S = 25.0  # so many seconds' worth at once
MAX_BYTES = 64 * 1024  # of a message, where the driver's settings say nothing
NOT_NOW = "the MQTT broker is away, or the database has not confirmed for long that this robot is ours"
REST_S = 1.0  # after the database did not open a session
REFUSED_S = 5.0  # after a link was refused or replaced

_command = msgspec.json.Decoder(
    msgspec.defstruct("_Command", [
        ("msg_id", UUID), ("type", str), ("data", dict[str, Any], {}), ("mission", UUID | None, None),
        ("dispatch_no", int | None, None),
    ])
).decode  # fmt: skip


class Broker(Protocol):
    """What a talk needs of it."""

    def publish(self, topic: str, payload: bytes, qos: int) -> None: ...

    def ack(self, message: Incoming) -> None: ...

    @property
    def hears(self) -> bool: ...

    @property
    def catches_up(self) -> bool: ...


class DrivenLink(Link):
    """A link over a driver: its commands go through the conversation."""

    def __init__(
        self, talk: "Talk", session: int, credential: int | None, applied: dict[int, int], heard: float
    ) -> None:
        id = talk.robot.spec.id
        super().__init__(id, session, credential, talk.send, partial(talk.closed, self), applied, MQTT, heard)  # type: ignore[arg-type]
        self._talk = talk
        self.said = self.told = 0  # messages numbered by us

    def ask(self, now: float = -math.inf) -> Asked:
        """Over a broker that is away nothing can be sent, so nothing is marked as sent."""
        robot = self._talk.robot
        asked = super().ask(now)
        return asked._replace(takes=self._talk.may_send, address=robot.spec.address, brand=robot.brand)

    def passed(self, applied: dict[int, int]) -> None:
        """Its robot may be told, if it asks."""
        super().passed(applied)
        if applied:
            self._talk.applied(self.mine())

    def mine(self) -> dict[int, int]:
        """What is applied of the sessions whose messages came over this link."""
        mine = self.sessions | {self.session}
        return {session: seq for session, seq in self.applied.items() if session in mine}

    def silent(self, now: float) -> bool:
        """Some say something twice a minute only, and are well."""
        return now - self.heard > max(SILENT_S, self._talk.robot.suspect_after_s)


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
        self._complaints = Complaints(id, links.clock)
        self._messages = Waiting(robot.driver.newest, crowd or Crowd(), broker.ack)
        profile = robot.spec.profile
        self._max_bytes = int(getattr(profile, "max_payload_bytes", MAX_BYTES))
        per_s = 2 * float(getattr(profile, "max_states_per_s", MESSAGES_PER_S / 2))
        self._rate = Bucket(per_s, BURST_S * per_s, BURST_S * per_s)
        self._opening: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._direct: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._touched = -math.inf
        self._unsent = False  # something of the answer in hand could not leave
        self._offered: frozenset[str] | None = None
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
        if not self._messages.put(message, part, at, is_throttled=self.words.is_throttled):
            self._shed(message)

    def _shed(self, message: Incoming) -> None:
        """It sends more than it may, for long, and would take the room of all others at the broker.

        Its messages are let go of; as its link ends, it will say hello and repeat what is not applied.
        """
        log.warning("%s sends too much: it is made to begin anew", self.robot.spec.id)
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
        if now < self._rests_until or not self._rate.take(now):
            self._rest(max(self._rests_until - now, 1 / self._rate.per_s))
            return
        message, part, at = self._messages.take()
        receipt = Receipt(partial(self.broker.ack, message)) if message.qos else None
        if len(message.payload) > self._max_bytes:
            effects: Iterable[Effect] = [
                contract.Complaint(field="message", reason=f"is longer than {self._max_bytes} bytes")
            ]
        else:
            heard = Heard(part=part, payload=message.payload, at=at, retained=message.retained)
            effects = self._ask("hear", heard, self.wanted)
        self.links.heard.note(
            self.robot.spec.id, without_tokens(message.payload), at, made_of(effects), MQTT, part[:40]
        )
        old = message.retained or (message.qos > 0 and self.broker.catches_up)
        self._carry_out(effects, at, receipt, old, message=(message, part, at))

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
            if unknown := [type(e).__name__ for e in effects if type(e) not in _DO and type(e) is not contract.Begins]:
                raise TypeError(f"{unknown[0]} is no effect")
            return effects
        except TimeoutError:
            self._forget()  # it was cut short anywhere
            return []
        except Exception:
            log.exception("the driver %s failed (%s of %s)", self.robot.driver.name, method, self.robot.spec.id)
            metrics.bad("driver")
            return []

    def _carry_out(
        self, effects: Iterable[Effect], at: datetime, receipt: Receipt | None = None, old: bool = False,
        message: Any = None,
    ) -> None:  # fmt: skip
        """Do what the effects say, in their order. The rest waits while a session is opened."""
        effects, self._unsent = list(effects), False
        for n, effect in enumerate(effects):
            kind = type(effect)
            if kind is contract.Begins:
                if self._opening is None:
                    self._opening = asyncio.create_task(self._open(effect, effects[n + 1 :], at, receipt, old, message))
                    self._opening.add_done_callback(self._opened)
                    return
            else:
                try:
                    _DO[kind](self, effect, at, receipt, old)
                except Exception:
                    log.exception("what the driver %s answers cannot be done: %.300r", self.robot.driver.name, effect)
                    metrics.bad("driver")
        if receipt is not None:
            receipt.done()

    async def _open(
        self, begins: contract.Begins, rest: list[Effect], at: datetime, receipt: Receipt | None, old: bool, message: Any
    ) -> None:  # fmt: skip
        robot = self.robot.spec.id
        try:
            holder = await self.links.rows.ask(rows.holder_of, begins.token) if begins.token else None
            if begins.token is not None and (holder is None or holder.robot != robot):
                self._turn_away(begins.token, at)
                if receipt is not None:
                    receipt.done()
                return
            if not self.links.welcomes(robot):
                self._later(message)
                return
            opened = await self.links.rows.ask(rows.open_session, robot, self.links.name)
        except DatabaseError as error:
            log.warning("%s cannot be welcomed, the database does not answer, or takes no writes: %s", robot, error)
            self._later(message)
            return
        credential = holder.credential if holder is not None else None
        self.link = DrivenLink(self, opened.session, credential, opened.applied, self.links.clock())
        self.applied({})
        self._carry_out(self._ask("begun", opened.session, opened.applied, at), at, None, old)
        await self.links.add(self.link)
        self._touch(at, old)
        self._carry_out(rest, at, receipt, old)

    def _later(self, message: Any) -> None:
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
        self._carry_out(self._ask("refused", at), at)
        self._forget()
        self._rest(REFUSED_S)

    def _say(self, word: contract.Say, at: datetime, receipt: Receipt | None, old: bool) -> None:
        if self.link is None:
            return  # nobody has let it in
        if receipt is None and not word.raw and self.words.has(word.id):
            return  # it is said again, as nobody has stored it yet
        word = word if word.raw else kept(word, at)
        spoken = Spoken(self, self.link, word, receipt)
        if receipt is not None:
            receipt.wait()
        if word.session is not None and word.seq is not None:
            self.link.heard_of((word.session,))
            self.link.numbers.saw(word.session, "critical", word.seq)
        self.words.put(spoken)

    def _tell(self, told: contract.Tell, at: datetime, receipt: Receipt | None, old: bool) -> None:
        link = self.link
        if link is None:
            return
        session, seq = told.session, told.seq
        if session is None or seq is None:
            link.told += 1
            session, seq, facts = link.session, link.told, sound(told.facts)
        else:
            link.numbers.saw(session, "lossy", seq)
            facts = told.facts
        if too_much(self.links.room, link.lossy, self.links.clock()):
            metrics.DROPPED.inc()
            return
        if facts:
            self.links.vitals.put(Put(self.robot.spec.id, session, seq, at, facts))

    def _delivered(self, delivered: contract.Delivered, at: datetime, receipt: Receipt | None, old: bool) -> None:
        if self._unsent:
            return  # what it was to be delivered with has not left: the command comes again
        if self.link is not None and self.link.acknowledge(delivered.command) is not None:
            self.words.put(Internal(*frames.delivered(delivered.command, self.robot.spec.id, at)))

    def _offers(self, offers: contract.Offers, at: datetime, receipt: Receipt | None, old: bool) -> None:
        if self._offered != offers.capabilities:
            self._offered = offers.capabilities
            self.words.put(Internal(*frames.offered(self.robot.spec.id, offers.capabilities, at)))

    def _send(self, send: contract.Send, at: datetime, receipt: Receipt | None, old: bool) -> None:
        try:
            if not self.may_send:
                raise ConnectionResetError(NOT_NOW)
            self.broker.publish(send.topic, send.payload, send.qos)
        except (OSError, ValueError) as error:
            self._unsent = True
            log.debug("%s is not sent a message: %s", self.robot.spec.id, error)

    def _links(self, link: contract.Link, at: datetime, receipt: Receipt | None, old: bool) -> None:
        if link.hint == "alive":
            self._touch(at, old)
        elif not old:
            kind = snapshots.GONE if link.hint == "gone" else snapshots.UNANSWERED
            self.links.vitals.hint(kind, self.robot.spec.id, at)

    def _touch(self, at: datetime, old: bool) -> None:
        """A sign of life; none when it may be an old one."""
        now = self.links.clock()
        if old or self.link is None:
            return
        self.link.heard = now
        if now - self._touched >= TOUCH_S:
            self._touched = now
            self.links.vitals.touch(self.robot.spec.id, at)

    def _complain(self, complaint: contract.Complaint, at: datetime, receipt: Receipt | None, old: bool) -> None:
        self.links.counts[f"bad {complaint.field.partition('.')[0][:40]}"] += 1
        metrics.bad(complaint.field)
        self._complaints.add(Bad(complaint.field, complaint.reason))

    # --- words

    def stored(self, word: contract.Say, verdict: str, at: datetime) -> None:
        if verdict == "duplicate":
            metrics.DUPLICATES.labels("gateway").inc()
            if word.raw:
                self.links.duplicates.note(self.robot.spec.id, word.type)
        if self.link is not None:
            self._carry_out(self._ask("stored", word, verdict, at), at)

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
        self._carry_out(self._ask("command", command, self.wanted, now), now)

    def step(self, now: datetime) -> None:
        """What is due by the clock; not while nothing can be sent, for then no time passes that a robot could use."""
        if self._opening is None and self.may_send:
            self._carry_out(self._ask("step", self.wanted, now), now)
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
        except Exception as error:
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


_DO: dict[type[Any], Callable[..., None]] = {
    contract.Say: Talk._say,
    contract.Tell: Talk._tell,
    contract.Send: Talk._send,
    contract.Delivered: Talk._delivered,
    contract.Link: Talk._links,
    contract.Offers: Talk._offers,
    contract.Complaint: Talk._complain,
}
