"""Asking the robot before anything is held against it, and what its answer, or its silence, decides."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.robots.commands import command
from fleet.verdict import Verdict
from missions import facts, timings
from missions.decide import clocks
from missions.decide.ending import abort, send_cancel, stop
from missions.decide.moving import (
    advance,
    at_last_step,
    begin,
    end_step,
    infer,
    settle_finished,
    succeed,
    timed_out,
)
from missions.models import FINAL, AbortReason, Outcome, State

# what is asked for; a later question takes the place of an earlier one only if it stands below it here
ORDER = ("", "idle", "gap", "accepted", "step", "finished", "mission", "stop")

# its last word about the dispatch, when it has ended it by itself → why the mission is aborted
_ENDED: dict[str, tuple[str, str]] = {
    "cancelled": (AbortReason.OPERATOR, "cancelled at the robot"),
    "failed": (AbortReason.ROBOT_FAULT, "the robot says that it has failed"),
    "rejected": (AbortReason.REJECTED, "the robot says that it has rejected it"),
}


def ask(change: Change, kind: str, asked_for: str, now: datetime, **data: Any) -> None:
    """Record why, and ask; unless a question that decides more is open already."""
    mission = change.row
    if ORDER.index(mission.asked_for) > ORDER.index(asked_for):
        change.record(kind, **data)
        return
    due = clocks.after(now, timings.get(mission, "answer_s"))
    change.record(kind, asked_at=now, asked_for=asked_for, answer_due_at=due, **data)
    change.commands.append(command(change, "robot.query_state", mission.robot_id, dispatch_no=mission.dispatch_no))


def answered(change: Change, fact: facts.Answered, now: datetime) -> Verdict:
    if not change.row.asked_for or not fact.asked:
        return _unasked(change, fact, now)
    _judge(change, fact, now)
    return Verdict.APPLIED


def _unasked(change: Change, fact: facts.Answered, now: datetime) -> Verdict:
    """The answer to a question of nobody's deadline (after an outage), or one that came too late: what is new in it counts."""
    mission = change.row
    if not mission.dispatched_at:
        return Verdict.REDUNDANT
    if not fact.named:
        return says_idle(change, facts.SaysIdle(), now) if fact.mode == "idle" else Verdict.REDUNDANT
    before = len(change.events)
    if news := [n for n in fact.completed if _is_news(change, n)]:
        change.record("mission.answered", says=f"step {', '.join(map(str, news))} completed")
        _take_over(change, fact, now)
    if fact.ended == "finished" and mission.state == State.STEP_COMPLETED and at_last_step(change):
        succeed(change, now, inferred=True)
    return Verdict.APPLIED if len(change.events) > before else Verdict.REDUNDANT


def _is_news(change: Change, number: int) -> bool:
    step = change.children["steps"].get(number)
    return step is not None and not step.outcome and step.claimed != Outcome.COMPLETED


def answer_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _judge(change, None, now)


def says_idle(change: Change, fact: facts.SaysIdle, now: datetime) -> Verdict:
    """Asked at once, not at the step's deadline: a word of before it began may be what came."""
    mission = change.row
    if mission.state != State.EXECUTING or mission.asked_for or mission.stop_requested_at or clocks.suspended(mission):
        return Verdict.REDUNDANT
    ask(change, "mission.idle_reported", "idle", now)
    return Verdict.APPLIED


def step_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    ask(change, "mission.step_timeout", "step", now, step=change.row.current_step, step_due_at=None)


def finished_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    ask(change, "mission.finish_timeout", "finished", now, finished_due_at=None)


def mission_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    ask(change, "mission.timeout", "mission", now, mission_due_at=None)


def gap_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    """What is missing was not sent again."""
    mission = change.row
    change.record("mission.receipt_missing", gap_due_at=None, step=mission.current_step)
    if mission.stop_requested_at:
        if mission.finish_claimed_at:  # it has ended the dispatch by itself
            abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=True)
        return
    if timings.get(mission, "strict_sequence"):
        infer(change, now)
    if mission.state == State.EXECUTING and clocks.behind(change):
        time_is_up = mission.step_due_at is None or mission.mission_due_at is None
        if mission.finish_claimed_at and time_is_up and not mission.asked_for:
            settle_finished(change, now)
        elif not mission.asked_for:
            ask(change, "mission.receipt_asked", "gap", now, step=mission.current_step)


