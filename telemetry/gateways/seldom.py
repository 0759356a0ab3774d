"""One kind of log line, however often there is reason for it: written now and then, with how many were not."""

from collections.abc import Callable

SELDOM_S = 10.0  # from one to the next


class Seldom:
    """Such as about one robot's bad messages, or of robots that cannot be let in."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silent, self._last = 0, float("-inf")

    def more(self) -> str | None:
        """What a line that may be written now ends with: how many were not. None: not now."""
        now = self._clock()
        if now - self._last < SELDOM_S:
            self._silent += 1
            return None
        more = f" (and {self._silent} before it)" if self._silent else ""
        self._silent, self._last = 0, now
        return more
