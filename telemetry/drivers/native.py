"""Drover's own protocol (docs/protocol.md) as a driver: what a frame means, whose it is, and what it is answered.

The WebSocket and HTTP read and answer through the functions here; over MQTT a `NativeConversation` does, on the topics
`drover/v1/<robot>/events`, `/telemetry`, `/presence` and, down, `/commands`.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from msgspec import Struct

from telemetry import frames, protocol
from telemetry.drivers import contract
from telemetry.drivers.contract import (
    Begins,
    Command,
    Complaint,
    Conversation,
    Delivered,
    Effect,
    Heard,
    Link,
    Say,
    Send,
    Settings,
    Spec,
    Tell,
    Timing,
    Wanted,
)
from telemetry.protocol import Ack, Bad, Hello, Up

Frame = Hello | Ack | Up
PREFIX = "drover/v1"
ASK_AGAIN = timedelta(seconds=5)  # between two requests to say hello, and how long a hello may take to be answered
HELLO_FIRST = "hello comes first, and once"
PRESENCE: dict[bytes, Link] = {b"online": Link(hint="alive"), b"offline": Link(hint="gone")}

# reading


def read(raw: bytes | str, robot: str) -> Frame:
    """A frame of this robot. Raises `Bad`, with an envelope only if that is the robot's own."""
    try:
        frame = protocol.decode_frame(raw)
    except Bad as bad:
        if bad.envelope is not None:
            _check_owner(bad.envelope, robot)
        raise
    _check_owner(frame, robot)
    return frame


def read_in_turn(raw: bytes | str, robot: str, session: int | None) -> Frame:
    """On a socket: hello comes first (session None), and once; all else is of its link. Raises `Bad` as `read` does."""
    try:
        frame = read(raw, robot)
    except Bad as bad:
        if bad.envelope is not None:
            _check_turn(bad.envelope, session)
        if session is None and bad.field == "session":  # who has said no hello has none to name
            raise Bad("type", HELLO_FIRST, msg_id=bad.msg_id) from None
        raise
    _check_turn(frame, session)
    return frame


def _check_owner(frame: Frame, robot: str) -> None:
    if not isinstance(frame, Ack) and frame.robot != robot:
        raise Bad("robot", f"this link belongs to {robot}", msg_id=_msg_id(frame))


def _check_turn(frame: Frame, session: int | None) -> None:
    if isinstance(frame, Hello) != (session is None):
        raise Bad("type", HELLO_FIRST, msg_id=_msg_id(frame))
    if session is not None and isinstance(frame, Up):
        check_session(frame, session)


def check_session(frame: Up, session: int) -> None:
    """Critical messages keep the session that they were made in, lossy ones are of this link. Raises `Bad`."""
    oldest = 1 if frame.channel == "critical" else session
    if not oldest <= frame.session <= session:
        raise Bad("session", f"this link has session {session}", msg_id=_msg_id(frame))


def _msg_id(frame: Frame) -> str | None:
    return None if frame.msg_id is None else str(frame.msg_id)


def say(up: Up, raw: bytes) -> Say:
    """A critical message. One whose data is wrong is said as well: its number has to be passed."""
    return Say(
        id=up.msg_id, type=up.type, occurred_at=up.occurred_at, data=up.data, mission=up.mission,
        dispatch_no=up.dispatch_no, step=up.step, attempt=up.attempt, session=up.session, seq=up.seq, raw=raw,
    )  # fmt: skip


def facts(up: Up, received_at: datetime) -> dict[str, Any]:
    """What a lossy message tells, and by how much its robot's clock is ahead."""
    return {**up.data, "skew_s": round((up.occurred_at - received_at).total_seconds(), 1)}


def is_heartbeat(up: Up) -> bool:
    """It is answered with what is applied."""
    return up.type == "robot.heartbeat"


# answering


def refusal(bad: Bad) -> str:
    """The verdict on a bad message: it names the field."""
    return frames.ack(bad.msg_id, "invalid", bad.field, bad.reason)


# over MQTT


