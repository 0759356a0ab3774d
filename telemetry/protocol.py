"""The native robot protocol, version 1: which messages there are, and what is wrong with the rest.

Robots, gateways, the worker and the documentation read the same tables. What the site says to robots stands in
telemetry/frames.py. Imports no Django: robots use it too.
"""

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field

VERSION = 1
MAX_BYTES = 64 * 1024  # one message, as UTF-8
HEARTBEAT_S = 3
MOST_OFFERED = 200  # capabilities that one robot may name

COME_BACK, NO_HELLO, UNAUTHORISED, REPLACED = 4012, 4400, 4401, 4409  # close codes

RobotId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]
Text = Annotated[str, Meta(max_length=MAX_BYTES)]
Word = Annotated[str, Meta(max_length=200)]
TypeName = Annotated[str, Meta(pattern=r"\A[a-z0-9._-]{1,60}\Z")]
BigInt = Annotated[int, Meta(ge=0, le=2**63 - 1)]
DispatchNo = Annotated[int, Meta(ge=1, le=2**31 - 1)]
StepNo = Annotated[int, Meta(ge=1, le=32767)]
Metres = Annotated[float, Meta(ge=-1e7, le=1e7)]
Battery = Annotated[float, Meta(ge=0, le=100)] | None  # per cent
Mode = Literal["idle", "running", "charging", "paused", "fault", "manual"]
Ended = Literal["", "finished", "cancelled", "rejected", "failed"]


class Empty(Struct, frozen=True):
    """Nothing to add."""


class Why(Struct, frozen=True):
    why: Text


class Cancelled(Struct, frozen=True):
    why: Text = ""


class Completed(Struct, frozen=True):
    result: Text = ""


class State(Struct, frozen=True):
    """`mission` and `dispatch_no` name the dispatch that the robot works on or, with `ended`, the last one it knows.

    `completed`: numbers of the steps of that dispatch that it has completed, whether or not it said so before.
    """

    mode: Mode
    mission: UUID | None = None
    dispatch_no: DispatchNo | None = None
    step: StepNo | None = None
    ended: Ended = ""
    completed: Annotated[tuple[StepNo, ...], Meta(max_length=100)] = ()
    reply_to: UUID | None = None


class Fault(Struct, frozen=True):
    """`danger` ends the robot's mission with reason safety. Each code is a fault of its own, until it is cleared.

    `kind` safety: the robot's own safety system holds it. With a `warning` it goes on all the same.
    """

    code: Word
    text: Text
    danger: bool = False
    kind: Literal["fault", "safety", "warning"] = "fault"


class FaultCleared(Struct, frozen=True):
    code: Word


class Stopped(Struct, frozen=True):
    reply_to: UUID | None = None


class Heartbeat(Struct, frozen=True):
    battery: Battery = None


class Telemetry(Struct, frozen=True):
    """Metres, radians, m/s, per cent."""

    x: Metres
    y: Metres
    theta: Metres
    speed: Metres = 0.0
    battery: Battery = None
    place: Word = ""


class Delivered(Struct, frozen=True):
    """A robot acknowledged this command. Written by gateways, never by robots."""

    command: UUID


class Offered(Struct, frozen=True):
    """A robot says what it can do: command types, and `custom:<name>` for each custom one. Written by gateways."""

    capabilities: Annotated[tuple[Word, ...], Meta(max_length=MOST_OFFERED)]


class Type(NamedTuple):
    """One line of the table: its channel, which of its envelope fields must be filled, the form of its data."""

    channel: str
    needs: tuple[str, ...]
    data: type[Struct]


_MISSION = ("mission", "dispatch_no")
_STEP = (*_MISSION, "step", "attempt")

