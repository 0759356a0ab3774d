"""Clocks of a mission: started, stopped with what is left, set going again; one rule for all that stops them.

Three things stop them, in any combination: the robot says paused, the robot is stopped by people, and the robot is
offline while its mission waits for it. They run again when none of the three is left.
"""

from datetime import datetime, timedelta
from typing import Any

from fleet.history import Change
from fleet.models import OfflinePolicy
from missions import timings
from missions.deadlines import KINDS as DEADLINES
from missions.models import Outcome, State

_STOPPED_WITH_IT = ("step", "finished", "mission", "gap", "idle")  # questions that are put anew when clocks run again


def after(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds)


def suspended(mission: Any, *, but: str = "") -> bool:
    """Whether its clocks stand still; `but` names one reason that shall not count."""
    return (
        (mission.paused_at is not None and but != "paused")
        or (mission.held_at is not None and but != "held")
        or (
            mission.robot_lost_at is not None
            and but != "lost"
            and timings.offline_policy(mission) != OfflinePolicy.ABORT
        )
    )


def start(mission: Any, kind: str, now: datetime, seconds: float) -> dict[str, Any]:
    """Start the step's or the mission's time; while suspended only what is left of it; none while stopping."""
    if mission.stop_requested_at:
        return {}
    if suspended(mission):
        return {f"{kind}_left_s": float(seconds)}
    return {f"{kind}_due_at": after(now, seconds)}


def start_if_running(mission: Any, kind: str, now: datetime, seconds: float) -> dict[str, Any]:
    """Start a short time that begins anew, whole, whenever clocks are set going."""
    return {} if mission.stop_requested_at or suspended(mission) else {f"{kind}_due_at": after(now, seconds)}


def freeze(change: Change, since: datetime) -> dict[str, Any]:
    """Clocks stop, if they run: what was left then is stored."""
    mission = change.row
    if suspended(mission):
        return {}
    step = change.children["steps"].get(mission.current_step)
    most = {"step": step.timeout_s if step else 0, "mission": mission.timeout_s}
    left = {
        f"{kind}_left_s": min(max(0.0, (due - since).total_seconds()), float(whole))
        for kind, whole in most.items()
        if (due := getattr(mission, f"{kind}_due_at")) is not None
    }
    if not mission.stop_requested_at:  # what had run out is asked about again when they run
        if mission.state == State.EXECUTING and mission.step_due_at is None and not mission.retry_for:
            left["step_left_s"] = 0.0
        if mission.asked_for == "mission":
            left["mission_left_s"] = 0.0
    return {
        **left,
        **clear(mission, "step_due_at", "mission_due_at", "finished_due_at", "retry_due_at", "gap_due_at"),
        **(unasked(mission) if mission.asked_for in _STOPPED_WITH_IT else {}),
    }


def thaw(change: Change, now: datetime, *, but: str) -> dict[str, Any]:
    """The reason `but` is gone: if it was the last, clocks run again by new absolute times."""
    mission = change.row
    if suspended(mission, but=but):
        return {}
    again: dict[str, Any] = {}
    if not mission.stop_requested_at:
        for kind in ("step", "mission"):
            if (left := getattr(mission, f"{kind}_left_s")) is not None:
                again[f"{kind}_due_at"] = after(now, left)
        if mission.state == State.STEP_COMPLETED:
            again["finished_due_at"] = after(now, timings.get(mission, "finish_s"))
        if timings.get(mission, "strict_sequence") and behind(change):
            again["gap_due_at"] = after(now, timings.GAP_S)
        if mission.retry_for:
            again["retry_due_at"] = after(
                now, timings.backoff_s(change.children["steps"][mission.current_step].attempt)
            )
    return {**again, **clear(mission, "step_left_s", "mission_left_s")}


def behind(change: Change) -> bool:
    """Whether the robot said that something later was done, and not all that comes before it."""
    mission, steps = change.row, change.children["steps"]
    if mission.state == State.STEP_COMPLETED:
        return False
    later = (step.claimed for number, step in steps.items() if number > mission.current_step)
    return mission.finish_claimed_at is not None or Outcome.COMPLETED in later


def watch_gap(mission: Any, now: datetime, *, finished: bool = False) -> dict[str, Any]:
    """A success came before its turn: what is missing has a moment to be sent again, where the wait decides something.

    It does for brands with strict sequence, and for a robot that has finished while it was told to stop.
    """
    decides = finished if mission.stop_requested_at else timings.get(mission, "strict_sequence")
    if mission.gap_due_at or suspended(mission) or not decides:
        return {}
    return {"gap_due_at": after(now, timings.GAP_S)}


def clear(mission: Any, *columns: str) -> dict[str, None]:
    """Those of the columns that hold something, as null: history says no more than it must."""
    return {column: None for column in columns if getattr(mission, column) is not None}


def unasked(mission: Any) -> dict[str, Any]:
    return {"asked_at": None, "asked_for": "", "answer_due_at": None} if mission.asked_for else {}


def no_retry(mission: Any) -> dict[str, Any]:
    """No further attempt is about to begin."""
    return {"retry_for": "", **clear(mission, "retry_due_at")} if mission.retry_for else {}


def ended(mission: Any) -> dict[str, Any]:
    """Nothing is due any more."""
    due = (f"{kind}_due_at" for kind, _ in DEADLINES)
    left = clear(mission, *due, "paused_at", "held_at", "step_left_s", "mission_left_s", "robot_lost_at")
    return {**left, **unasked(mission), **no_retry(mission)}
