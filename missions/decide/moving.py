"""How a mission moves on: steps end, are tried again, skipped or inferred, and the next one begins."""

from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.models import CommandState
from fleet.robots.commands import command
from missions import facts, timings
from missions.decide import clocks
from missions.decide.ending import abort, stop
from missions.models import FINAL, AbortReason, Outcome, RetryFor, State, Then


def begin(change: Change, now: datetime, *, inferred: bool = False) -> None:
    """The robot has accepted: by its word, or by what it said later."""
    mission = change.row
    change.record(
        "mission.started",
        started_at=now,
        delivered_at=mission.delivered_at or now,
        current_step=1,
        steps=[{"number": 1, "attempt": 1, "started_at": now}],
        **clocks.clear(mission, "undelivered_due_at", "accepted_due_at", "expires_due_at"),
        **clocks.start(mission, "step", now, change.children["steps"][1].timeout_s),
        **clocks.start(mission, "mission", now, mission.timeout_s),
        **(clocks.unasked(mission) if mission.asked_for == "accepted" else {}),
        **({"inferred": True} if inferred else {}),
    )
    advance(change, now)


def advance(change: Change, now: datetime) -> None:
    """Move the machine as far as what was said allows."""
    mission, steps = change.row, change.children["steps"]
    while mission.state not in FINAL:
        if mission.state == State.EXECUTING:
            step = steps[mission.current_step]
            if step.outcome or not step.claimed:
                return
            end_step(change, step.claimed, step.result, now)
        elif mission.state == State.STEP_COMPLETED and not at_last_step(change):
            number = mission.current_step + 1
            change.record(
                "mission.step_started",
                current_step=number,
                steps=[{"number": number, "attempt": 1, "started_at": now}],
                **clocks.start(mission, "step", now, steps[number].timeout_s),
            )
        elif mission.state == State.STEP_COMPLETED and mission.finish_claimed_at:
            succeed(change, now)
        else:
            return


def end_step(change: Change, outcome: str, result: str, now: datetime) -> None:
    """The current step ended by the robot's word."""
    if outcome == Outcome.FAILED:
        _failed(change, result, now)
    else:
        _done(change, "mission.step_completed", {"outcome": Outcome.COMPLETED, "result": result}, now)


def _failed(change: Change, why: str, now: datetime) -> None:
    mission, step = change.row, current(change)
    again = step.failed_attempts < step.failure_retries
    if not mission.stop_requested_at and again:
        _try_again_later(change, RetryFor.FAILURE, now, {"failed_attempts": step.failed_attempts + 1, "result": why})
    elif not mission.stop_requested_at and step.failure_then == Then.SKIP:
        skip(change, f"it failed{f': {why}' if why else ''}", now, why)
    else:
        failed = {"number": step.number, "outcome": Outcome.FAILED, "ended_at": now, "result": why}
        change.record(
            "mission.step_failed", steps=[_unclaimed(step, failed)], step=step.number, **_step_is_over(mission)
        )  # fmt: skip
        what = f"{step_words(change)} failed" + (f": {why}" if why else "")
        stop(change, now, AbortReason.ROBOT_FAULT, what, by="policy")


def timed_out(change: Change, now: datetime) -> None:
    """The current step took too long and the robot, asked, did not say that it is done."""
    step = current(change)
    timeouts = max(step.attempt - 1 - step.failed_attempts, 0)  # attempts that were given up for the time they took
    if step.repeatable and timeouts < step.timeout_retries and not clocks.behind(change):
        _try_again_later(change, RetryFor.TIMEOUT, now, {})
    elif step.timeout_then == Then.SKIP:
        skip(change, "it took too long", now)
        advance(change, now)
    else:
        stop(change, now, AbortReason.TIMEOUT, f"{step_words(change)} was not completed in time", by="deadline")


def _try_again_later(change: Change, why: RetryFor, now: datetime, more: dict[str, Any]) -> None:
    mission, step = change.row, current(change)
    because = "it took too long" if why is RetryFor.TIMEOUT else f"it failed: {more['result']}".rstrip(": ")
    wait = clocks.start_if_running(mission, "retry", now, timings.backoff_s(step.attempt))
    over = {k: v for k, v in _step_is_over(mission).items() if k not in ("retry_for", "retry_due_at")}
    told = [_unclaimed(step, {"number": step.number, **more})] if more else []
    change.record(
        "mission.retry_planned", steps=told, step=step.number, because=because, retry_for=why.value, **over, **wait
    )