TYPES = {
    "mission.accepted": Type("critical", _MISSION, Empty),
    "mission.rejected": Type("critical", _MISSION, Why),
    "mission.step_started": Type("critical", _STEP, Empty),
    "mission.step_completed": Type("critical", _STEP, Completed),
    "mission.step_failed": Type("critical", _STEP, Why),
    "mission.paused": Type("critical", _MISSION, Empty),
    "mission.resumed": Type("critical", _MISSION, Empty),
    "mission.cancelled": Type("critical", _MISSION, Cancelled),
    "mission.finished": Type("critical", _MISSION, Empty),
    "robot.state": Type("critical", (), State),
    "robot.fault": Type("critical", (), Fault),
    "robot.fault_cleared": Type("critical", (), FaultCleared),
    "robot.stopped": Type("critical", (), Stopped),
    "robot.heartbeat": Type("lossy", (), Heartbeat),
    "robot.telemetry": Type("lossy", (), Telemetry),
}
INTERNAL = {  # session 0: no robot has it
    "command.delivered": Type("critical", (), Delivered),
    "robot.capabilities": Type("critical", (), Offered),
}

COMMANDS = (
    "mission.assign", "mission.pause", "mission.resume", "mission.cancel", "mission.retry_step", "mission.skip_step",
    "robot.stop", "robot.release", "robot.query_state",
)  # fmt: skip
URGENT = ("robot.stop", "mission.cancel")  # never wait behind other commands


class Up(Struct, frozen=True, kw_only=True):
    """A message from a robot. `data` holds the fields of the type's struct, defaults filled in."""

    v: int
    msg_id: UUID
    robot: RobotId
    session: BigInt
    channel: Literal["critical", "lossy"]
    seq: BigInt
    type: TypeName
    occurred_at: Annotated[datetime, Meta(tz=True)]
    mission: UUID | None = None
    dispatch_no: DispatchNo | None = None
    step: StepNo | None = None
    attempt: StepNo | None = None
    data: dict[str, Any] = field(default_factory=dict)
    traceparent: str = ""


class _Envelope(Up, frozen=True, kw_only=True):
    """`Up` as it travels: the data is looked at once the type is known."""

    data: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]
    traceparent: msgspec.Raw = msgspec.Raw(b'""')  # type: ignore[assignment]


class Hello(Struct, frozen=True, tag="hello", kw_only=True):
    """First frame of a link."""

    v: int
    robot: RobotId
    msg_id: UUID | None = None
    data: dict[str, Any] = field(default_factory=dict)


class Ack(Struct, frozen=True, tag="ack", kw_only=True):
    """A robot has this command. As often as it came."""

    msg_id: UUID


class Bad(ValueError):
    """A message that cannot be used: `field` names where, `reason` says why.

    `envelope` is set when all but type or data is right; `msg_id` as far as there is one.
    """

    def __init__(self, field: str, reason: str, envelope: Up | None = None, msg_id: str | None = None):
        reason = reason.replace("\0", "\N{REPLACEMENT CHARACTER}")[:300]  # it may quote what came
        super().__init__(f"{field}: {reason}")
        self.field, self.reason, self.envelope = field, reason, envelope
        self.msg_id = str(envelope.msg_id) if envelope is not None else msg_id


class _Peek(Struct):
    type: TypeName
    v: int = VERSION


_peek = msgspec.json.Decoder(_Peek).decode
_envelope = msgspec.json.Decoder(_Envelope).decode
_link_frame = msgspec.json.Decoder(Hello | Ack).decode
_data = {name: msgspec.json.Decoder(row.data).decode for name, row in (TYPES | INTERNAL).items()}
_any = msgspec.json.Decoder().decode
_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError)
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def decode_frame(raw: bytes | str) -> Hello | Ack | Up:
    """Any frame that a robot may send. Raises `Bad`."""
    raw = _bounded(raw)
    try:
        peek = _peek(raw)
        if peek.v != VERSION:
            raise Bad("v", f"version {peek.v} is not known; this site speaks {VERSION}", msg_id=_msg_id(raw))
        if peek.type in ("hello", "ack"):
            return _link_frame(raw)
    except _ERRORS as error:
        raise _bad(error, raw) from None
    return decode_up(raw)


def can_be_kept(at: datetime) -> bool:
    """Whether every store and every time zone can show this time."""
    return at.tzinfo is not None and 1900 <= at.year < 9999


