"""What a robot says about a dispatch: each word counts once, in whatever order it comes; what is late is kept."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.models import CommandState
from fleet.robots import facts as robot_facts
from fleet.verdict import Verdict
from missions import facts
from missions.decide import clocks
from missions.decide.ending import abort
from missions.decide.moving import advance, at_last_step, begin, end_step, succeed
from missions.models import AbortReason, Outcome, RetryFor, State


def accepted(change: Change, fact: facts.Accepted, now: datetime) -> Verdict:
    if change.row.state != State.PENDING:
        return Verdict.REDUNDANT
    begin(change, now)
    return Verdict.APPLIED


def rejected(change: Change, fact: facts.Rejected, now: datetime) -> Verdict:
    if change.row.state != State.PENDING:
        return Verdict.STALE
    abort(change, now, AbortReason.REJECTED, fact.why)
    return Verdict.APPLIED


def step_started(change: Change, fact: facts.StepStarted, now: datetime) -> Verdict:
    return Verdict.REDUNDANT  # the step began, for us, when the one before it was completed


def step_ended(change: Change, fact: facts.StepCompleted | facts.StepFailed, now: datetime) -> Verdict:
    """A failure counts for the attempt that it names, a completion always: the work is done, whoever asked for it."""
    mission, step = change.row, change.children["steps"].get(fact.step)
    done = isinstance(fact, facts.StepCompleted)
    outcome, said = (
        (Outcome.COMPLETED, fact.result) if isinstance(fact, facts.StepCompleted) else (Outcome.FAILED, fact.why)
    )
    if step is None or (not done and fact.attempt != (step.attempt or 1)):  # one that is still to come begins with 1
        return Verdict.STALE
    if step.outcome == Outcome.SKIPPED and done:
        change.record("mission.late_receipt", says=_about_step(fact))
        return Verdict.LATE
    if step.outcome or step.claimed:
        return Verdict.REDUNDANT
    if not (mission.state == State.EXECUTING and mission.current_step == fact.step):
        change.record(
            "mission.receipt_early",
            steps=[{"number": fact.step, "claimed": outcome, "result": said}],
            says=f"step {fact.step} {outcome.label.lower()}",
            **(clocks.watch_gap(mission, now) if done else {}),
        )
        return Verdict.APPLIED
    if not done and mission.retry_for == RetryFor.FAILURE:  # of the attempt that is to be made again
        return Verdict.REDUNDANT
    end_step(change, outcome, said, now)
    advance(change, now)
    return Verdict.APPLIED


def cancelled(change: Change, fact: facts.Cancelled, now: datetime) -> Verdict:
    mission = change.row
    if mission.stop_requested_at:
        abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=True)
    else:
        detail = "cancelled at the robot" + (f": {fact.why}" if fact.why else "")
        abort(change, now, AbortReason.OPERATOR, detail, stop_confirmed=True)
    return Verdict.APPLIED


def finished(change: Change, fact: facts.Finished, now: datetime) -> Verdict:
    mission = change.row
    if mission.finish_claimed_at:
        return Verdict.REDUNDANT
    if mission.state == State.STEP_COMPLETED and at_last_step(change):
        succeed(change, now)
    else:
        due = clocks.watch_gap(mission, now, finished=True)
        change.record("mission.receipt_early", finish_claimed_at=now, says="finished", **due)
    return Verdict.APPLIED


def late(change: Change, fact: facts.Receipt) -> Verdict:
    """The mission has ended. The word is kept and shown; it changes no state."""
    mission, says = change.row, _SAYS[type(fact)](fact)
    ends = isinstance(fact, facts.Cancelled | facts.Finished | facts.Rejected)
    if ends and mission.stop_confirmed is False:
        change.record("mission.stop_confirmed_late", stop_confirmed=True, says=says)
        change.move_commands((), CommandState.OPEN, CommandState.WITHDRAWN)
        change.follow.append(robot_facts.StopConfirmed(mission.pk, mission.dispatch_no))
    elif isinstance(fact, facts.Cancelled) and mission.stop_confirmed:
        return Verdict.REDUNDANT  # the answer to a cancel that was sent more than once
    else:
        change.record("mission.late_receipt", says=says)
    return Verdict.LATE


def _about_step(fact: Any) -> str:
    word = {facts.StepStarted: "has started", facts.StepCompleted: "is completed", facts.StepFailed: "has failed"}
    more = getattr(fact, "result", "") or getattr(fact, "why", "")
    return f"step {fact.step} {word[type(fact)]}" + (f": {more}" if more else "")


def _with_why(word: str) -> Callable[[Any], str]:
    return lambda fact: word + (f": {fact.why}" if fact.why else "")


_SAYS: dict[type, Callable[[Any], str]] = {
    facts.Accepted: lambda fact: "accepted",
    facts.Rejected: _with_why("rejected"),
    facts.StepStarted: _about_step,
    facts.StepCompleted: _about_step,
    facts.StepFailed: _about_step,
    facts.Paused: lambda fact: "paused",
    facts.Resumed: lambda fact: "resumed",
    facts.Cancelled: _with_why("cancelled"),
    facts.Finished: lambda fact: "finished",
}
