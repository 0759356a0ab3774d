"""What an author brings to the kit: the driver, and a double of its robot, which does on the wire what the robot does."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from telemetry.drivers.contract import Driver, Send, Spec

Kind = Literal["accepted", "rejected", "completed", "failed", "paused", "resumed", "cancelled", "lost"]


class Deed(Struct, frozen=True):
    """Something that the robot truly did, whatever comes of the message about it. `step`: which, of its mission.

    accepted: it has the mission. completed, failed: a step. cancelled: it ended it, as it was told. lost: it forgot it.
    """

    kind: Kind
    step: int = 0


class Said(Struct, frozen=True, kw_only=True):
    """A message that the robot publishes."""

    topic: str
    payload: bytes
    retain: bool = False


class Double(Protocol):
    """A robot without a clock. It takes 2 to 20 s for each step, and never longer than 5 s to do as it is told."""

    deeds: list[Deed]  # it appends
    mode: Literal["idle", "running", "charging", "paused", "fault", "manual"]
    stands: bool  # nothing of it moves

    def take(self, sent: Send, now: datetime) -> None:
        """This message reached it."""
        ...

    def step(self, now: datetime) -> Iterable[Said]:
        """Time has passed until `now`: what it says meanwhile. Called twice a second."""
        ...

    def restart(self, now: datetime) -> None:
        """It was switched off and on: it forgets what such a robot forgets."""
        ...


class Failing(Double, Protocol):
    """What a case with `retries` needs as well."""

    def fail(self, step: int) -> None:
        """The first try of this step comes to nothing."""
        ...


class Case(Struct, frozen=True, kw_only=True):
    """One driver on the bench. Two robots, because a driver that mixes them up is none.

    `steps`: the commands of the missions that are played, in order. `pauses`: the robots can be paused and stopped in
    the middle of a mission. `retries`: they can be told to try a step again, and to skip one; their doubles are `Failing`.
    `answers`: the protocol has an answer to each message, so it sends more the more it hears.
    """

    driver: Driver
    double: Callable[[Spec, datetime], Double]
    robots: tuple[Spec, Spec]
    steps: tuple[str, ...] = ("navigate", "navigate", "navigate")
    pauses: bool = True
    retries: bool = False
    answers: bool = False


class Failed(AssertionError):
    """The driver does not do what the scenario asks: the text says what, when, and what went over the wire before."""


PARAMS: dict[str, dict[str, Any]] = {
    "navigate": {},
    "pick": {"load": "pallet 7"},
    "drop": {"load": "pallet 7"},
    "wait": {"seconds": 4.0},
    "charge": {"until_percent": 60},
    "custom": {"name": "beep", "args": {}},
}
AT_A_PLACE = ("navigate", "pick", "drop", "charge")
