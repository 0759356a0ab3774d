"""What is logged of bad input that a robot sends, and how often."""

import logging
from collections.abc import Callable

from telemetry.protocol import Bad

log = logging.getLogger(__name__)
COMPLAIN_S = 10.0  # one and the same is logged this often; all is counted


class Seldom:
    """One kind of line, such as about one robot: it may be written every `COMPLAIN_S`; the others are counted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silent, self._last = 0, float("-inf")

    def more(self) -> str | None:
        """What a line that may be written now ends with: how many were not. None: not now."""
        now = self._clock()
        if now - self._last < COMPLAIN_S:
            self._silent += 1
            return None
        more = f" (and {self._silent} before it)" if self._silent else ""
        self._silent, self._last = 0, now
        return more


class Complaints:
    """Logs what is wrong with one robot's messages, without letting it bury the log or forge a line of it."""

    def __init__(self, robot: str, clock: Callable[[], float]) -> None:
        self._robot, self._seldom = robot, Seldom(clock)

    def add(self, bad: Bad) -> None:
        if (more := self._seldom.more()) is not None:
            log.info("bad message from %s: %s%s", self._robot, str(bad).encode("unicode_escape").decode(), more)