def decode_up(raw: bytes | str) -> Up:
    """A message of a robot, or one that a gateway wrote on its behalf (session 0). Raises `Bad`, never anything else."""
    raw = _bounded(raw)
    try:
        got = _envelope(raw)
        occurred_at = got.occurred_at.astimezone(UTC)
    except _ERRORS as error:
        raise _bad(error, raw) from None
    if got.v != VERSION:
        raise Bad("v", f"version {got.v} is not known; this site speaks {VERSION}", msg_id=str(got.msg_id))
    if not can_be_kept(occurred_at):
        raise Bad("occurred_at", "is not a date that can be kept", msg_id=str(got.msg_id))
    if not got.session and got.type not in INTERNAL:
        raise Bad("session", "counts from 1", msg_id=str(got.msg_id))
    if got.session and not got.seq:
        raise Bad("seq", "counts from 1", msg_id=str(got.msg_id))
    up = Up(
        v=got.v, msg_id=got.msg_id, robot=got.robot, session=got.session, channel=got.channel, seq=got.seq,
        type=got.type, occurred_at=occurred_at, mission=got.mission, dispatch_no=got.dispatch_no, step=got.step,
        attempt=got.attempt, traceparent=_traceparent(bytes(got.traceparent)),
    )  # fmt: skip
    row = (INTERNAL if up.session == 0 else TYPES).get(up.type)
    if row is None:
        raise Bad("type", f"{up.type} is not known", up)
    if row.channel != up.channel:
        raise Bad("channel", f"{up.type} belongs on the {row.channel} channel", up)
    for name in row.needs:
        if getattr(up, name) is None:
            raise Bad(name, f"{up.type} needs it", up)
    try:
        values = msgspec.structs.asdict(_data[up.type](got.data))
    except _ERRORS as error:
        bad = _bad(error, b"", "data")
        raise Bad(bad.field, bad.reason, up) from None
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise Bad(f"data.{name}", "must be a finite number", up)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise Bad(f"data.{name}", "must not contain NUL", up)
    return msgspec.structs.replace(up, data=values)


def _bounded(raw: bytes | str) -> bytes:
    """The message as UTF-8, if it is text, short enough and without NUL."""
    try:
        data = raw.encode() if isinstance(raw, str) else bytes(raw)
        if len(data) > MAX_BYTES:
            raise Bad("message", f"is longer than {MAX_BYTES} bytes")
        data.decode()
    except UnicodeError:
        raise Bad("message", "is not UTF-8 text") from None
    if b"\0" in data:
        raise Bad("message", "contains NUL")
    return data


def _few(struct: type[Struct]) -> dict[str, tuple[str, ...]]:
    """Fields that are one of a few words → those words."""
    return {name: get_args(hint) for name, hint in get_type_hints(struct).items() if get_origin(hint) is Literal}


_STRUCTS: tuple[type[Struct], ...] = (Up, *(known.data for known in TYPES.values()))
_FEW = {name: words for struct in _STRUCTS for name, words in _few(struct).items()}


def _bad(error: Exception, raw: bytes, prefix: str = "") -> Bad:
    """A decoder's error with the field that it is about: `… - at `$.seq``, `… missing required field `seq``."""
    if isinstance(error, RecursionError):
        return Bad(prefix or "message", "is nested too deeply")
    if isinstance(error, OverflowError):
        return Bad("occurred_at", "is not a date that can be kept", msg_id=_msg_id(raw))
    if not isinstance(error, msgspec.ValidationError):
        return Bad(prefix or "message", f"is not valid JSON: {error}")
    reason, _, path = str(error).partition(" - at `$")
    names = [name for name in (prefix, path.rstrip("`").lstrip(".")) if name]
    missing = re.search(r"missing required field `(\w+)`", reason)
    if missing:
        names, reason = [*names, missing[1]], "is missing"
    if allowed := _FEW.get(names[-1]) if names and reason.startswith("Invalid enum value") else None:
        reason += f": it is one of {', '.join(value or '“”' for value in allowed)}"
    return Bad(".".join(names) or "message", reason, msg_id=_msg_id(raw))


def _msg_id(raw: bytes) -> str | None:
    """The msg_id of a message that is otherwise wrong, so that its sender knows which one is meant."""
    try:
        return str(UUID(_any(raw)["msg_id"]))
    except (*_ERRORS, ValueError, LookupError, TypeError, AttributeError):
        return None


def _traceparent(raw: bytes) -> str:
    """W3C trace context; one that is not in order counts as none."""
    text = raw.decode().strip('"')
    return text if _TRACEPARENT.fullmatch(text) else ""
