"""What is sent again by the clock until the robot has answered: with growing pauses, bounded, under the same id."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from telemetry.drivers.contract import Send
from telemetry.drivers.vda5050.known import Known
from telemetry.drivers.vda5050.outgoing import Action, Blocking

PAUSES_S = (2, 4, 8, 8, 8)  # after each time that it was sent
_REMEMBERED = 200  # instant actions, so that none is begun twice


class Tries:
    """How often something was sent, and when it is due again."""

    def __init__(self, now: datetime, pauses_s: tuple[int, ...] = PAUSES_S) -> None:
        self._pauses_s = pauses_s
        self.count = 0
        self.due = self.sent_at = now

    def take(self, now: datetime) -> bool:
        """Whether it is to be sent now; counts."""
        if now < self.due or self.count >= len(self._pauses_s):
            return False
        self.due = now + timedelta(seconds=self._pauses_s[self.count])
        self.sent_at = now
        self.count += 1
        return True

    def over(self, now: datetime) -> bool:
        """It was sent for the last time, and the pause after that is over too."""
        return self.count >= len(self._pauses_s) and now >= self.due

    @property
    def under_way(self) -> bool:
        return 0 < self.count < len(self._pauses_s)

    def end(self) -> None:
        self.count = len(self._pauses_s)


class Errands:
    """Instant actions, by id. Each is sent its number of times at most, unless somebody asks for it anew."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._known_by_id: dict[str, tuple[Action, Tries]] = {}

    def add(self, kind: str, name: str, now: datetime, pauses_s: tuple[int, ...] = PAUSES_S) -> None:
        """Send it from now on, if this is new."""
        if name not in self._known_by_id:
            blocking: Blocking = "HARD" if kind == "cancelOrder" else "NONE"
            self._known_by_id[name] = Action(id=name, type=kind, blocking=blocking), Tries(now, pauses_s)
            if len(self._known_by_id) > _REMEMBERED:
                del self._known_by_id[next(iter(self._known_by_id))]

    def renew(self, name: str, now: datetime) -> None:
        """It is asked for again: if its tries are over, they begin anew."""
        action, tries = self._known_by_id.get(name, (None, None))
        if action is not None and tries is not None and tries.over(now):
            self._known_by_id[name] = action, Tries(now)

    def drop(self, *kinds: str) -> bool:
        """Send none of these again. Whether there was one that was sent and not answered."""
        found = False
        for action, tries in self._known_by_id.values():
            if action.type in kinds:
                found = found or tries.under_way
                tries.end()
        return found

    def awaits(self, *names: str) -> bool:
        """One of these was sent, has not been answered, and is sent again until it is."""
        return any(name in self._known_by_id and self._known_by_id[name][1].under_way for name in names)

    def step(self, now: datetime) -> Iterator[Send]:
        """What is due and not answered."""
        picture = self._known.picture
        for name, (action, tries) in self._known_by_id.items():
            state = picture.actions.get(name) if picture is not None else None
            if state is not None and state.ended:
                tries.end()
            elif not (self._known.gone and tries.count) and tries.take(now):
                yield self._known.action(action, now)
