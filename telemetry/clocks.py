"""Wall clock and monotonic clock: both read at one moment, and whether they go together (DESIGN section 4, "Gating")."""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

SKEW_S = 2.0
APART_S = 0.1  # the two readings may lie so far apart; a process that was frozen in between reads again
READINGS = 100

log = logging.getLogger(__name__)


class Moment(NamedTuple):
    """`now` is UTC, `tick` monotonic (s)."""

    now: datetime
    tick: float


def read(
    wall: Callable[[], datetime] = timezone.now, monotonic: Callable[[], float] = time.monotonic, tries: int = READINGS
) -> Moment:
    """Both clocks at one moment. Taken one after the other by a process that was starved in between, they seem to part."""
    while True:
        before, now, tick = monotonic(), wall(), monotonic()
        tries -= 1
        if tick - before <= APART_S or tries <= 0:
            return Moment(now, tick)


class Clocks:
    """Do wall clock and monotonic clock go together? When they part, nothing fires until they did for a while."""

    def __init__(self, check_s: float) -> None:
        self.check_s = check_s
        self._offset: float | None = None
        self._checked_until = float("-inf")

    def steady(self, now: datetime, tick: float) -> bool:
        """Of one `Moment`. A long time since the last one is no jump: both clocks have gone on."""
        self.jump(now, tick)
        return tick >= self._checked_until

    def jump(self, now: datetime, tick: float) -> float:
        """Seconds by which the wall clock left the other since the last reading; 0.0 when it did not."""
        offset = now.timestamp() - tick
        parted = 0.0 if self._offset is None else offset - self._offset
        if self._offset is None:
            self._offset = offset
        if abs(parted) <= SKEW_S:
            return 0.0
        log.error("the clock jumped by %+.1f s: no deadline fires for %.0f s", parted, self.check_s)
        self._offset, self._checked_until = offset, tick + self.check_s
        return parted
