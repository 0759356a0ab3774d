"""What a fact means for a mission: pure rules from a fact to transitions, deadlines and commands (DESIGN section 4).

The FSM runs on objects in memory, inside `Change.record`; `fleet.commit` writes what was recorded. Facts may come
in any order: what comes before its turn is kept as a claim, and `_advance` moves the machine as far as facts allow.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from fleet import decide as robots
from fleet.commands import command
from fleet.decide import Verdict
from fleet.history import Change
from fleet.models import CommandState, HoldKind
from fleet.wording import clock
from missions import facts
from missions.deadlines import KINDS as DEADLINES
from missions.models import FINAL, AbortReason, Outcome, State

ACCEPTED_S = 10  # from transport ack to accepted
ACCEPT_TRIES = 5
ACCEPT_WAITS_S = 30  # until a robot that is not online is looked at again
UNDELIVERED_S = 60  # until it is said that an assignment waits for the link
UNDELIVERED_ONLINE_S = 180  # a robot that is online and takes nothing this long gets nothing
FINISHED_S = 10  # from the last step to finished
ANSWER_S = 5  # for the answer to query_state
STOP_S = 15  # from the stop request to the robot's word
STOP_RESEND_S = 5
PAUSED_LONG_S = 600
WAITS_LONG_S, WAITS_MOST_S = 600, 3600  # until it is said that it still waits: after as long again, at most

_OPEN_COMMANDS = ("mission.assign", "mission.pause", "mission.resume", "robot.query_state")


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
            return _late(change, fact)
    elif mission.state in FINAL:
        return Verdict.REDUNDANT
    return _RULES[type(fact)](change, fact, now)


# --- receipts


def _accepted(change: Change, fact: facts.Accepted, now: datetime) -> Verdict:
    mission = change.row
    if mission.state != State.PENDING:
        return Verdict.REDUNDANT
    change.record(
        "mission.started",
        started_at=now,
        delivered_at=mission.delivered_at or now,
        current_step=1,
        steps=[{"number": 1, "attempt": 1, "started_at": now}],
        **_clear(mission, "undelivered_due_at", "accepted_due_at", "expires_due_at"),
        **_clock(mission, "step", now, change.children["steps"][1].timeout_s),
        **_clock(mission, "mission", now, mission.timeout_s),
    )
    _advance(change, now)
    return Verdict.APPLIED


def _rejected(change: Change, fact: facts.Rejected, now: datetime) -> Verdict:
    if change.row.state != State.PENDING:
        return Verdict.STALE
    _abort(change, now, AbortReason.REJECTED, fact.why)
    return Verdict.APPLIED


def _step_started(change: Change, fact: facts.StepStarted, now: datetime) -> Verdict:
    return Verdict.REDUNDANT  # the step began, for us, when the one before it was completed


def _step_ended(change: Change, fact: facts.StepCompleted | facts.StepFailed, now: datetime) -> Verdict:
    step = change.children["steps"].get(fact.step)
    done = isinstance(fact, facts.StepCompleted)
    outcome, said = (
        (Outcome.COMPLETED, fact.result) if isinstance(fact, facts.StepCompleted) else (Outcome.FAILED, fact.why)
    )
    if step is None or (not done and fact.attempt != (step.attempt or 1)):  # one that is still to come begins with 1
        return Verdict.STALE
    if step.outcome or step.claimed:
        return Verdict.REDUNDANT
    if not (change.row.state == State.EXECUTING and change.row.current_step == fact.step):
        change.record(
            "mission.receipt_early",
            steps=[{"number": fact.step, "claimed": outcome, "result": said}],
            says=f"step {fact.step} {outcome.label.lower()}",
        )
        return Verdict.APPLIED
    _end_step(change, fact.step, outcome, said, now)
    _advance(change, now)
    return Verdict.APPLIED


def _paused(change: Change, fact: facts.Paused, now: datetime) -> Verdict:
    mission = change.row
    if (fact.session, fact.seq) <= (mission.word_session, mission.word_seq):
        return Verdict.STALE
    word = {"word_session": fact.session, "word_seq": fact.seq}
    if isinstance(fact, facts.Resumed):
        change.record("mission.resumed", **word, **(_wound_up(mission, now) if mission.paused_at else {}))
        _advance(change, now)
    else:
        change.record("mission.paused", **word, **({} if mission.paused_at else _halted(mission, now)))
    return Verdict.APPLIED


def _halted(mission: Any, now: datetime) -> dict[str, Any]:
    """Clocks stop: what was left is stored, one deadline says that the pause is long."""
    left = {
        f"{kind}_left_s": max(0.0, (due - now).total_seconds())
        for kind in ("step", "mission")
        if (due := getattr(mission, f"{kind}_due_at")) is not None
    }
    if mission.asked_for in ("step", "mission"):  # it had run out: ask again after the pause
        left[f"{mission.asked_for}_left_s"] = 0.0
    return {
        "paused_at": now,
        "paused_due_at": now + timedelta(seconds=PAUSED_LONG_S),
        **left,
        **_clear(mission, "step_due_at", "mission_due_at", "finished_due_at"),
        **_unasked(mission),
    }


def _wound_up(mission: Any, now: datetime) -> dict[str, Any]:
    """Clocks run again, by new absolute times."""
    again = {
        f"{kind}_due_at": now + timedelta(seconds=left)
        for kind in ("step", "mission")
        if (left := getattr(mission, f"{kind}_left_s")) is not None and not mission.stop_requested_at
    }
    if mission.state == State.STEP_COMPLETED and not mission.stop_requested_at:
        again["finished_due_at"] = now + timedelta(seconds=FINISHED_S)
    return {**again, **_clear(mission, "paused_at", "paused_due_at", "step_left_s", "mission_left_s")}


def _cancelled(change: Change, fact: facts.Cancelled, now: datetime) -> Verdict:
    mission = change.row
    if mission.stop_requested_at:
        _abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=True)
    else:
        detail = "cancelled at the robot" + (f": {fact.why}" if fact.why else "")
        _abort(change, now, AbortReason.OPERATOR, detail, stop_confirmed=True)
    return Verdict.APPLIED


def _finished(change: Change, fact: facts.Finished, now: datetime) -> Verdict:
    mission = change.row
    if mission.finish_claimed_at:
        return Verdict.REDUNDANT
    if mission.state == State.STEP_COMPLETED and _at_last_step(change):
        _succeed(change, now)
    else:
        change.record("mission.receipt_early", finish_claimed_at=now, says="finished")
    return Verdict.APPLIED


def _late(change: Change, fact: facts.Receipt) -> Verdict:
    """The mission has ended. The word is kept and shown; it changes no state."""
    mission, says = change.row, _SAYS[type(fact)]
    ends = isinstance(fact, facts.Cancelled | facts.Finished | facts.Rejected)
    if ends and mission.stop_confirmed is False:
        change.record("mission.stop_confirmed_late", stop_confirmed=True, says=says)
        change.move_commands((), CommandState.OPEN, CommandState.WITHDRAWN)
        change.follow.append(robots.StopConfirmed(mission.pk, mission.dispatch_no))
    elif isinstance(fact, facts.Cancelled) and mission.stop_confirmed:
        return Verdict.REDUNDANT  # the answer to a cancel that was sent more than once
    else:
        change.record("mission.late_receipt", says=says)
    return Verdict.LATE


def _answered(change: Change, fact: facts.Answered, now: datetime) -> Verdict:
    if not change.row.asked_for:
        return Verdict.REDUNDANT
    _judge(change, fact, now)
    return Verdict.APPLIED


def _says_idle(change: Change, fact: facts.SaysIdle, now: datetime) -> Verdict:
    """Asked at once, not at the step's deadline: a word of before it began may be what came."""
    mission = change.row
    if mission.state != State.EXECUTING or mission.asked_for or mission.paused_at or mission.stop_requested_at:
        return Verdict.REDUNDANT
    _ask(change, "mission.idle_reported", "idle", now)
    return Verdict.APPLIED


