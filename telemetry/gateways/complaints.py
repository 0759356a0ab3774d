"""What is logged of bad input that a robot sends."""

import logging
from collections.abc import Callable

from telemetry.protocol import Bad

log = logging.getLogger(__name__)
COMPLAIN_S = 10.0  # bad messages of one robot are logged this often; all are counted


class Complaints:
    """Logs what is wrong with one robot's messages, without letting it bury the log or forge a line of it."""

    def __init__(self, robot: str, clock: Callable[[], float]) -> None:
        self._robot, self._clock = robot, clock
        self._silent, self._last = 0, float("-inf")

    def add(self, bad: Bad) -> None:
        now = self._clock()
        if now - self._last < COMPLAIN_S:
            self._silent += 1
            return
        more = f" (and {self._silent} before it)" if self._silent else ""
        log.info("bad message from %s: %s%s", self._robot, str(bad).encode("unicode_escape").decode(), more)
        self._silent, self._last = 0, now
