"""What a state means for the site: mode, faults, whether an order can be taken, what was rejected, telemetry. All pure."""

from typing import Any, Literal, NamedTuple

from telemetry.drivers.vda5050.picture import Battery, Factsheet, Picture, Position, Velocity
from telemetry.drivers.vda5050.profile import Profile

Mode = Literal["idle", "running", "charging", "paused", "fault", "manual"]


class Fault(NamedTuple):
    """As `robot.fault` says it. `danger` ends the mission: somebody pressed an emergency stop."""

    code: str
    text: str
    danger: bool = False


class Hindrance(NamedTuple):
    """Why it can take no new order now; `text` for people."""

    code: Literal["unreadable", "manual", "fault", "lost", "paused", "charging", "busy"]
    text: str


def mode(picture: Picture) -> Mode | None:
    """None: what it depends on could not be read, so nothing may be said."""
    raise NotImplementedError


def faults(picture: Picture) -> tuple[Fault, ...]:
    """Fatal errors, emergency stop, protective field; one per code."""
    raise NotImplementedError


def warnings(picture: Picture) -> tuple[Fault, ...]:
    """Errors that are no faults: named in the same form."""
    raise NotImplementedError


def hindrance(picture: Picture) -> Hindrance | None:
    """None: it can take a new order."""
    raise NotImplementedError


def busy(picture: Picture) -> bool:
    """It drives, has nodes before it, or an action that has not ended."""
    raise NotImplementedError


def rejected(picture: Picture, order_id: str, update: int = 0) -> str:
    """In the robot's words, when it says that it has not taken this order (or this update of it); else empty."""
    raise NotImplementedError


def refused_action(picture: Picture, action_id: str) -> str:
    """In the robot's words, when an error names this action; else empty. What `actions` says of it outranks this."""
    raise NotImplementedError


def telemetry(
    position: Position | None, velocity: Velocity | None = None, battery: Battery | None = None, place: str = ""
) -> dict[str, Any]:
    """The facts of `contract.Tell`; empty when there is nothing to tell."""
    raise NotImplementedError


def capabilities(factsheet: Factsheet, profile: Profile) -> frozenset[str] | None:
    """As `contract.Offers` has them. None: the factsheet does not say, so the brand's list holds."""
    raise NotImplementedError


def version(picture: Picture | None, profile: Profile) -> str:
    """Which version we write to it: the profile's, else its own, else 2.0.0."""
    raise NotImplementedError