def _judge(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    """The robot was asked: end or go on by its answer, or by its silence."""
    mission = change.row
    asked_for = mission.asked_for
    change.record("mission.answered", says=_words(answer), **clocks.unasked(mission), **_again(mission, answer, now))
    if answer is not None and not answer.named and answer.mode == "idle":
        _forgotten(change, now)
        return
    if answer is not None and answer.named:
        _take_over(change, answer, now)
        if mission.state in FINAL:
            return
        if answer.ended in _ENDED:
            abort(change, now, *_ENDED[answer.ended], stop_confirmed=True)
            return
        if answer.ended == "finished":
            _finished(change, now)
            return
    _UNSETTLED[asked_for](change, answer, now)


def _again(mission: Any, answer: facts.Answered | None, now: datetime) -> dict[str, Any]:
    """It is awaited further: whoever is at it has not finished yet, whoever says nothing is sent the assignment again."""
    if mission.asked_for == "finished" and answer is not None and answer.named and not answer.ended:
        return {"finished_due_at": clocks.after(now, timings.get(mission, "finish_s"))}
    if mission.asked_for == "accepted" and (answer is None or not answer.named):
        return {"accepted_due_at": clocks.after(now, timings.get(mission, "accept_s"))}
    return {}


def _forgotten(change: Change, now: datetime) -> None:
    abort(change, now, AbortReason.ROBOT_FAULT, "the robot no longer knows this mission", stop_confirmed=True)


def _take_over(change: Change, answer: facts.Answered, now: datetime) -> None:
    """Steps that it says it has completed, in answer to the question: as good as receipts."""
    mission, steps = change.row, change.children["steps"]
    if mission.state == State.PENDING:
        begin(change, now, inferred=True)
    for number in sorted(set(answer.completed) & steps.keys()):
        if not _is_news(change, number):
            continue
        if mission.state == State.EXECUTING and mission.current_step == number:
            end_step(change, Outcome.COMPLETED, "", now)
            advance(change, now)
        else:
            claim = {"number": number, "claimed": Outcome.COMPLETED, "result": ""}
            change.record("mission.receipt_early", steps=[claim], says=f"step {number} completed")


def _finished(change: Change, now: datetime) -> None:
    """It says that it has finished. What is missing has a moment to be sent again."""
    mission = change.row
    if mission.state == State.STEP_COMPLETED and at_last_step(change):
        succeed(change, now, inferred=True)
    elif mission.stop_requested_at:
        abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=True)
    else:
        claimed = {} if mission.finish_claimed_at else {"finish_claimed_at": now}
        due = {} if mission.gap_due_at else clocks.start_if_running(mission, "gap", now, timings.GAP_S)
        if claimed or due:
            change.record("mission.receipt_early", says="finished", **claimed, **due)


def _step(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    """It is at it, or silent: its step goes on, unless its time has run out."""
    mission = change.row
    over = mission.step_due_at is None and not mission.retry_for and not clocks.suspended(mission)
    if mission.state == State.EXECUTING and over:
        timed_out(change, now)


def _finish(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    if answer is None or not answer.named:
        detail = "all steps are done, but the robot does not say that it has finished"
        stop(change, now, AbortReason.TIMEOUT, detail, by="deadline")


def _too_long(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    stop(change, now, AbortReason.TIMEOUT, f"it took longer than {change.row.timeout_s} s", by="deadline")


def _told_to_stop(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    """It is not idle, as far as is known: it may be sent a cancel."""
    if answer is not None and answer.mode == "idle":
        abort(change, now, change.row.abort_reason, change.row.abort_detail, stop_confirmed=True)
    else:
        send_cancel(change)


_UNSETTLED: dict[str, Callable[[Change, facts.Answered | None, datetime], None]] = {
    "idle": _step,
    "gap": _step,
    "accepted": _step,
    "step": _step,
    "finished": _finish,
    "mission": _too_long,
    "stop": _told_to_stop,
}


def _words(answer: facts.Answered | None) -> str:
    if answer is None:
        return "nothing"
    if not answer.named:
        return f"{answer.mode}, and does not name this mission"
    return f"this mission is {answer.ended}" if answer.ended else f"{answer.mode}, on this mission"