def retry_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    """The pause before the next attempt is over."""
    mission, step = change.row, current(change)
    attempt = step.attempt + 1
    change.record(
        "mission.step_retried", steps=[{"number": step.number, "attempt": attempt, "started_at": now}],
        step=step.number, because=RetryFor(mission.retry_for).label.lower(), retry_for="", retry_due_at=None,
        **clocks.start(mission, "step", now, step.timeout_s),
    )  # fmt: skip
    _send(change, "mission.retry_step", step.number, attempt)


def skip(change: Change, because: str, now: datetime, said: str = "") -> None:
    """Give the current step up and go on. The robot is told, unless it is past that step already."""
    step, past = current(change), clocks.behind(change)
    _done(change, "mission.step_skipped", {"outcome": Outcome.SKIPPED, "result": said}, now, because=because)
    if not past:
        _send(change, "mission.skip_step", step.number, step.attempt)


def infer(change: Change, now: datetime) -> None:
    """What came later proves what is missing, as far as it may: never a step that is to be confirmed, never a failure."""
    mission = change.row
    if mission.state == State.PENDING and clocks.behind(change):
        begin(change, now, inferred=True)
    while mission.state == State.EXECUTING and clocks.behind(change):
        if current(change).confirm or mission.retry_for == RetryFor.FAILURE:
            return
        _done(change, "mission.step_completed", {"outcome": Outcome.COMPLETED, "inferred": True}, now, inferred=True)
        advance(change, now)


def _done(change: Change, kind: str, told: dict[str, Any], now: datetime, **notes: Any) -> None:
    """The current step is behind us."""
    mission, step = change.row, current(change)
    finished = {}
    if at_last_step(change):
        finished = clocks.start_if_running(mission, "finished", now, timings.get(mission, "finish_s"))
    row = _unclaimed(step, {"number": step.number, "ended_at": now, **told})
    change.record(kind, steps=[row], step=step.number, **notes, **finished, **_step_is_over(mission))


def _step_is_over(mission: Any) -> dict[str, Any]:
    asked = clocks.unasked(mission) if mission.asked_for in ("step", "gap") else {}
    return {**clocks.clear(mission, "step_due_at", "step_left_s", "gap_due_at"), **asked, **clocks.no_retry(mission)}


def _unclaimed(step: Any, told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "claimed": ""} if step.claimed else told


def succeed(change: Change, now: datetime, *, inferred: bool = False) -> None:
    mission = change.row
    change.record(
        "mission.succeeded", ended_at=now, **({"inferred": True} if inferred else {}), **clocks.ended(mission)
    )
    change.move_commands((), CommandState.OPEN, CommandState.WITHDRAWN)


def settle_finished(change: Change, now: datetime) -> None:
    """The robot has ended the dispatch and was asked, and still has not said that the current step was done."""
    step = current(change)
    if step.timeout_then == Then.SKIP:
        skip(change, "it has finished without saying that it was completed", now)
        advance(change, now)
        if change.row.state == State.EXECUTING:
            settle_finished(change, now)
        return
    detail = f"it says that it has finished, but not that {step_words(change)} was completed"
    abort(change, now, AbortReason.TIMEOUT, detail, stop_confirmed=True)


def current(change: Change) -> Any:
    """The row of the step that it is at."""
    return change.children["steps"][change.row.current_step]


def at_last_step(change: Change) -> bool:
    return bool(change.row.current_step == len(change.children["steps"]))


def step_words(change: Change) -> str:
    number = change.row.current_step
    return f"step {number} ({change.children['steps'][number].command})" if number else "the first step"


def _send(change: Change, kind: str, step: int, attempt: int) -> None:
    mission = change.row
    data = {"step": step, "attempt": attempt}
    change.commands.append(command(change, kind, mission.robot_id, dispatch_no=mission.dispatch_no, data=data))
