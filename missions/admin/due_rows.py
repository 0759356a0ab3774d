"""What will happen to a mission if nothing is heard: its open deadlines, in the words of its own policy and tries."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from fleet.models import OfflinePolicy
from missions import timings
from missions.deadlines import deadlines
from missions.models import FINAL, Then


class DueRow(NamedTuple):
    """`left` is how long it is until then, for those without a script."""

    due_at: datetime
    left: str
    then: str


def due_rows(mission: Any, steps: Sequence[Any], now: datetime) -> list[DueRow]:
    """The earliest first; none of a mission that has ended."""
    if mission.state in FINAL:
        return []
    step = next((s for s in steps if s.number == mission.current_step), None)
    return [
        DueRow(d.due_at, _left(d.due_at, now), _OWN.get(d.kind, lambda m, s: "")(mission, step) or d.then)
        for d in deadlines(mission)
    ]


def _left(due_at: datetime, now: datetime) -> str:
    left = (due_at - now).total_seconds()
    return f"in {left:.0f} s" if left >= 0 else f"due {-left:.0f} s ago"


def _step(mission: Any, step: Any) -> str:
    timeouts = step.attempt - 1 - step.failed_attempts
    if step.repeatable and timeouts < step.timeout_retries:
        return f"ask about step {step.number}, then try it again"
    then = "skip it" if step.timeout_then == Then.SKIP else "stop and abort with reason timeout"
    return f"ask about step {step.number}, then {then}"


def _retry(mission: Any, step: Any) -> str:
    return f"begin try {step.attempt + 1} of step {step.number}"


def _accepted(mission: Any, step: Any) -> str:
    tries = timings.get(mission, "accept_tries")
    if mission.accept_tries >= tries:
        return "stop and abort as undeliverable, unless its robot is offline or stopped"
    return f"send the assignment again, try {mission.accept_tries + 1} of {tries}"


_OFFLINE = {
    OfflinePolicy.ABORT: "stop and abort with reason robot fault",
    OfflinePolicy.WAIT: "say that it still waits for its robot",
    OfflinePolicy.HAND_OVER: "hand it over if nothing can be done twice, else propose it",
}


def _robot_lost(mission: Any, step: Any) -> str:
    return _OFFLINE[OfflinePolicy(timings.offline_policy(mission))]


_OWN: dict[str, Callable[[Any, Any], str]] = {
    "step": _step,
    "retry": _retry,
    "accepted": _accepted,
    "robot_lost": _robot_lost,
}
