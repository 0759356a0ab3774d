"""What can be told to a robot: its own words, requests of people and policies, the sweep's verdict, and passed deadlines."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from fleet.robots import faults


@dataclass(frozen=True, slots=True)
class Word:
    """A robot's word about itself. Not monotone: only the newest (session, seq) counts."""

    session: int
    seq: int


@dataclass(frozen=True, slots=True)
class Reported(Word):
    """robot.state. `mission` and `dispatch_no` name what it works on, or with `ended` what it last knew.

    `reply_to`: msg_id of the query that it answers.
    """

    mode: str
    mission: UUID | None = None
    dispatch_no: int | None = None
    ended: str = ""
    reply_to: UUID | None = None


@dataclass(frozen=True, slots=True)
class Faulted(Word):
    """Something is wrong; of each code the newest word counts. `kind` as in fleet/robots/faults.py."""

    text: str
    code: str = ""
    danger: bool = False
    kind: str = faults.FAULT


@dataclass(frozen=True, slots=True)
class FaultCleared(Word):
    """What has that code is over; None: everything is."""

    code: str | None = None


@dataclass(frozen=True, slots=True)
class StoodStill(Word):
    """robot.stopped: it stands, and stays until released.

    `asked_at` is when the stop that it answers was asked for; None when it names none: then it is from before any stop that
    was asked for after it was received.
    """

    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The sweep's judgement of the link."""

    presence: str
    last_received_at: datetime | None


@dataclass(frozen=True, slots=True)
class Enrol:
    """`profile`: settings of its driver, laid over its brand's."""

    name: str
    site_id: int
    brand_id: int
    address: str = ""
    profile: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """Columns with their new values. `words`: what that is, for people."""

    columns: dict[str, Any]
    words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offers:
    """What the robot says it can do, sorted: command types, and `custom:<name>` for each custom one."""

    capabilities: list[str]


@dataclass(frozen=True, slots=True)
class Retire:
    pass


@dataclass(frozen=True, slots=True)
class Reinstate:
    pass


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Open a hold. Kind `stopped` also sends robot.stop, each time it is asked for."""

    kind: str
    by: str
    why: str = ""
    until: datetime | None = None
    mission: UUID | None = None
    dispatch_no: int | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """Why it is stopped, said afterwards."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release hold `number`, or every open stop. `unsent`: the robot cannot have heard of the stop."""

    by: str
    number: int | None = None
    unsent: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A deadline of the robot has passed: its kind, as in fleet/deadlines.py."""

    kind: str


@dataclass(frozen=True, slots=True)
class StopConfirmed:
    """The robot's word, at last, about a dispatch whose stop was not confirmed."""

    mission: UUID
    dispatch_no: int | None


@dataclass(frozen=True, slots=True)
class IssueCredential:
    label: str
    digest: str


@dataclass(frozen=True, slots=True)
class RevokeCredential:
    number: int