def _judge(change: Change, answer: facts.Answered | None, now: datetime) -> None:
    """The robot was asked because a deadline had passed: end or go on by its answer, or by its silence."""
    mission = change.row
    asked_for = mission.asked_for
    says = _words(answer)
    if answer is not None and not answer.named and answer.mode == "idle":
        change.record("mission.answered", says=says, **_unasked(mission))
        _abort(change, now, AbortReason.ROBOT_FAULT, "the robot no longer knows this mission", stop_confirmed=True)
    elif asked_for == "finished" and answer is not None and answer.named:
        if answer.ended == "finished":
            change.record("mission.answered", says=says, **_unasked(mission))
            _succeed(change, now, inferred=True)
        else:
            again = now + timedelta(seconds=FINISHED_S)
            change.record("mission.answered", says=says, finished_due_at=again, **_unasked(mission))
    elif asked_for == "idle":  # it is at it after all, or silent: its own deadlines go on
        change.record("mission.answered", says=says, **_unasked(mission))
    else:
        change.record("mission.answered", says=says, **_unasked(mission))
        _stop(
            change,
            now,
            AbortReason.TIMEOUT,
            _TOO_LONG[asked_for].format(m=mission, step=_step_words(change)),
            by="deadline",
        )


def _words(answer: facts.Answered | None) -> str:
    if answer is None:
        return "nothing"
    if not answer.named:
        return f"{answer.mode}, and does not name this mission"
    return f"this mission is {answer.ended}" if answer.ended else f"{answer.mode}, on this mission"


