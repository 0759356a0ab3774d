"""Holds: a robot is stopped or kept from work, is told so until it says that it stands, and is released again (I13)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from fleet.history import Change
from fleet.models import CommandState, HoldKind, Presence
from fleet.robots import facts
from fleet.robots.commands import command, msg_id_of
from fleet.verdict import Verdict
from fleet.wording import minute

STOP_S = 15  # from the stop to the robot's word that it stands; then it is said that it may still be moving
STOP_RESEND_S = 5
STOP_RESEND_MOST_S = 300  # the pauses double up to this
THE_ROBOT = "the robot's word"  # who lifts a hold that lifts by itself


def hold_back(change: Change, fact: facts.HoldBack, now: datetime) -> Verdict:
    if fact.kind == HoldKind.MAINTENANCE and (kept := open_holds(change, HoldKind.MAINTENANCE)):
        return _change_hold(change, kept[0], fact)
    if fact.kind != HoldKind.STOPPED:
        _open_hold(change, fact, now)
        return Verdict.APPLIED
    due = now + timedelta(seconds=STOP_RESEND_S)
    if stopped := open_holds(change, HoldKind.STOPPED):  # what it said before does not count for what is asked now
        asked = [
            {"number": h.number, "asked_at": now, "confirmed_at": None, "unconfirmed_at": None} for h in stopped
        ]  # fmt: skip
        change.record("robot.stop_repeated", by=fact.by, holds=asked, stop_due_at=due)
    else:
        _open_hold(change, fact, now, {"asked_at": now}, stop_due_at=due)
    send_stop(change)
    return Verdict.APPLIED


def _open_hold(
    change: Change, fact: facts.HoldBack, now: datetime, more: dict[str, Any] | None = None, **row: Any
) -> None:
    hold = {
        "number": change.row.version + 1, "kind": fact.kind, "why": fact.why, "by": fact.by, "since": now,
        "until": fact.until, "mission": fact.mission, "dispatch_no": fact.dispatch_no, **(more or {}),
    }  # fmt: skip
    word = HoldKind(fact.kind).label.lower()
    if fact.until:
        row |= {"until_word": f" until {minute(fact.until)}", **_ends(change, {hold["number"]: fact.until})}
    change.record("robot.hold_opened", holds=[hold], kind_word=word, why=fact.why, **row)


def _change_hold(change: Change, hold: Any, fact: facts.HoldBack) -> Verdict:
    """Asked for again: it stays the same hold, with the new end and the new reason."""
    if (hold.why, hold.until) == (fact.why, fact.until):
        return Verdict.REDUNDANT
    change.record(
        "robot.hold_changed", holds=[{"number": hold.number, "why": fact.why, "until": fact.until}], why=fact.why,
        kind_word=HoldKind(hold.kind).label.lower(), until_word=minute(fact.until) if fact.until else "released",
        **_ends(change, {hold.number: fact.until}),
    )  # fmt: skip
    return Verdict.APPLIED


def explain(change: Change, fact: facts.Explain, now: datetime) -> Verdict:
    holds = [h for h in open_holds(change, HoldKind.STOPPED) if h.why != fact.why]
    if not holds:
        return Verdict.REDUNDANT
    said = [{"number": h.number, "why": fact.why} for h in holds]
    change.record("robot.hold_explained", holds=said, by=fact.by, why=fact.why)
    return Verdict.APPLIED


def release(change: Change, fact: facts.Release, now: datetime) -> Verdict:
    holds = [
        hold
        for hold in change.children["holds"].values()
        if hold.released_at is None
        and (hold.number == fact.number if fact.number is not None else hold.kind == HoldKind.STOPPED)
    ]
    if not holds:
        return Verdict.REDUNDANT
    stopped = any(h.kind == HoldKind.STOPPED for h in holds)  # no more than one is open
    doubtful = stopped and not fact.unsent and bool(unconfirmed(change))
    lift(change, holds, fact.by, now, **(stop_settled(change) if stopped else {}))
    if stopped:
        change.move_commands(("robot.stop",), CommandState.OPEN, CommandState.WITHDRAWN)
        change.commands.append(command(change, "robot.release", change.row.pk))
    if doubtful:
        _ask_where_it_stands(change, now)
    return Verdict.APPLIED


def _ask_where_it_stands(change: Change, now: datetime) -> None:
    """Released before its word: no new work (I13) until it answers a question that it hears after the release."""
    question = msg_id_of(change, "robot.query_state", change.row.version + 1)
    why = "released before it said that it stands; lifts by itself when it answers"
    _open_hold(change, facts.HoldBack(HoldKind.UNCONFIRMED, "policy", why), now, {"question": question})
    change.commands.append(command(change, "robot.query_state", change.row.pk))


def send_stop(change: Change) -> None:
    """What was said before and is still on its way no longer holds: a release that is repeated would let it go."""
    change.move_commands(("robot.stop", "robot.release"), CommandState.OPEN, CommandState.WITHDRAWN)
    why = next((h.why for h in open_holds(change, HoldKind.STOPPED)), "")
    change.commands.append(command(change, "robot.stop", change.row.pk, data={"why": why}))


def due(change: Change, fact: facts.Due, now: datetime) -> Verdict:
    return _DUE[fact.kind](change, now)


def _stop_passed(change: Change, now: datetime) -> Verdict:
    """It has not said that it stands. An offline robot is told when it is back (`words.seen`)."""
    waiting = unconfirmed(change)
    if not waiting:
        return Verdict.REDUNDANT
    hold, offline = waiting[0], change.row.presence == Presence.OFFLINE
    waited = (now - (hold.asked_at or hold.since)).total_seconds()
    if waited < 0:  # the clock was put back, and nobody knows how long ago that was: long enough
        waited = STOP_S
    late = waited >= STOP_S
    pause = min(waited, STOP_RESEND_MOST_S) if late else min(STOP_RESEND_S, STOP_S - waited)
    due = None if late and offline else now + timedelta(seconds=pause)
    if late and hold.unconfirmed_at is None:
        change.record(
            "robot.stop_unconfirmed", holds=[{"number": hold.number, "unconfirmed_at": now}], stop_due_at=due
        )  # fmt: skip
    else:
        change.record("robot.stop_resent", stop_due_at=due)
    if not offline:
        send_stop(change)
    return Verdict.APPLIED


def _hold_passed(change: Change, now: datetime) -> Verdict:
    """Only holds that were given an end do end by themselves."""
    over = [h for h in change.children["holds"].values() if h.released_at is None and h.until and h.until <= now]
    if not over:
        return Verdict.REDUNDANT
    lift(change, over, "deadline", now)
    return Verdict.APPLIED


_DUE: dict[str, Callable[[Change, datetime], Verdict]] = {"stop": _stop_passed, "hold": _hold_passed}


def stop_confirmed(change: Change, fact: facts.StopConfirmed, now: datetime) -> Verdict:
    return lift_unconfirmed(change, fact.mission, fact.dispatch_no, now)


def lift_unconfirmed(change: Change, mission: UUID, dispatch_no: int | None, now: datetime) -> Verdict:
    """The only hold that lifts by itself: the robot's word about that very dispatch."""
    holds = [
        h for h in open_holds(change, HoldKind.UNCONFIRMED) if (h.mission, h.dispatch_no) == (mission, dispatch_no)
    ]
    if not holds:
        return Verdict.REDUNDANT
    lift(change, holds, THE_ROBOT, now)
    return Verdict.APPLIED


def lift(change: Change, holds: list[Any], by: str, now: datetime, **row: Any) -> None:
    change.record(
        "robot.hold_released",
        holds=[{"number": hold.number, "released_at": now, "released_by": by} for hold in holds],
        released_by=by,
        **row,
        **_ends(change, {hold.number: None for hold in holds}),
    )


def _ends(change: Change, new: dict[int, datetime | None]) -> dict[str, datetime | None]:
    """`hold_due_at` as it will be when the holds of these numbers end then; None: not by themselves. Empty: unchanged."""
    known = {h.number: h.until for h in change.children["holds"].values() if h.released_at is None}
    due = min((until for until in (known | new).values() if until is not None), default=None)
    return {} if due == change.row.hold_due_at else {"hold_due_at": due}


def open_holds(change: Change, kind: str) -> list[Any]:
    return [h for h in change.children["holds"].values() if h.kind == kind and h.released_at is None]


def unconfirmed(change: Change) -> list[Any]:
    """The open stop, when the robot has not said that it stands."""
    return [h for h in open_holds(change, HoldKind.STOPPED) if h.confirmed_at is None]


def stop_settled(change: Change) -> dict[str, None]:
    return {} if change.row.stop_due_at is None else {"stop_due_at": None}
