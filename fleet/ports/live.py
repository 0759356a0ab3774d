"""Port to live state: what lower apps may know of it. The telemetry app fills `source` at start-up."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple


class Facts(NamedTuple):
    """Last known live facts of one robot. Units: metres, radians, m/s, per cent."""

    received_at: datetime
    x: float | None = None
    y: float | None = None
    theta: float | None = None
    speed: float | None = None
    battery: float | None = None
    place: str = ""
    skew_s: float | None = None  # by how much its clock is ahead of ours
    carries: str = ""  # its loads, in its own words


source: Callable[[list[str]], dict[str, Facts]] = lambda robot_ids: {}


def facts(robot_ids: Iterable[str]) -> dict[str, Facts]:
    """Facts by robot id; a robot without any is absent. Never raises when the live Redis is down."""
    return source(list(robot_ids))
