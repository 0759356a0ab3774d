"""Ids of orders and actions: what they name stands in them, so that after a restart a robot's state says whose they are."""

import re
from typing import NamedTuple
from uuid import UUID

from telemetry.drivers.contract import Dispatch

_ORDER = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.(\d{1,9})\.(\d{1,5})\.(\d{1,5})(?:\.r(\d{1,5}))?"
)


class OrderId(NamedTuple):
    """One order: the steps of a dispatch from `first` on, begun with this attempt of it.

    `run` counts orders that begin with the same attempt: a stop that could only be had by cancelling makes another.
    """

    mission: UUID
    dispatch_no: int
    first: int
    attempt: int
    run: int = 1

    @property
    def text(self) -> str:
        again = f".r{self.run}" if self.run > 1 else ""
        return f"{self.mission}.{self.dispatch_no}.{self.first}.{self.attempt}{again}"

    def attempt_of(self, step: int) -> int:
        """Later steps begin with their first attempt."""
        return self.attempt if step == self.first else 1

    def action(self, step: int) -> str:
        """Id of the action that carries out a step."""
        return f"{self.text}.{step}"

    def is_of(self, dispatch: Dispatch | None) -> bool:
        return dispatch is not None and (self.mission, self.dispatch_no) == (dispatch.mission, dispatch.dispatch_no)


def parse(text: str) -> OrderId | None:
    """None: nobody here gave this order."""
    found = _ORDER.fullmatch(text)
    if found is None:
        return None
    mission, *numbers = found.groups(default="1")
    order = OrderId(UUID(mission), *map(int, numbers))
    return order if order.text == text and min(order[1:]) > 0 else None


def command_of(action: str) -> UUID | None:
    """Instant actions bear the id of the command that they carry out."""
    try:
        return UUID(action)
    except ValueError:
        return None