_TOO_LONG = {
    "step": "{step} was not completed in time",
    "finished": "all steps are done, but the robot does not say that it has finished",
    "mission": "it took longer than {m.timeout_s} s",
}


def _delivered(change: Change, fact: facts.Delivered, now: datetime) -> Verdict:
    mission = change.row
    if mission.state != State.PENDING or not mission.dispatched_at or mission.stop_requested_at:
        return Verdict.REDUNDANT
    change.record(
        "mission.delivered",
        delivered_at=now,
        accepted_due_at=now + timedelta(seconds=ACCEPTED_S),
        **_clear(mission, "undelivered_due_at"),
    )
    return Verdict.APPLIED


# --- deadlines


def _due(change: Change, fact: facts.Due, now: datetime) -> Verdict:
    due_at = getattr(change.row, f"{fact.kind}_due_at")
    if due_at is None or due_at > now:
        return Verdict.REDUNDANT
    _PASSED[fact.kind](change, fact, now)
    return Verdict.APPLIED


def _queued_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    waited_s = (now - change.row.queued_at).total_seconds()
    again = now + timedelta(seconds=min(max(waited_s, WAITS_LONG_S), WAITS_MOST_S))
    change.record("mission.waits_long", queued_due_at=again, because=fact.why)


def _expires_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    change.record("mission.expired", expires_due_at=None)
    detail = f"expired: it had not started by {clock(change.row.expires_at)}"
    _stop(change, now, AbortReason.TIMEOUT, detail, by="deadline")


def _undelivered_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    mission = change.row
    change.record("mission.undelivered", undelivered_due_at=now + timedelta(seconds=UNDELIVERED_S))
    if fact.online and now - mission.dispatched_at >= timedelta(seconds=UNDELIVERED_ONLINE_S):
        _undeliverable(change, now, "the robot is online but does not take the assignment")


def _accepted_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    mission = change.row
    if not fact.online:  # tries count only while the link is up
        change.record("mission.accept_waits", accepted_due_at=now + timedelta(seconds=ACCEPT_WAITS_S))
        return
    if mission.accept_tries >= ACCEPT_TRIES:
        _undeliverable(change, now, f"no answer to the assignment after {mission.accept_tries} tries")
        return
    change.record(
        "mission.accept_timeout",
        accept_tries=mission.accept_tries + 1,
        accepted_due_at=now + timedelta(seconds=ACCEPTED_S),
    )
    change.move_commands(("mission.assign",), CommandState.DELIVERED, CommandState.OPEN)


def _undeliverable(change: Change, now: datetime, detail: str) -> None:
    for state in (CommandState.OPEN, CommandState.DELIVERED):
        change.command_moves.append((("mission.assign",), state, CommandState.DEAD))
    _stop(change, now, AbortReason.UNDELIVERABLE, detail, by="deadline")


def _step_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _ask(change, "mission.step_timeout", "step", now, step=change.row.current_step, step_due_at=None)


def _finished_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _ask(change, "mission.finish_timeout", "finished", now, finished_due_at=None)


def _mission_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _ask(change, "mission.timeout", "mission", now, mission_due_at=None)


def _ask(change: Change, kind: str, asked_for: str, now: datetime, **data: Any) -> None:
    mission = change.row
    change.record(kind, asked_at=now, asked_for=asked_for, answer_due_at=now + timedelta(seconds=ANSWER_S), **data)
    change.commands.append(command(change, "robot.query_state", mission.robot_id, dispatch_no=mission.dispatch_no))


def _answer_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _judge(change, None, now)


