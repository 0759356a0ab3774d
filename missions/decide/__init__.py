"""What a fact means for a mission: pure rules from a fact to transitions, deadlines and commands (DESIGN section 4).

The FSM runs on objects in memory, inside `Change.record`; `fleet.commit` writes what was recorded. Facts may come
in any order: what comes before its turn is kept as a claim, and `moving.advance` goes as far as facts allow.

Rooms: receipts (what the robot says), moving (how steps end and follow each other), questions (asking before anything
is held against it), suspending and offline (what makes it stand still), handing (to its robot), ending (stop before
final), requests (of people), clocks (what they all share of time).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.verdict import Verdict
from missions import facts
from missions.decide import ending, handing, moving, offline, questions, receipts, requests, suspending
from missions.models import FINAL

__all__ = ["decide"]


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the mission. `now` is when it was received (UTC). No I/O, no clock.

    Facts for its robot that come of it are left in `change.follow`.
    """
    change.now = now
    mission = change.row
    if isinstance(fact, facts.Receipt):
        if not mission.dispatched_at or fact.dispatch_no != mission.dispatch_no:
            return Verdict.STALE
        if mission.state in FINAL:
            return receipts.late(change, fact)
    elif mission.state in FINAL and not isinstance(fact, facts.HandedOver):
        return Verdict.REDUNDANT
    return RULES[type(fact)](change, fact, now)


def _due(change: Change, fact: facts.Due, now: datetime) -> Verdict:
    due_at = getattr(change.row, f"{fact.kind}_due_at")
    if due_at is None or (due_at > now and due_at != fact.set_for):
        return Verdict.REDUNDANT
    PASSED[fact.kind](change, fact, now)
    return Verdict.APPLIED


RULES: dict[type, Callable[[Change, Any, datetime], Verdict]] = {
    facts.Accepted: receipts.accepted,
    facts.Rejected: receipts.rejected,
    facts.StepStarted: receipts.step_started,
    facts.StepCompleted: receipts.step_ended,
    facts.StepFailed: receipts.step_ended,
    facts.Paused: suspending.paused,
    facts.Resumed: suspending.paused,
    facts.Cancelled: receipts.cancelled,
    facts.Finished: receipts.finished,
    facts.Answered: questions.answered,
    facts.SaysIdle: questions.says_idle,
    facts.Delivered: handing.delivered,
    facts.Due: _due,
    facts.RobotLost: offline.robot_lost,
    facts.RobotBack: offline.robot_back,
    facts.RobotHeld: suspending.held,
    facts.RobotReleased: suspending.released,
    facts.Danger: requests.danger,
    facts.DrawUp: requests.draw_up,
    facts.Edit: requests.edit,
    facts.Approve: requests.approve,
    facts.Queue: requests.queue,
    facts.Withdraw: requests.withdraw,
    facts.SetPriority: requests.set_priority,
    facts.ChooseRobot: requests.choose_robot,
    facts.DependencyFailed: requests.dependency_failed,
    facts.DependencyMoved: requests.dependency_moved,
    facts.Dispatch: handing.dispatch,
    facts.Cancel: requests.cancel,
    facts.Pause: requests.pause,
    facts.Resume: requests.resume,
    facts.HandOver: offline.hand_over,
    facts.HandedOver: offline.handed_over,
}

# kind of deadline (missions/deadlines.py) → what happens when it passes
PASSED: dict[str, Callable[[Change, facts.Due, datetime], None]] = {
    "queued": requests.queued_passed,
    "expires": requests.expires_passed,
    "undelivered": handing.undelivered_passed,
    "accepted": handing.accepted_passed,
    "step": questions.step_passed,
    "retry": moving.retry_passed,
    "gap": questions.gap_passed,
    "finished": questions.finished_passed,
    "mission": questions.mission_passed,
    "answer": questions.answer_passed,
    "stop": ending.stop_passed,
    "robot_lost": offline.robot_lost_passed,
    "paused": suspending.paused_passed,
    "held": suspending.held_passed,
}
