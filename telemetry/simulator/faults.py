"""What goes wrong with a simulated robot, on purpose: a table of faults, each by its own seeded chance.

`drop=0.05,clock=-300` switches two of them on. The same seed, robot and faults do the same things in the same order.
"""

import random
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from telemetry.simulator.work import Event

FREEZE_S = 15.0  # long enough to be taken for dead
AWAY_S = 30.0  # without a link
SWAP_S = 1.0  # a message that is held back goes on by itself after so long


class Fault(NamedTuple):
    """One line of the table. `most`: the largest value; a `clock` may also be negative."""

    unit: str
    most: float
    what: str


FAULTS = {
    "drop": Fault("chance per message", 1, "a message of the robot, or a command, is lost on its way"),
    "duplicate": Fault("chance per message", 1, "a message of the robot is sent twice"),
    "reorder": Fault("chance per message", 1, "a message of the robot changes places with the next one"),
    "delay": Fault("seconds at most", 60, "messages of the robot are held up, in order"),
    "clock": Fault("seconds", 1e9, "the robot's clock is wrong by so much"),
    "crash": Fault("chance per second", 1, "the robot's process dies; it is started again and goes on from its disk"),
    "freeze": Fault("chance per second", 1, f"the robot's process stands still for {FREEZE_S:.0f} s"),
    "refuse": Fault("chance per assignment", 1, "the robot rejects a mission"),
    "forget": Fault("chance per second", 1, "the robot starts anew and has forgotten everything, its mission too"),
    "fail": Fault("chance per try", 1, "a step fails"),
    "fail_first": Fault("number of tries", 20, "so many tries of each step fail, the next one succeeds"),
    "refuse_retry": Fault("chance per retry", 1, "the robot fails a step again at once when it is asked to retry it"),
    "lose_receipt": Fault("chance per receipt", 1, "the robot never says that a step is done, or that it has finished"),
    "finish_offline": Fault("chance per mission", 1, f"no link for {AWAY_S:.0f} s from the last step on"),
    "silent_stop": Fault("chance per stop", 1, "the robot halts but never says that it stands"),
}


def parse(text: str) -> dict[str, float]:
    """`name=value,name=value`. ValueError says what is wrong."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in FAULTS:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{name} needs a number ({FAULTS[name].unit}), not {value!r}") from None
        least = -FAULTS[name].most if name == "clock" else 0.0
        if not least <= number <= FAULTS[name].most:
            raise ValueError(f"{name} is from {least:g} to {FAULTS[name].most:g} ({FAULTS[name].unit}), not {value}")
        found[name] = number
    return found


TROUBLES = ("crash", "freeze", "forget")  # of the whole robot, by chance each second
_UNSAID = {  # what the robot may keep to itself → the fault that makes it
    "robot.stopped": "silent_stop",
    "mission.step_completed": "lose_receipt",
    "mission.finished": "lose_receipt",
}

Way = Callable[[list[str], float], list[str]]


class Reorder:
    """Holds a message back until the next one has gone."""

    def __init__(self, happens: Callable[[], bool]) -> None:
        self._happens = happens
        self._held: tuple[str, float] | None = None  # until when

    def __call__(self, texts: list[str], now: float) -> list[str]:
        out = []
        for text in texts:
            if self._held is not None:
                out += [text, self._held[0]]
                self._held = None
            elif self._happens():
                self._held = text, now + SWAP_S
            else:
                out.append(text)
        if self._held is not None and now >= self._held[1]:
            out.append(self._held[0])
            self._held = None
        return out


class Delay:
    """Holds messages up, each by its own time, none overtakes another."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._waiting: deque[tuple[float, str]] = deque()

    def __call__(self, texts: list[str], now: float) -> list[str]:
        for text in texts:
            after = self._waiting[-1][0] if self._waiting else now
            self._waiting.append((max(after, now + self._seconds()), text))
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            out.append(self._waiting.popleft()[1])
        return out


class Faults:
    """Those of one robot. Between machine and link: `events` and `command`; on the way out: `send`; in its life: `pulse`."""

    def __init__(self, robot: str, faults: dict[str, float] | None = None, seed: int = 0) -> None:
        self._values = faults or {}
        self._chances = {name: random.Random(f"{seed} {robot} fault {name}") for name in FAULTS}
        self.counts = dict.fromkeys(FAULTS, 0)
        self._beat: float | None = None
        self._way: list[Way] = []  # in the order in which a message meets them
        if self._values.get("drop"):
            self._way.append(lambda texts, now: [t for t in texts if not self.happens("drop")])
        if self._values.get("duplicate"):
            self._way.append(lambda texts, now: [t for t in texts for _ in range(1 + self.happens("duplicate"))])
        if self._values.get("reorder"):
            self._way.append(Reorder(lambda: self.happens("reorder")))
        if self._values.get("delay"):
            self._way.append(Delay(self._hold_up_s))

    def happens(self, name: str) -> bool:
        """Does it, this time?"""
        value = self._values.get(name, 0.0)
        if not value or self._chances[name].random() >= value:
            return False
        self.counts[name] += 1
        return True

    def _hold_up_s(self) -> float:
        self.counts["delay"] += 1
        return self._chances["delay"].uniform(0, self._values["delay"])

    @property
    def holds_up(self) -> bool:
        """Messages may have to go out later, although nothing new comes."""
        return bool(self._values.get("delay") or self._values.get("reorder"))

    def send(self, texts: list[str], now: float) -> list[str]:
        """What of it, and of what was held up, goes out now."""
        for way in self._way:
            texts = way(texts, now)
        return texts

    def command(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """A command as the robot hears it; None: it never came."""
        if self.happens("drop"):
            return None
        if command["type"] == "mission.assign" and self.happens("refuse"):
            return command | {"data": command["data"] | {"steps": [{"command": "work today"}]}}
        return command

    def events(self, events: list[Event]) -> list[Event]:
        """What the robot says of what has happened."""
        return [e for e in events if not (e.type in _UNSAID and self.happens(_UNSAID[e.type]))]

    def fails(self, attempt: int) -> bool:
        """Whether this try of a step comes to nothing. `attempt` counts from 1."""
        if attempt <= self._values.get("fail_first", 0.0):
            self.counts["fail_first"] += 1
            return True
        return self.happens("fail")

    def clock(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self._values.get("clock", 0.0))

    def pulse(self, now: float) -> str:
        """Ask often: once a second it is one of `TROUBLES` or, mostly, empty."""
        if self._beat is None:
            self._beat = now
        if now - self._beat < 1.0:
            return ""
        self._beat = now
        return next((name for name in TROUBLES if self.happens(name)), "")