def _stop_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    mission = change.row
    end = mission.stop_requested_at + timedelta(seconds=STOP_S)
    # also at the end: should the robot come back, it is told to stop
    change.move_commands(("mission.cancel",), CommandState.DELIVERED, CommandState.OPEN)
    if now < end:
        change.record("mission.stop_resent", stop_due_at=min(now + timedelta(seconds=STOP_RESEND_S), end))
        return
    _abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=False)
    change.follow.append(
        robots.HoldBack(
            kind=HoldKind.UNCONFIRMED,
            by="policy",
            why=f"it never confirmed that it stopped “{mission.title}”; it may still be moving",
            mission=mission.pk,
            dispatch_no=mission.dispatch_no,
        )
    )


def _robot_lost_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    since = change.row.robot_lost_at
    change.record("mission.robot_lost_timeout", robot_lost_due_at=None)
    _stop(change, now, AbortReason.ROBOT_FAULT, f"the robot has been offline since {since:%H:%M:%S} UTC", by="deadline")


def _paused_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    change.record("mission.paused_long", paused_due_at=now + timedelta(seconds=PAUSED_LONG_S))


_PASSED: dict[str, Callable[[Change, facts.Due, datetime], None]] = {
    "queued": _queued_passed,
    "expires": _expires_passed,
    "undelivered": _undelivered_passed,
    "accepted": _accepted_passed,
    "step": _step_passed,
    "finished": _finished_passed,
    "mission": _mission_passed,
    "answer": _answer_passed,
    "stop": _stop_passed,
    "robot_lost": _robot_lost_passed,
    "paused": _paused_passed,
}


# --- the robot itself


def _robot_lost(change: Change, fact: facts.RobotLost, now: datetime) -> Verdict:
    mission = change.row
    if mission.robot_lost_at or not mission.dispatched_at:
        return Verdict.REDUNDANT
    due = {} if mission.stop_requested_at else {"robot_lost_due_at": now + timedelta(seconds=fact.abandon_after_s)}
    change.record("mission.robot_lost", robot_lost_at=now, **due)
    return Verdict.APPLIED


def _robot_back(change: Change, fact: facts.RobotBack, now: datetime) -> Verdict:
    if not change.row.robot_lost_at:
        return Verdict.REDUNDANT
    change.record("mission.robot_back", robot_lost_at=None, **_clear(change.row, "robot_lost_due_at"))
    return Verdict.APPLIED


def _danger(change: Change, fact: facts.Danger, now: datetime) -> Verdict:
    _stop(change, now, AbortReason.SAFETY, fact.text, by=change.origin.actor_name or "the robot")
    return Verdict.APPLIED


# --- requests


def _draw_up(change: Change, fact: facts.DrawUp, now: datetime) -> Verdict:
    change.record(
        "mission.drafted", **fact.fields, expires_due_at=fact.fields.get("expires_at"), created_at=now,
        created_by=change.origin.actor_name, **_numbered(fact),
    )  # fmt: skip
    return Verdict.APPLIED


def _edit(change: Change, fact: facts.Edit, now: datetime) -> Verdict:
    """What was approved is no longer what it says: it needs approval anew, and waits outside the queue."""
    mission = change.row
    void: dict[str, Any] = {"approved_by": "", "approved_at": None} if mission.approved_at else {}
    if fact.fields.get("needs_approval"):
        void |= _clear(mission, "queued_at", "queued_due_at")
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


def _approve(change: Change, fact: facts.Approve, now: datetime) -> Verdict:
    if change.row.approved_at:
        return Verdict.REDUNDANT
    change.record("mission.approved", approved_by=fact.by, approved_at=now)
    return Verdict.APPLIED


def _queue(change: Change, fact: facts.Queue, now: datetime) -> Verdict:
    if change.row.queued_at or change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.queued", queued_at=now, queued_due_at=now + timedelta(seconds=WAITS_LONG_S))
    return Verdict.APPLIED


def _withdraw(change: Change, fact: facts.Withdraw, now: datetime) -> Verdict:
    if not change.row.queued_at or change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.withdrawn", queued_at=None, queued_due_at=None)
    return Verdict.APPLIED


def _set_priority(change: Change, fact: facts.SetPriority, now: datetime) -> Verdict:
    if change.row.priority == fact.priority:
        return Verdict.REDUNDANT
    change.record("mission.priority_set", priority=fact.priority)
    return Verdict.APPLIED


