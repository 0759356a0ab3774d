"""Port to what outer apps counted of a robot's messages that were not applied as usual. They fill `source` at start-up."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple


class Irregular(NamedTuple):
    """One way to be irregular. `kinds`: message type and how many, the most first; `hint` says what it may mean."""

    what: str
    count: int
    kinds: tuple[tuple[str, int], ...]
    last_at: datetime
    hint: str


source: Callable[[str], list[Irregular]] = lambda robot_id: []


def of_robot(robot_id: str) -> list[Irregular]:
    """What was counted, in a fixed order; nothing when all was as usual. One query."""
    return source(robot_id)
