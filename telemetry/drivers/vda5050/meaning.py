"""What a robot's words mean for the site: mode, faults, what was rejected, telemetry. All pure."""

import math
import re
from typing import Any, Literal, NamedTuple

from telemetry.drivers.vda5050.picture import Battery, Factsheet, Issue, Picture, Position, Velocity
from telemetry.drivers.vda5050.profile import Profile
from telemetry.drivers.vda5050.standing import INSTANT, automatic, busy, unreadable

Mode = Literal["idle", "running", "charging", "paused", "fault", "manual"]

_MOST_TEXT = 500
_LONGEST_CODE = 200
_MOST_CODES = 20
_LONGEST_PLACE = 200
_FURTHEST_M = 1e7
_WIRE_VERSION = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\Z")


class Fault(NamedTuple):
    """The data of `robot.fault`. `danger` ends the mission: somebody pressed an emergency stop."""

    code: str
    text: str
    danger: bool = False
    kind: Literal["fault", "safety", "warning"] = "fault"


def mode(picture: Picture) -> Mode | None:
    """None: what it depends on could not be read, so nothing may be said."""
    if unreadable(picture):
        return None
    if not automatic(picture):
        return "manual"
    if picture.field_violation or picture.e_stopped or any(issue.level == "FATAL" for issue in picture.errors):
        return "fault"
    if picture.paused:
        return "paused"
    if picture.battery.charging and not picture.driving:
        return "charging"
    return "running" if busy(picture) else "idle"


def faults(picture: Picture) -> tuple[Fault, ...] | None:
    """Fatal errors, emergency stop, protective field; one per code. None: they could not be read, so none is over."""
    if unreadable(picture):
        return None
    found = []
    if picture.e_stopped:
        by_itself = picture.e_stop == "AUTOACK"
        ends = "ends by itself" if by_itself else f"{_words(picture.e_stop)}: somebody has to release it"
        found.append(Fault("eStop", f"Emergency stop, {ends}.", not by_itself, "safety"))
    if picture.field_violation:
        found.append(Fault("fieldViolation", "Something is in its protective field.", kind="safety"))
    return (*found, *_named(picture, "fault"))


def warnings(picture: Picture) -> tuple[Fault, ...]:
    """Errors with which it goes on all the same, such as an order that it did not take."""
    return _named(picture, "warning")


def rejected(picture: Picture, order_id: str, update: int = 0) -> str:
    """In the robot's words, when it says that it has not taken this order (or this update of it); else empty."""
    if picture.order_id == order_id and picture.order_update_id >= update:
        return ""
    for issue in picture.errors:
        if issue.names(order_id):
            updates = [value for key, value in issue.references if key.lower() == "orderupdateid"]
            if not updates or str(update) in updates:
                return words(issue)
    return ""


def refused_action(picture: Picture, action_id: str) -> str:
    """In the robot's words, when an error names this action; else empty. What `actions` says of it outranks this."""
    return next((words(issue) for issue in picture.errors if issue.names(action_id)), "")


def words(issue: Issue) -> str:
    """An error in the robot's words: its type and what it says of it."""
    return _words(": ".join(part for part in (issue.type, issue.description) if part)) or "error without a type"


def telemetry(
    position: Position | None,
    velocity: Velocity | None = None,
    battery: Battery | None = None,
    place: str | None = None,
) -> dict[str, Any]:
    """The facts of `contract.Tell`; empty when there is nothing to tell. A robot that is lost tells no pose.

    `place`: where it stands, empty when that has no name; None when nothing is said of it.
    """
    facts: dict[str, Any] = {}
    if position is not None and position.initialised and abs(position.x) <= _FURTHEST_M >= abs(position.y):
        facts["x"], facts["y"] = position.x, position.y
        if abs(position.theta) <= _FURTHEST_M:
            facts["theta"] = position.theta
    if velocity is not None and (speed := math.hypot(velocity.vx, velocity.vy)) <= _FURTHEST_M:
        facts["speed"] = speed
    if battery is not None and battery.charge is not None and 0 <= battery.charge <= 100:
        facts["battery"] = battery.charge
    if place is not None:
        facts["place"] = place[:_LONGEST_PLACE]
    return facts


def carries(picture: Picture) -> str:
    """Its loads in words; empty when it has none, or says nothing about them."""
    loads = (load.id or load.type or "something" for load in picture.loads)
    text = ", ".join(" ".join(load.replace("\0", "").split()) for load in loads)
    return text if len(text) <= _LONGEST_PLACE else f"{text[: _LONGEST_PLACE - 1]}…"


def capabilities(factsheet: Factsheet, profile: Profile) -> frozenset[str] | None:
    """As `contract.Offers` has them. None: the factsheet does not say, so the brand's list holds.

    Every robot that takes orders drives, and waits (we hold the next node back where it has no action for it).
    """
    if factsheet.actions is None or not profile.capabilities_from_factsheet:
        return None
    anywhere = {action.type for action in factsheet.actions}
    own = {action.type for action in factsheet.actions if not action.scopes or "NODE" in action.scopes}
    offered = {"navigate", "wait"}
    offered |= {command for command, name in (("pick", profile.pick), ("drop", profile.drop)) if name in own}
    offered |= {"charge"} if profile.start_charging in anywhere else set()
    taken = INSTANT | {profile.pick, profile.drop, profile.wait, profile.start_charging, profile.stop_charging}
    return frozenset(offered | {f"custom:{name}" for name in own - taken})


def version(picture: Picture | None, profile: Profile) -> str:
    """Which version we write to it: the profile's, else its own, else 2.0.0."""
    own = picture.version if picture is not None else ""
    return profile.version or (own if _WIRE_VERSION.match(own) else "2.0.0")


def _named(picture: Picture, kind: Literal["fault", "warning"]) -> tuple[Fault, ...]:
    """The first of each type: errors stay in each state, and their texts may change with each."""
    found: dict[str, Fault] = {}
    for issue in picture.errors:
        if (issue.level == "FATAL") is (kind == "fault"):
            code = issue.type[:_LONGEST_CODE] or "error"
            if code not in found:
                found[code] = Fault(code, words(issue), kind=kind)
                if len(found) == _MOST_CODES:
                    break
    return tuple(found.values())


def _words(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