def _choose_robot(change: Change, fact: facts.ChooseRobot, now: datetime) -> Verdict:
    change.record("mission.robot_chosen", robot_id=fact.robot_id, because=fact.because, refused=fact.refused)
    return Verdict.APPLIED


def _dependency_failed(change: Change, fact: facts.DependencyFailed, now: datetime) -> Verdict:
    if change.row.dispatched_at:
        return Verdict.REDUNDANT
    change.record("mission.dependency_failed", on=fact.on, title=fact.title)
    _abort(change, now, AbortReason.DEPENDENCY_FAILED, f"“{fact.title}” did not succeed")
    return Verdict.APPLIED


def _dispatch(change: Change, fact: facts.Dispatch, now: datetime) -> Verdict:
    mission = change.row
    change.record(
        "mission.dispatched",
        dispatch_no=mission.dispatch_no + 1,
        dispatched_at=now,
        accept_tries=1,
        undelivered_due_at=now + timedelta(seconds=UNDELIVERED_S),
        robot=fact.robot,
        **_clear(mission, "queued_due_at"),
    )
    order = {"title": mission.title, "timeout_s": mission.timeout_s, "steps": fact.steps}
    change.commands.append(
        command(change, "mission.assign", mission.robot_id, dispatch_no=mission.dispatch_no, data=order)
    )
    return Verdict.APPLIED


def _cancel(change: Change, fact: facts.Cancel, now: datetime) -> Verdict:
    if change.row.stop_requested_at:
        return Verdict.REDUNDANT
    _stop(change, now, AbortReason.OPERATOR, fact.reason, by=fact.by)
    return Verdict.APPLIED


def _pause(change: Change, fact: facts.Pause, now: datetime) -> Verdict:
    return _request(change, "mission.pause", "mission.pause_requested", fact.by)


def _resume(change: Change, fact: facts.Resume, now: datetime) -> Verdict:
    return _request(change, "mission.resume", "mission.resume_requested", fact.by)


def _request(change: Change, wanted: str, kind: str, by: str) -> Verdict:
    mission = change.row
    change.record(kind, by=by)
    change.commands.append(command(change, wanted, mission.robot_id, dispatch_no=mission.dispatch_no))
    return Verdict.APPLIED


# --- how a mission moves on, stops and ends


def _advance(change: Change, now: datetime) -> None:
    """Move the machine as far as what was said allows."""
    mission, steps = change.row, change.children["steps"]
    while mission.state not in FINAL:
        if mission.state == State.EXECUTING:
            step = steps[mission.current_step]
            if step.outcome or not step.claimed:
                return
            _end_step(change, step.number, step.claimed, step.result, now)
        elif mission.state == State.STEP_COMPLETED and not _at_last_step(change):
            number = mission.current_step + 1
            change.record(
                "mission.step_started",
                current_step=number,
                steps=[{"number": number, "attempt": 1, "started_at": now}],
                **_clock(mission, "step", now, steps[number].timeout_s),
            )
        elif mission.state == State.STEP_COMPLETED and mission.finish_claimed_at:
            _succeed(change, now)
        else:
            return


def _end_step(change: Change, number: int, outcome: str, result: str, now: datetime) -> None:
    mission = change.row
    step = {"number": number, "outcome": outcome, "ended_at": now, "result": result, "claimed": ""}
    if outcome == Outcome.FAILED:
        change.record("mission.step_failed", steps=[step], step=number, **_clear(mission, "step_due_at"))
        what = f"{_step_words(change)} failed" + (f": {result}" if result else "")
        _stop(change, now, AbortReason.ROBOT_FAULT, what, by="policy")
        return
    finished = {}
    if _at_last_step(change) and not mission.paused_at and not mission.stop_requested_at:
        finished = {"finished_due_at": now + timedelta(seconds=FINISHED_S)}
    change.record(
        "mission.step_completed", steps=[step], step=number, **finished,
        **_clear(mission, "step_due_at", "step_left_s"), **(_unasked(mission) if mission.asked_for == "step" else {}),
    )  # fmt: skip


def _succeed(change: Change, now: datetime, *, inferred: bool = False) -> None:
    change.record("mission.succeeded", ended_at=now, **({"inferred": True} if inferred else {}), **_ended(change.row))
    change.move_commands((), CommandState.OPEN, CommandState.WITHDRAWN)