class NativeConversation:
    """One robot that speaks it over MQTT. What it keeps is the link's session, and its last hello with our answer."""

    def __init__(self, robot: Spec) -> None:
        self._robot, self._commands = robot.id, _commands(robot)
        self._session: int | None = None
        self._hello: Hello | None = None
        self._welcome = ""
        self._asked_at: datetime | None = None  # to say hello, or by it to be welcomed

    def begun(self, session: int, applied: dict[int, int], now: datetime) -> Iterable[Effect]:
        self._session, self._welcome = session, frames.welcome(session, applied, now)
        return [self._send(self._welcome)]

    def refused(self, now: datetime) -> Iterable[Effect]:
        return [self._send(frames.close(protocol.UNAUTHORISED, "the token is wrong or revoked"))]

    def hear(self, message: Heard, wanted: Wanted) -> Iterable[Effect]:
        if message.part == "presence":
            return self._presence(message)
        if message.retained:
            return [Complaint(field="retain", reason="messages of a robot must not be retained")]
        try:
            if message.too_long:
                raise Bad("message", f"is longer than {protocol.MAX_BYTES} bytes")
            frame = read(message.payload, self._robot)
            return list(self._take(frame, message, wanted))
        except Bad as bad:
            return list(self._refuse(bad, message))

    def _presence(self, message: Heard) -> list[Effect]:
        """A retained one may be ages old: it says nothing."""
        if message.payload not in PRESENCE:
            return [Complaint(field="presence", reason="must be online or offline")]
        return [] if message.retained else [PRESENCE[message.payload]]

    def _take(self, frame: Frame, message: Heard, wanted: Wanted) -> Iterator[Effect]:
        yield Link(hint="alive")
        if isinstance(frame, Hello):
            yield from self._greet(frame, message.at)
        elif isinstance(frame, Ack):
            yield Delivered(command=frame.msg_id)
        elif self._session is None:
            yield from self._ask_hello(message.at)
        elif frame.session > self._session:
            return  # it has a newer link, elsewhere: there it is answered
        elif frame.channel == "critical":
            yield say(frame, message.payload)
        else:
            check_session(frame, self._session)
            yield Tell(facts=facts(frame, message.at), session=frame.session, seq=frame.seq)
            if is_heartbeat(frame):
                yield self._send(frames.seen(frame.msg_id, wanted.applied))

    def _greet(self, hello: Hello, at: datetime) -> Iterator[Effect]:
        """The same hello again has the same answer: it came twice, or the answer was lost."""
        token = hello.data.get("token")
        if not isinstance(token, str) or not token:
            raise Bad("data.token", "is missing", msg_id=_msg_id(hello))
        if self._welcome and hello.msg_id is not None and hello == self._hello:
            yield self._send(self._welcome)
        else:
            self._hello, self._welcome, self._asked_at = hello, "", at
            yield Begins(token=token)

    def _ask_hello(self, at: datetime) -> Iterator[Effect]:
        """This gateway knows of no link: it was restarted, or the link has ended. Nothing of the message is taken."""
        if self._asked_at is None or at - self._asked_at >= ASK_AGAIN:
            self._asked_at = at
            yield self._send(frames.close(protocol.COME_BACK, "say hello"))

    def _refuse(self, bad: Bad, message: Heard) -> Iterator[Effect]:
        """A critical message whose envelope is right is kept, and gets its verdict once it is (`stored`)."""
        up, newest = bad.envelope, self._session
        if up is not None and (newest is None or up.session > newest):
            yield from self._take(up, message, Wanted())
            return
        yield Complaint(field=bad.field, reason=bad.reason)
        if newest is not None:
            yield Link(hint="alive")  # what it says is refused, not that it speaks
        if up is not None and up.channel == "critical":
            yield say(up, message.payload)
        else:
            yield self._send(refusal(bad))

    def stored(self, word: Say, verdict: str, now: datetime) -> Iterable[Effect]:
        try:
            read(word.raw, self._robot)
        except Bad as bad:
            return [self._send(refusal(bad))]
        return [self._send(frames.ack(word.id, verdict))]

    def command(self, command: Command, wanted: Wanted, now: datetime) -> Iterable[Effect]:
        return [self._send(command.raw)] if self._session is not None else []

    def step(self, wanted: Wanted, now: datetime) -> Iterable[Effect]:
        return []

    def _send(self, frame: str) -> Send:
        return Send(topic=self._commands, payload=frame.encode(), qos=1)


def _commands(robot: Spec) -> str:
    return f"{PREFIX}/{robot.id}/commands"


class Native:
    """Stateless, as every driver."""

    contract: ClassVar[int] = contract.VERSION
    name: ClassVar[str] = "native"
    label: ClassVar[str] = "Drover's own protocol"
    address: ClassVar[str] = ""
    transport: ClassVar[Literal["mqtt", "socket"]] = "socket"
    profile: ClassVar[type[Struct]] = Settings
    timing: ClassVar[Timing] = Timing()
    strict_sequence: ClassVar[bool] = False
    newest: ClassVar[frozenset[str]] = frozenset({"telemetry", "presence"})

    def topics(self, robot: Spec) -> Sequence[tuple[str, Literal[0, 1]]]:
        mine = f"{PREFIX}/{robot.id}"
        return [(f"{mine}/events", 1), (f"{mine}/telemetry", 0), (f"{mine}/presence", 1)]

    def commands(self, robot: Spec) -> Sequence[str]:
        return [_commands(robot)]

    def discovery(self, profile: Settings) -> Sequence[str]:
        return [f"{PREFIX}/+/presence"]

    def whose(self, topic: str) -> tuple[str, str] | None:
        parts = topic.split("/")
        if len(parts) != 4 or topic[: len(PREFIX) + 1] != f"{PREFIX}/":
            return None
        return (parts[2], parts[3]) if parts[3] in ("events", "telemetry", "presence") else None

    def converse(self, robot: Spec) -> Conversation:
        return NativeConversation(robot)


driver = Native()
