"""What a driver is: the adapter between one southbound protocol and Drover's own words and commands.

A driver package imports this module and nothing else of Drover. Its entry point in the group `drover.drivers` names an
object that fulfils `Driver`. Everything here is pure: a driver gets messages, commands and the time, and answers with
`Effect`s, which the gateway carries out. It has no database, does no I/O, keeps nothing that a restart would lose (what
it keeps is a cache of the robot's newest words), guesses no receipt, and waits without bound for nothing.

Times are aware UTC datetimes, poses metres and radians, durations seconds, charge per cent.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol
from uuid import UUID, uuid5

from msgspec import Struct, field

VERSION = 1
ENTRY_POINTS = "drover.drivers"
_NAMES = UUID("6d5f3c0e-7f0b-5b58-9a5e-0f6f5a1d2c11")  # of derived ids


# --- what the site knows and wants of a robot


class Spec(Struct, frozen=True, kw_only=True):
    """One enrolled robot. `profile`: its brand's settings with its own laid over them, an instance of `Driver.profile`.

    The gateway itself heeds two settings, where a profile has them: it lets go of what messages of more than
    `max_payload_bytes` (64 KiB) hold, and hears at most twice `max_states_per_s` (100) messages a second.
    """

    id: str
    address: str  # what the robot calls itself on the wire, e.g. manufacturer/serial; its id where nobody noted another
    profile: Any


class Place(Struct, frozen=True, kw_only=True):
    """A named pose. `node`: what robots of this brand call it; empty when nothing was noted."""

    name: str
    x: float
    y: float
    theta: float = 0.0
    node: str = ""


class Step(Struct, frozen=True, kw_only=True):
    """One command of a mission. `attempt` is the try that counts now, `started_at` when it began (None: not yet)."""

    number: int
    command: str
    params: dict[str, Any]
    attempt: int = 1
    outcome: Literal["", "completed", "failed", "skipped"] = ""
    started_at: datetime | None = None
    place: Place | None = None


class Dispatch(Struct, frozen=True, kw_only=True):
    """The mission that the robot has been given. `current`: number of the step that is due, 0 before it is accepted."""

    mission: UUID
    dispatch_no: int
    steps: tuple[Step, ...]
    current: int = 0
    accepted: bool = False
    paused: bool = False  # a person or a hold suspended it
    stopping: bool = False  # it is to end: the robot is being told to cancel
    resuming: bool = (
        False  # people want it to go on, and nothing was asked of the robot since: a restart forgets no resume
    )


class Wanted(Struct, frozen=True, kw_only=True):
    """What the site wants of the robot, as the database has it: at most a second old, so it may lag behind commands."""

    dispatch: Dispatch | None = None
    stopped: bool = False  # a hold says that it stands still
    applied: dict[int, int] = field(default_factory=dict)  # session → seq, for robots that keep their messages


class Command(Struct, frozen=True, kw_only=True):
    """One command. `type` and `data` as in docs/protocol.md; `raw` is the whole native message."""

    id: UUID
    type: str
    data: dict[str, Any] = field(default_factory=dict)
    mission: UUID | None = None
    dispatch_no: int | None = None
    raw: str = ""


# --- what comes and goes


class Heard(Struct, frozen=True, kw_only=True):
    """A message of the robot. `part`: which of its topics, as `Driver.whose` named it. Retained: it may be ages old.

    `too_long`: it has more than `max_payload_bytes`. The gateway has let go of the payload, and complains itself; that the
    robot spoke is left.
    """

    part: str
    payload: bytes
    at: datetime  # received by the gateway
    retained: bool = False
    too_long: bool = False


class Send(Struct, frozen=True, kw_only=True):
    """A message to the robot. Never retained.

    `asks`: it only asks how the robot stands, so it may go out before anything was heard of it.
    """

    topic: str
    payload: bytes
    qos: Literal[0, 1] = 0
    asks: bool = False


class Say(Struct, frozen=True, kw_only=True):
    """A critical word of the robot (the types of docs/protocol.md): stored durably, has its effect once per `id`.

    `id`: the robot's own msg_id, or `derived` from what it is read off. `session`, `seq` and `raw` only where the robot
    counts itself (native); for all others the gateway stamps session and seq.
    """

    id: UUID
    type: str
    occurred_at: datetime
    data: dict[str, Any] = field(default_factory=dict)
    mission: UUID | None = None
    dispatch_no: int | None = None
    step: int | None = None
    attempt: int | None = None
    session: int | None = None
    seq: int | None = None
    raw: bytes = b""


class Tell(Struct, frozen=True, kw_only=True):
    """Telemetry: may be dropped. The facts: x, y, theta, speed, battery, place, carries (its loads); absent: not told.

    `skew_s`: its clock is so much ahead of the gateway's, where a message tells its time.
    """

    facts: dict[str, Any]
    session: int | None = None
    seq: int | None = None


class Begins(Struct, frozen=True, kw_only=True):
    """The robot begins a link. The gateway opens a session and answers with `begun`.

    `token`: the credential that it shows; None where its address on the broker is all there is.
    """

    token: str | None = None


class Delivered(Struct, frozen=True, kw_only=True):
    """The robot has this command (or, where nothing tells, it has been written to the wire with this answer)."""

    command: UUID


class Link(Struct, frozen=True, kw_only=True):
    """What a message says of the robot's link.

    alive: it spoke just now. gone: a last will or a goodbye; makes it suspect, no more. unanswered: it was asked on a
    link that works, and kept silent: an active witness. doubled: two robots speak under its address, beyond doubt; people
    are told.
    """

    hint: Literal["alive", "gone", "unanswered", "doubled"]


class Offers(Struct, frozen=True, kw_only=True):
    """What the robot says it can do: command types, and `custom:<name>` for each custom one. Replaces its brand's list."""

    capabilities: frozenset[str]


