"""What is logged of bad input that a robot sends."""

import logging
from collections.abc import Callable

from telemetry.gateways.seldom import Seldom
from telemetry.protocol import Bad

log = logging.getLogger(__name__)


class Complaints:
    """Logs what is wrong with one robot's messages, without letting it bury the log or forge a line of it."""

    def __init__(self, robot: str, clock: Callable[[], float]) -> None:
        self._robot, self._seldom = robot, Seldom(clock)

    def add(self, bad: Bad) -> None:
        if (more := self._seldom.more()) is not None:
            log.info("bad message from %s: %s%s", self._robot, str(bad).encode("unicode_escape").decode(), more)
