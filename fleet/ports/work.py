"""Port to what robots are at: what lower apps may know of missions. The missions app fills `source` at start-up."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Work(NamedTuple):
    """The mission that a robot has. `says` is where it stands, in a few words."""

    title: str
    says: str
    url: str


source: Callable[[list[str]], dict[str, Work]] = lambda robot_ids: {}


def current(robot_ids: Iterable[str]) -> dict[str, Work]:
    """Work by robot id; a robot without any is absent. One query."""
    return source(list(robot_ids))
