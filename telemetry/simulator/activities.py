"""What a simulated robot's body does for each command type: drive straight, handle a load, wait, charge."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

SPEED = 1.2  # m/s
HANDLING_S = 4.0
CUSTOM_S = 3.0
DRAIN_PER_M, DRAIN_PER_S = 0.05, 0.002  # per cent
CHARGE_PER_S = 1.0  # per cent; an hour in a minute or two


class Place(NamedTuple):
    """Metres and radians."""

    name: str
    x: float
    y: float
    theta: float = 0.0


class CannotDo(Exception):
    """The step fails, and the text says why."""


@dataclass
class Body:
    """Where the robot is and how it is. Metres, radians, m/s, per cent."""

    places: dict[str, Place]
    x: float
    y: float
    theta: float
    place: str
    battery: float = 100.0
    pace: float = 1.0  # this robot's speed relative to SPEED
    speed: float = 0.0
    charging: bool = False
    fault: str = ""  # a fault that an activity ran into

    def drain(self, seconds: float, metres: float = 0.0) -> None:
        self.battery = max(1.0, self.battery - seconds * DRAIN_PER_S - metres * DRAIN_PER_M)

    def charge(self, seconds: float) -> None:
        self.battery = min(100.0, self.battery + seconds * CHARGE_PER_S)

    def drive(self, target: Place, seconds: float) -> float | None:
        """Towards the target for so long; returns the time that is left on arrival, None before."""
        dx, dy = target.x - self.x, target.y - self.y
        distance, pace = math.hypot(dx, dy), SPEED * self.pace
        if distance <= pace * seconds + 1e-9:
            self.x, self.y, self.theta, self.place, self.speed = target.x, target.y, target.theta, target.name, 0.0
            self.drain(distance / pace, distance)
            return max(0.0, seconds - distance / pace)
        share = pace * seconds / distance
        self.x, self.y, self.theta = self.x + dx * share, self.y + dy * share, math.atan2(dy, dx)
        self.place, self.speed = "", pace
        self.drain(seconds, pace * seconds)
        return None


class Activity:
    """One attempt of a step. Called with simulated seconds, it returns those that it did not need."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params, self.done = params, False
        self.target: Place | None = None
        self.arrived = False
        self.left_s = self.duration_s()

    def duration_s(self) -> float:
        """Time at the place."""
        return 0.0

    def __call__(self, body: Body, seconds: float) -> float:
        self.target = self.target or self._target(body)
        if self.target is not None and not self.arrived:
            left = body.drive(self.target, seconds)
            if left is None:
                return 0.0
            self.arrived, seconds = True, left
        return self.act(body, seconds)

    def act(self, body: Body, seconds: float) -> float:
        """Once at the place."""
        spent = min(seconds, self.left_s)
        self.left_s -= spent
        body.drain(spent)
        self.done = self.left_s <= 0
        return seconds - spent

    def _target(self, body: Body) -> Place | None:
        """The site resolves places into coordinates; a robot may know them by name as well."""
        name = self.params.get("place") or ""
        if isinstance(self.params.get("x"), int | float) and isinstance(self.params.get("y"), int | float):
            return Place(name, self.params["x"], self.params["y"], self.params.get("theta") or 0.0)
        if name and name not in body.places:
            raise CannotDo(f"does not know the place {name}")
        return body.places.get(name)


class Navigate(Activity):
    def __call__(self, body: Body, seconds: float) -> float:
        if not self.params.get("place") and self.params.get("x") is None:
            raise CannotDo("no place was given")
        return super().__call__(body, seconds)


class Handle(Activity):
    def duration_s(self) -> float:
        return HANDLING_S


class Wait(Activity):
    def duration_s(self) -> float:
        return float(self.params.get("seconds", 1.0))


class Charge(Activity):
    def act(self, body: Body, seconds: float) -> float:
        missing = float(self.params.get("until_percent") or 100) - body.battery
        spent = min(seconds, max(0.0, missing) / CHARGE_PER_S)
        body.charging = True
        body.charge(spent)
        self.done = spent < seconds or missing <= 0
        return seconds - spent


class Custom(Activity):
    """Any name takes a while; `fail` fails, `fault` stops the robot with a fault for a while."""

    def duration_s(self) -> float:
        return CUSTOM_S

    def act(self, body: Body, seconds: float) -> float:
        left = super().act(body, seconds)
        name = self.params.get("name")
        if self.done and name == "fail":
            raise CannotDo("it was asked to fail")
        if self.done and name == "fault":
            body.fault, self.params, self.done = "SIM", {}, False
        return left


class Failing(Activity):
    """Any step on a bad day: it takes a while and comes to nothing."""

    def duration_s(self) -> float:
        return CUSTOM_S

    def __call__(self, body: Body, seconds: float) -> float:
        self.act(body, seconds)
        if self.done:
            raise CannotDo("it was told to fail")
        return 0.0


ACTIVITIES: dict[str, Callable[[dict[str, Any]], Activity]] = {
    "navigate": Navigate,
    "pick": Handle,
    "drop": Handle,
    "wait": Wait,
    "charge": Charge,
    "custom": Custom,
}