class Complaint(Struct, frozen=True, kw_only=True):
    """Bad input: counted by `field`, logged in bounds, costs nothing else."""

    field: str
    reason: str


Effect = Send | Say | Tell | Begins | Delivered | Link | Offers | Complaint


# --- the driver


class Timing(Struct, frozen=True, kw_only=True):
    """Where a brand of this driver begins (its columns of the same names); people change them per brand."""

    suspect_after_s: int = 9
    offline_after_s: int = 20
    accept_s: int = 10
    answer_s: int = 5
    stop_s: int = 15
    finish_s: int = 10


class Settings(Struct, frozen=True, kw_only=True):
    """The profile of a driver that has nothing to set."""


class Conversation(Protocol):
    """The talk with one robot, from the start of the gateway or the robot's turn to it. Made anew after each restart.

    Called in one thread, never twice at a time. Each method answers at once.
    """

    def begun(self, session: int, applied: dict[int, int], now: datetime) -> Iterable[Effect]:
        """The gateway has opened this session for it. `applied`: session → seq, for robots that keep their messages."""
        ...

    def refused(self, now: datetime) -> Iterable[Effect]:
        """The token that it began with is not valid. Asked only where `Begins` had one; afterwards a new talk begins."""
        return ()

    def hear(self, message: Heard, wanted: Wanted) -> Iterable[Effect]:
        """A message came. Raises nothing, whatever it holds."""
        ...

    def stored(self, word: Say, verdict: str, now: datetime) -> Iterable[Effect]:
        """A word of it was stored: `stored` or `duplicate`."""
        return ()

    def command(self, command: Command, wanted: Wanted, now: datetime) -> Iterable[Effect]:
        """Carry out a command. Comes again after 1, 2, 4, 8, 16 s until `Delivered` names it, and may come again later."""
        ...

    def step(self, wanted: Wanted, now: datetime) -> Iterable[Effect]:
        """About once a second, and when `wanted` has changed: what is due by the clock, such as sending again."""
        return ()


class Driver(Protocol):
    """One southbound protocol. Stateless; `converse` makes what holds a robot's newest words.

    A class of yours may inherit from it, and from `Conversation`, for what stands here; it must not.
    """

    contract: ClassVar[int]  # version of this contract that it is written for: the number, not `VERSION`
    name: ClassVar[str]  # as brands name it, and its entry point
    label: ClassVar[str]  # for people
    transport: ClassVar[Literal["mqtt", "socket"]] = "mqtt"  # socket: or by calling Drover's own addresses
    address: ClassVar[str]  # what an address of its robots is, “manufacturer/serial”; empty: they show a token
    profile: ClassVar[type[Struct]] = Settings  # settings of a brand, all with defaults; Meta(title, description)
    timing: ClassVar[Timing] = Timing()
    strict_sequence: ClassVar[bool] = False  # its receipts come in order, so a later success proves earlier ones
    newest: ClassVar[frozenset[str]] = frozenset()  # parts whose messages say everything each: the newest counts

    def topics(self, robot: Spec) -> Sequence[tuple[str, Literal[0, 1]]]:
        """Filters (and quality of service) of all that this robot sends."""
        ...

    def commands(self, robot: Spec) -> Sequence[str]:
        """Topics that this robot is commanded on: what somebody has left there retained raises an alarm."""
        ...

    def discovery(self, profile: Any) -> Sequence[str]:
        """Filters that show robots which nobody has enrolled."""
        return ()

    def whose(self, topic: str) -> tuple[str, str] | None:
        """(address, part) of a topic; None: it is no topic of this driver's."""
        ...

    def converse(self, robot: Spec) -> Conversation:
        """A talk that knows nothing of the robot yet."""
        ...


def derived(robot: str, *about: object) -> UUID:
    """The id of a word that is read off the robot's state: the same word has the same id, after a restart as well."""
    return uuid5(_NAMES, "\x1f".join(map(str, (robot, *about))))
