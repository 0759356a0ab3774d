"""What can be told to a mission: receipts of its robot, requests of people, and passed deadlines."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Receipt:
    """A robot's word about one dispatch."""

    dispatch_no: int | None


@dataclass(frozen=True, slots=True)
class Accepted(Receipt):
    pass


@dataclass(frozen=True, slots=True)
class Rejected(Receipt):
    why: str = ""


@dataclass(frozen=True, slots=True)
class StepStarted(Receipt):
    step: int
    attempt: int


@dataclass(frozen=True, slots=True)
class StepCompleted(Receipt):
    step: int
    attempt: int
    result: str = ""


@dataclass(frozen=True, slots=True)
class StepFailed(Receipt):
    step: int
    attempt: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Paused(Receipt):
    """Not monotone: only the newest (session, seq) counts."""

    session: int
    seq: int


@dataclass(frozen=True, slots=True)
class Resumed(Paused):
    pass


@dataclass(frozen=True, slots=True)
class Cancelled(Receipt):
    """The robot has ended this dispatch and stands."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Finished(Receipt):
    pass


@dataclass(frozen=True, slots=True)
class Answered:
    """robot.state: what the robot is at. `named` is true when it names this very dispatch.

    `completed`: numbers of steps of this dispatch that it says it has completed. `asked`: the question was about this very
    dispatch; the answer to an earlier one may have been given before the robot had it.
    """

    mode: str
    named: bool
    ended: str = ""
    completed: tuple[int, ...] = ()
    asked: bool = True


@dataclass(frozen=True, slots=True)
class SaysIdle:
    """robot.state, unasked: it is idle, and does not name this dispatch. It may have been rebooted."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The robot acknowledged the assignment (transport)."""


@dataclass(frozen=True, slots=True)
class Due:
    """The deadline of this kind has passed. `online`: the robot's link is up; `why`: it waits, in words.

    `set_for`: what it was set for, where the clock was put back since: it passes before the clock says so.
    """

    kind: str
    online: bool = False
    why: str = ""
    set_for: datetime | None = None


@dataclass(frozen=True, slots=True)
class RobotLost:
    abandon_after_s: int


@dataclass(frozen=True, slots=True)
class RobotBack:
    pass


@dataclass(frozen=True, slots=True)
class RobotHeld:
    """People stopped its robot, since then."""

    since: datetime


@dataclass(frozen=True, slots=True)
class RobotReleased:
    """Its robot is no longer stopped by people."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Another robot shall go on with it."""

    by: str


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The mission `to` goes on with these steps of it; None: there is nothing to hand over, and why."""

    to: UUID | None
    steps: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Danger:
    """The robot reports a fault that is dangerous."""

    text: str


@dataclass(frozen=True, slots=True)
class DrawUp:
    """Columns of Mission by name, steps as dicts with command, params, timeout_s, and missions to come before it."""

    fields: dict[str, Any]
    steps: list[dict[str, Any]]
    after: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit(DrawUp):
    pass


@dataclass(frozen=True, slots=True)
class Approve:
    by: str


@dataclass(frozen=True, slots=True)
class Queue:
    """It is to run as soon as a robot can take it."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """It shall not run yet."""


@dataclass(frozen=True, slots=True)
class SetPriority:
    priority: int


@dataclass(frozen=True, slots=True)
class ChooseRobot:
    """Nobody named one. `because` says why this one, `refused` (robot → why) why not the others."""

    robot_id: str
    because: str
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class DependencyFailed:
    """The mission `on`, called `title`, did not succeed."""

    on: UUID
    title: str


@dataclass(frozen=True, slots=True)
class DependencyMoved:
    """The mission `on` was handed over to the mission `to`, called `title`."""

    on: UUID
    to: UUID
    title: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """`robot` is its name; `steps` are the step frames as the robot gets them, places resolved.

    `timings`: of its robot's brand (missions/timings.py).
    """

    robot: str
    steps: list[dict[str, Any]]
    timings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancel:
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    by: str


@dataclass(frozen=True, slots=True)
class Resume:
    by: str
