"""Whether two robots speak under one address: their numbers run in two rows, and each row is somewhere else.

Two devices with one serial number are no wrong input: each of their messages is in order. Neither a robot that starts anew,
nor one whose numbers are odd, nor one that is carried elsewhere goes back and forth like this. One that says late what it
said to nobody, between what it says now, does: its own clock tells that it had the time to come here.
"""

import math
from collections import deque
from datetime import datetime, timedelta
from typing import NamedTuple

from telemetry.drivers.vda5050.picture import Picture

NUMBERS = 2**32  # then they begin anew
MISSED = 10  # states of a row that may have been lost
TURNS, WITHIN = 6, timedelta(minutes=10)  # from one row to the other
APART_M, FASTEST_M_PER_S = 2.0, 5.0  # no robot gets that far


class _State(NamedTuple):
    number: int
    x: float
    y: float
    at: datetime
    said_at: datetime | None  # by its own clock

    def follows(self, before: "_State") -> bool:
        return 0 < (self.number - before.number) % NUMBERS <= MISSED

    def is_elsewhere(self, before: "_State") -> bool:
        seconds = abs((self.at - before.at).total_seconds())
        if self.said_at is not None and before.said_at is not None:
            seconds = max(seconds, abs((self.said_at - before.said_at).total_seconds()))
        return math.hypot(self.x - before.x, self.y - before.y) > APART_M + FASTEST_M_PER_S * seconds


class Doubles:
    """Of one address."""

    def __init__(self) -> None:
        self._last: _State | None = None
        self._other: _State | None = None  # the newest of the row that it is not of
        self._turns: deque[datetime] = deque(maxlen=TURNS)

    def heard(self, picture: Picture, at: datetime) -> bool:
        """Once this has been seen often enough; then from the beginning."""
        where = picture.position
        if picture.header_id is None or where is None or not where.initialised:
            return False
        state = _State(picture.header_id, where.x, where.y, at, picture.at)
        last, other, self._last = self._last, self._other, state
        if last is None:
            return False
        if state.follows(last):
            if state.is_elsewhere(last):  # of the row that is just ahead, as of two that were switched on together
                self._other = last
            return False
        self._other = last
        if other is None or not state.follows(other) or not state.is_elsewhere(last):
            self._turns.clear()
            return False
        self._turns.append(at)
        if len(self._turns) < TURNS or at - self._turns[0] > WITHIN:
            return False
        self._turns.clear()
        return True
