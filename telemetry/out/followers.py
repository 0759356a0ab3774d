"""Who follows the events: one line each, and the loops that the process `followers` runs."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from fleet.alerts import mail as alert_mail
from fleet.history import KINDS
from telemetry.out.group import Follow, Group
from telemetry.out.statistics import counting
from telemetry.out.waking import LOOK_S, Loop
from telemetry.out.webhooks import wanted
from telemetry.out.webhooks.lanes import Lanes

EMAIL = Group("e-mail", lambda: [kind for kind in KINDS if kind.startswith("alert.")], lambda events, now: None)


class Line(NamedTuple):
    """A group, and what its thread does after it has taken the newest events: made once in each process."""

    group: Group
    then: Callable[[], Callable[[datetime], bool]] = lambda: lambda now: False
    look_s: float = LOOK_S


LINES: tuple[Line, ...] = (
    Line(counting.GROUP),
    # rows of alerts say who is still to be told, so events only wake it; digests and the ends of silences come by time
    Line(EMAIL, lambda: alert_mail.step),
    # looks often, because that is how often a receiver in trouble is tried again at first
    Line(wanted.GROUP, lambda: Lanes().step, look_s=0.5),
)
GROUPS = tuple(line.group for line in LINES)


def step_of(line: Line) -> Callable[[datetime], bool]:
    """Made when it first runs, in the thread that runs it: the database may be away when the process starts."""
    made: list[tuple[Follow, Callable[[datetime], bool]]] = []

    def step(now: datetime) -> bool:
        if not made:
            made.append((Follow(line.group), line.then()))
        [(follow, then)] = made
        more = follow.step(now)
        return then(now) or more

    return step


def loops(stopping: threading.Event) -> list[Loop]:
    return [Loop(line.group.name, step_of(line), stopping, line.look_s) for line in LINES]
