"""Who follows the events: one line each, and the loops that the process `followers` runs."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from fleet import alert_mail
from fleet.history import KINDS
from telemetry.out import statistics
from telemetry.out.group import Follow, Group
from telemetry.out.waking import LOOK_S, Loop

EMAIL = Group("e-mail", lambda: [kind for kind in KINDS if kind.startswith("alert.")], lambda events, now: None)


class Line(NamedTuple):
    """A group, and what its thread does after it has taken the newest events: what may take its time."""

    group: Group
    then: Callable[[datetime], bool] = lambda now: False
    look_s: float = LOOK_S


LINES: tuple[Line, ...] = (
    Line(statistics.GROUP),
    # rows of alerts say who is still to be told, so events only wake it; digests and the ends of silences come by time
    Line(EMAIL, alert_mail.step),
)
GROUPS = tuple(line.group for line in LINES)


def step_of(line: Line) -> Callable[[datetime], bool]:
    """Made when it first runs, in the thread that runs it: the database may be away when the process starts."""
    made: list[Follow] = []

    def step(now: datetime) -> bool:
        if not made:
            made.append(Follow(line.group))
        more = made[0].step(now)
        return line.then(now) or more

    return step


def loops(stopping: threading.Event) -> list[Loop]:
    return [Loop(line.group.name, step_of(line), stopping, line.look_s) for line in LINES]
