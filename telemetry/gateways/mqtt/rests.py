"""How long a gateway rests before it connects again: a moment after an outage, long when somebody else uses its name.

The broker gives a name to whoever came last, so two gateways of one name would kick each other out for ever.
"""

from secrets import SystemRandom

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # between two tries to connect, each shorter by up to half
CLASH_S = (10.0, 60.0, 300.0)  # rest after the broker gave our id to somebody else, the last one repeats
CALM_S = 600.0  # a connection that lived so long forgets about clashes
SHORT_S = 3.0  # connections that end so soon, again and again and without a reason, look like a clash
SHORT = 3  # so many in a row


class Rests:
    """`is_clash`: somebody else seems to use our name; `renewed`: we ended the last connection ourselves."""

    def __init__(self) -> None:
        self.is_clash = self.renewed = False
        self._failures = self._clashes = self._short = 0

    def after(self, was_up: bool, lived_s: float) -> float:
        """Seconds, after a connection that the broker let in (`was_up`) and that lived so long, or a try for one."""
        if was_up and lived_s >= SHORT_S:
            self._failures = 0
        if was_up and lived_s > CALM_S:
            self._clashes = 0
        is_odd = was_up and lived_s < SHORT_S and not self.is_clash and not self.renewed
        self._short, self.renewed = self._short + 1 if is_odd else 0, False
        failures, self._failures = self._failures, self._failures + 1
        if self._short >= SHORT:
            self.is_clash = True
        if self.is_clash:
            self._clashes += 1
            return CLASH_S[min(self._clashes, len(CLASH_S)) - 1]
        return BACKOFF_S[min(failures, len(BACKOFF_S) - 1)] * SystemRandom().uniform(0.5, 1.0)
