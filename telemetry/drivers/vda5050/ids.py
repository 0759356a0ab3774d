"""Ids of orders and actions: what they name stands in them, so that after a restart a robot's state says whose they are."""

import re
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from telemetry.drivers.contract import Dispatch, derived

_ORDER = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.(\d{1,9})\.(\d{1,5})\.(\d{1,5})(?:\.r(\d{1,5}))?"
)
_KEPT = 4096  # robots name the same order with each state

named = lru_cache(_KEPT)(derived)


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
        return _text(self)

    def attempt_of(self, step: int) -> int:
        """Later steps begin with their first attempt."""
        return self.attempt if step == self.first else 1

    def action(self, step: int) -> str:
        """Id of the action that carries out a step."""
        return f"{self.text}.{step}"

    def is_of(self, dispatch: Dispatch | None) -> bool:
        return dispatch is not None and (self.mission, self.dispatch_no) == (dispatch.mission, dispatch.dispatch_no)


@lru_cache(_KEPT)
def _text(order: OrderId) -> str:
    again = f".r{order.run}" if order.run > 1 else ""
    return f"{order.mission}.{order.dispatch_no}.{order.first}.{order.attempt}{again}"


@lru_cache(_KEPT)
def parse(text: str) -> OrderId | None:
    """None: nobody here gave this order."""
    found = _ORDER.fullmatch(text)
    if found is None:
        return None
    mission, *numbers = found.groups(default="1")
    order = OrderId(UUID(mission), *map(int, numbers))
    return order if order.text == text and min(order[1:]) > 0 else None
