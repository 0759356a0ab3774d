"""What a robot's silence means, and what becomes of one that talks too much."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from telemetry.drivers.contract import Effect, Heard, Link
from telemetry.drivers.vda5050.errands import Errands
from telemetry.drivers.vda5050.ids import named
from telemetry.drivers.vda5050.known import Known

ANSWER_S = 15  # from the question whether it is there to the judgement that it is not


class Silence:
    """A robot that is well says something every `keepalive_s`; one that does not is asked once."""

    def __init__(self, known: Known, errands: Errands) -> None:
        self._known, self._errands = known, errands
        self._heard_at: datetime | None = None
        self._asked_at: datetime | None = None
        self._judged = False

    def heard(self, at: datetime) -> None:
        self._heard_at, self._asked_at, self._judged = at, None, False

    def step(self, now: datetime) -> Iterator[Effect]:
        if self._heard_at is None or self._known.gone or self._known.session is None:
            return
        quiet = now - self._heard_at
        if self._asked_at is None:
            if quiet >= timedelta(seconds=self._known.profile.keepalive_s):
                self._asked_at = now
                name = str(named(self._known.id, self._known.session, self._heard_at.isoformat(), "silence"))
                self._errands.add("stateRequest", name, now, (ANSWER_S,))
        elif not self._judged and now >= self._asked_at + timedelta(seconds=ANSWER_S):
            self._judged = True
            yield Link(hint="unanswered")


class Flow:
    """At most so many states a second are read, in bursts of two seconds' worth; of the rest only the newest, later."""

    def __init__(self, per_s: float) -> None:
        self._per_s, self._most = per_s, max(1.0, 2 * per_s)
        self._left = self._most
        self._at: datetime | None = None
        self._waits: Heard | None = None

    def take(self, message: Heard) -> bool:
        if self._at is not None:
            self._left = min(self._most, self._left + max(0.0, (message.at - self._at).total_seconds()) * self._per_s)
        self._at = message.at if self._at is None else max(self._at, message.at)
        if self._left >= 1:
            self._left -= 1
            self._waits = None
            return True
        self._waits = message
        return False

    def waiting(self, now: datetime) -> Iterator[Heard]:
        message, self._waits = self._waits, None
        if message is not None:
            yield message
