"""What is done about each effect that a conversation answers with: a table from its type to a function.

Words are put in line to be stored, telemetry and signs of life are passed on, messages are sent. Opening a session takes
its time, so the talk does that itself.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from telemetry import frames, metrics, snapshots
from telemetry.drivers import contract
from telemetry.gateways.complaints import Complaints
from telemetry.gateways.limits import too_much
from telemetry.gateways.links import Links
from telemetry.gateways.mqtt.broker import Incoming
from telemetry.gateways.mqtt.driven_link import DrivenLink
from telemetry.gateways.mqtt.enrolled import Robot
from telemetry.gateways.mqtt.soundness import kept, sound
from telemetry.gateways.mqtt.spoken import Internal, Receipt, Speaker, Spoken
from telemetry.gateways.mqtt.waiting import Message
from telemetry.gateways.mqtt.words import Words
from telemetry.gateways.vitals import SignsOfLife
from telemetry.protocol import Bad
from telemetry.snapshots import Put

log = logging.getLogger(__name__)
NOT_NOW = "the MQTT broker is away, or the database has not confirmed for long that this robot is ours"


class Came(NamedTuple):
    """What effects are an answer to. `old`: it may have lain somewhere for long. `receipt`: of its `message`, for the broker."""

    at: datetime
    old: bool = False
    receipt: Receipt | None = None
    message: Message | None = None


class Broker(Protocol):
    """What a talk needs of it."""

    def publish(self, topic: str, payload: bytes, qos: int) -> None: ...

    def ack(self, message: Incoming) -> None: ...

    @property
    def hears(self) -> bool: ...

    @property
    def catches_up(self) -> bool: ...


class Talking(Speaker, Protocol):
    """What effects need of a talk, and leave there. `link`: None while nobody has let the robot in."""

    robot: Robot
    links: Links
    broker: Broker
    words: Words
    link: DrivenLink | None
    complaints: Complaints
    signs: SignsOfLife
    offered: frozenset[str] | None
    unsent: bool  # something of the answer in hand could not leave

    @property
    def may_send(self) -> bool: ...


def _say(talk: Talking, word: contract.Say, came: Came) -> None:
    link, receipt = talk.link, came.receipt
    if link is None:
        return
    if receipt is None and not word.raw and talk.words.has(word.id):
        return  # it is said again, as nobody has stored it yet
    word = word if word.raw else kept(word, came.at)
    spoken = Spoken(talk, link, word, receipt)
    if receipt is not None:
        receipt.wait()
    if word.session is not None and word.seq is not None:
        link.heard_of((word.session,))
        link.numbers.saw(word.session, "critical", word.seq)
    talk.words.put(spoken)


def _tell(talk: Talking, told: contract.Tell, came: Came) -> None:
    link = talk.link
    if link is None:
        return
    session, seq = told.session, told.seq
    if session is None or seq is None:
        link.told += 1
        session, seq, facts = link.session, link.told, sound(told.facts)
    else:
        link.numbers.saw(session, "lossy", seq)
        facts = told.facts
    if too_much(talk.links.room, link.lossy, talk.links.clock()):
        metrics.DROPPED.inc()
        return
    if facts:
        talk.links.vitals.put(Put(link.robot, session, seq, came.at, facts))


def _delivered(talk: Talking, delivered: contract.Delivered, came: Came) -> None:
    if talk.unsent:
        return  # what it was to be delivered with has not left: the command comes again
    if talk.link is not None and talk.link.acknowledge(delivered.command) is not None:
        talk.words.put(Internal(*frames.delivered(delivered.command, talk.robot.spec.id, came.at)))


def _offers(talk: Talking, offers: contract.Offers, came: Came) -> None:
    if talk.offered != offers.capabilities:
        talk.offered = offers.capabilities
        talk.words.put(Internal(*frames.offered(talk.robot.spec.id, offers.capabilities, came.at)))


def _send(talk: Talking, send: contract.Send, came: Came) -> None:
    try:
        if not talk.may_send:
            raise ConnectionResetError(NOT_NOW)
        talk.broker.publish(send.topic, send.payload, send.qos)
    except (OSError, ValueError) as error:
        talk.unsent = True
        log.debug("%s is not sent a message: %s", talk.robot.spec.id, error)


def _hint(talk: Talking, link: contract.Link, came: Came) -> None:
    if link.hint == "alive":
        lives(talk, came)
    elif link.hint == "doubled":
        talk.links.alarms.sound("two_robots", talk.robot.spec.id, address=talk.robot.spec.address)
    elif not came.old:
        kind = snapshots.GONE if link.hint == "gone" else snapshots.UNANSWERED
        talk.links.vitals.hint(kind, talk.robot.spec.id, came.at)


def lives(talk: Talking, came: Came) -> None:
    """A sign of life; none when it may be an old one."""
    if not came.old and talk.link is not None:
        talk.link.heard = talk.links.clock()
        talk.signs.give(came.at, talk.link.heard)


def _complain(talk: Talking, complaint: contract.Complaint, came: Came) -> None:
    talk.links.counts[f"bad {complaint.field.partition('.')[0][:40]}"] += 1
    metrics.bad(complaint.field)
    talk.complaints.add(Bad(complaint.field, complaint.reason))


DO: dict[type[Any], Callable[[Talking, Any, Came], None]] = {
    contract.Say: _say,
    contract.Tell: _tell,
    contract.Send: _send,
    contract.Delivered: _delivered,
    contract.Link: _hint,
    contract.Offers: _offers,
    contract.Complaint: _complain,
}
