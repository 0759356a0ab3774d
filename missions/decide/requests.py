"""What people and policies ask of a mission: drawing it up, the queue, pausing, cancelling."""

from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.robots.commands import command
from fleet.verdict import Verdict
from fleet.wording import clock
from missions import facts, timings
from missions.decide import clocks
from missions.decide.ending import abort, stop
from missions.models import AbortReason


def draw_up(change: Change, fact: facts.DrawUp, now: datetime) -> Verdict:
    change.record(
        "mission.drafted", **fact.fields, expires_due_at=fact.fields.get("expires_at"), created_at=now,
        created_by=change.origin.actor_name, **_numbered(fact),
    )  # fmt: skip
    return Verdict.APPLIED


def edit(change: Change, fact: facts.Edit, now: datetime) -> Verdict:
    """What was approved is no longer what it says: it needs approval anew, and waits outside the queue."""
    mission = change.row
    void: dict[str, Any] = {"approved_by": "", "approved_at": None} if mission.approved_at else {}
    if fact.fields.get("needs_approval"):
        void |= clocks.clear(mission, "queued_at", "queued_due_at")
    numbered = _numbered(fact)
    for child, rows in numbered.items():
        rows += [{"number": n, "gone": True} for n in change.children[child] if n > len(rows)]
    change.record(
        "mission.edited", **fact.fields, expires_due_at=fact.fields.get("expires_at"), **void,
        **{child: rows for child, rows in numbered.items() if rows},
    )  # fmt: skip
    return Verdict.APPLIED


def _numbered(fact: facts.DrawUp) -> dict[str, list[dict[str, Any]]]:
    """Children by name, each with its number."""
    return {
        "steps": [{"number": number, **step} for number, step in enumerate(fact.steps, 1)],
        "dependencies": [{"number": number, "on_id": on} for number, on in enumerate(fact.after, 1)],
    }


def approve(change: Change, fact: facts.Approve, now: datetime) -> Verdict:
    if change.row.approved_at:
        return Verdict.REDUNDANT
    change.record("mission.approved", approved_by=fact.by, approved_at=now)
    return Verdict.APPLIED


def queue(change: Change, fact: facts.Queue, now: datetime) -> Verdict:
    if change.row.queued_at or change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.queued", queued_at=now, queued_due_at=clocks.after(now, timings.WAITS_LONG_S))
    return Verdict.APPLIED


def withdraw(change: Change, fact: facts.Withdraw, now: datetime) -> Verdict:
    if not change.row.queued_at or change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.withdrawn", queued_at=None, queued_due_at=None)
    return Verdict.APPLIED


def set_priority(change: Change, fact: facts.SetPriority, now: datetime) -> Verdict:
    if change.row.priority == fact.priority:
        return Verdict.REDUNDANT
    change.record("mission.priority_set", priority=fact.priority)
    return Verdict.APPLIED


def choose_robot(change: Change, fact: facts.ChooseRobot, now: datetime) -> Verdict:
    change.record("mission.robot_chosen", robot_id=fact.robot_id, because=fact.because, refused=fact.refused)
    return Verdict.APPLIED


def dependency_failed(change: Change, fact: facts.DependencyFailed, now: datetime) -> Verdict:
    if change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.dependency_failed", on=fact.on, title=fact.title)
    abort(change, now, AbortReason.DEPENDENCY_FAILED, f"“{fact.title}” did not succeed")
    return Verdict.APPLIED


def dependency_moved(change: Change, fact: facts.DependencyMoved, now: datetime) -> Verdict:
    """What it comes after was handed over: it comes after the mission that goes on with it."""
    moved = [
        {"number": number, "on_id": fact.to}
        for number, dependency in change.children["dependencies"].items()
        if dependency.on_id == fact.on
    ]
    if change.row.dispatched_at or not moved:
        return Verdict.REDUNDANT
    change.record("mission.dependency_moved", dependencies=moved, title=fact.title)
    return Verdict.APPLIED


def danger(change: Change, fact: facts.Danger, now: datetime) -> Verdict:
    if change.row.stop_requested_at:
        return Verdict.REDUNDANT
    stop(change, now, AbortReason.SAFETY, fact.text, by=change.origin.actor_name or "the robot")
    return Verdict.APPLIED


def cancel(change: Change, fact: facts.Cancel, now: datetime) -> Verdict:
    """One that is being stopped in order to be handed over ends all the same, and then nobody goes on with it."""
    mission = change.row
    if not mission.stop_requested_at:
        stop(change, now, AbortReason.OPERATOR, fact.reason, by=fact.by)
    elif mission.hand_over_at:
        change.record(
            "mission.hand_over_dropped", hand_over_at=None, why=f"{fact.by} cancelled it",
            abort_reason=AbortReason.OPERATOR.value, abort_detail=fact.reason,
        )  # fmt: skip
    else:
        return Verdict.REDUNDANT
    return Verdict.APPLIED


def pause(change: Change, fact: facts.Pause, now: datetime) -> Verdict:
    return _request(change, "mission.pause", "mission.pause_requested", fact.by)


def resume(change: Change, fact: facts.Resume, now: datetime) -> Verdict:
    return _request(change, "mission.resume", "mission.resume_requested", fact.by)


def _request(change: Change, wanted: str, kind: str, by: str) -> Verdict:
    mission = change.row
    change.record(kind, by=by)
    change.commands.append(command(change, wanted, mission.robot_id, dispatch_no=mission.dispatch_no))
    return Verdict.APPLIED


def queued_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    waited_s = (now - change.row.queued_at).total_seconds()
    again = clocks.after(now, min(max(waited_s, timings.WAITS_LONG_S), timings.WAITS_MOST_S))
    change.record("mission.waits_long", queued_due_at=again, because=fact.why)


def expires_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    change.record("mission.expired", expires_due_at=None)
    detail = f"expired: it had not started by {clock(change.row.expires_at)}"
    stop(change, now, AbortReason.TIMEOUT, detail, by="deadline")