def _stop(change: Change, now: datetime, reason: str, detail: str, *, by: str) -> None:
    """Stop before final: ask the robot to end the dispatch and wait for its word."""
    mission = change.row
    if mission.stop_requested_at:
        return
    if not mission.dispatched_at or not mission.assign_sent:  # the robot cannot have begun
        _abort(change, now, reason, detail)
        return
    change.record(
        "mission.stop_requested",
        abort_reason=reason,
        abort_detail=detail,
        stop_requested_at=now,
        stop_requested_by=by,
        stop_due_at=now + timedelta(seconds=STOP_RESEND_S),
        **_clear(mission, "expires_due_at", "undelivered_due_at", "accepted_due_at", "step_due_at", "mission_due_at",
                 "finished_due_at", "robot_lost_due_at"),
        **_unasked(mission),
    )  # fmt: skip
    change.move_commands(_OPEN_COMMANDS, CommandState.OPEN, CommandState.WITHDRAWN)
    change.commands.append(command(change, "mission.cancel", mission.robot_id, dispatch_no=mission.dispatch_no))


def _abort(change: Change, now: datetime, reason: str, detail: str, *, stop_confirmed: bool | None = None) -> None:
    mission = change.row
    because = {} if mission.stop_requested_at else {"abort_reason": reason, "abort_detail": detail}
    confirmed = {} if stop_confirmed is None else {"stop_confirmed": stop_confirmed}
    change.record("mission.aborted", ended_at=now, **because, **confirmed, **_ended(mission))
    kinds = _OPEN_COMMANDS if stop_confirmed is False else ()
    change.move_commands(kinds, CommandState.OPEN, CommandState.WITHDRAWN)


def _at_last_step(change: Change) -> bool:
    return bool(change.row.current_step == len(change.children["steps"]))


def _step_words(change: Change) -> str:
    number = change.row.current_step
    return f"step {number} ({change.children['steps'][number].command})" if number else "the first step"


def _clock(mission: Any, kind: str, now: datetime, seconds: int) -> dict[str, Any]:
    """Start a deadline; while paused only what is left of it; none while stopping."""
    if mission.stop_requested_at:
        return {}
    if mission.paused_at:
        return {f"{kind}_left_s": float(seconds)}
    return {f"{kind}_due_at": now + timedelta(seconds=seconds)}


def _clear(mission: Any, *columns: str) -> dict[str, None]:
    """Those of the columns that hold something, as null: history says no more than it must."""
    return {column: None for column in columns if getattr(mission, column) is not None}


def _unasked(mission: Any) -> dict[str, Any]:
    return {"asked_at": None, "asked_for": "", "answer_due_at": None} if mission.asked_for else {}


def _ended(mission: Any) -> dict[str, Any]:
    """Nothing is due any more."""
    due = (f"{kind}_due_at" for kind, _ in DEADLINES)
    left = _clear(mission, *due, "paused_at", "step_left_s", "mission_left_s", "robot_lost_at")
    return {**left, **_unasked(mission)}


_RULES: dict[type, Callable[[Change, Any, datetime], Verdict]] = {
    facts.Accepted: _accepted,
    facts.Rejected: _rejected,
    facts.StepStarted: _step_started,
    facts.StepCompleted: _step_ended,
    facts.StepFailed: _step_ended,
    facts.Paused: _paused,
    facts.Resumed: _paused,
    facts.Cancelled: _cancelled,
    facts.Finished: _finished,
    facts.Answered: _answered,
    facts.SaysIdle: _says_idle,
    facts.Delivered: _delivered,
    facts.Due: _due,
    facts.RobotLost: _robot_lost,
    facts.RobotBack: _robot_back,
    facts.Danger: _danger,
    facts.DrawUp: _draw_up,
    facts.Edit: _edit,
    facts.Approve: _approve,
    facts.Queue: _queue,
    facts.Withdraw: _withdraw,
    facts.SetPriority: _set_priority,
    facts.ChooseRobot: _choose_robot,
    facts.DependencyFailed: _dependency_failed,
    facts.Dispatch: _dispatch,
    facts.Cancel: _cancel,
    facts.Pause: _pause,
    facts.Resume: _resume,
}

_SAYS: dict[type, str] = {
    facts.Accepted: "accepted",
    facts.Rejected: "rejected",
    facts.StepStarted: "a step has started",
    facts.StepCompleted: "a step is completed",
    facts.StepFailed: "a step has failed",
    facts.Paused: "paused",
    facts.Resumed: "resumed",
    facts.Cancelled: "cancelled",
    facts.Finished: "finished",
}
