"""What a robot says of itself, and what is known of its link: the newest word counts."""

from datetime import datetime, timedelta
from typing import Any

from fleet.history import Change
from fleet.models import HoldKind, Mode, Presence
from fleet.robots import abilities, facts, faults
from fleet.robots.decide import holding
from fleet.verdict import Verdict


def reported(change: Change, fact: facts.Reported, now: datetime) -> Verdict:
    word = {"word_session": fact.session, "word_seq": fact.seq}
    if fact.mode != change.row.mode:
        change.record("robot.mode_changed", mode=fact.mode, mode_since=now, **word)
    else:
        change.record("robot.mode_confirmed", **word)
    if fact.mission is not None and (fact.mode == Mode.IDLE or fact.ended):
        holding.lift_unconfirmed(change, fact.mission, fact.dispatch_no, now)
    answered = [
        h for h in holding.open_holds(change, HoldKind.UNCONFIRMED) if h.question and h.question == fact.reply_to
    ]
    if answered:
        holding.lift(change, answered, holding.THE_ROBOT, now)
    return Verdict.APPLIED


def is_newest(change: Change, fact: facts.Word) -> bool:
    return (fact.session, fact.seq) > (change.row.word_session, change.row.word_seq)


def faulted(change: Change, fact: facts.Faulted, now: datetime) -> Verdict:
    row, word = change.row, {"word_session": fact.session, "word_seq": fact.seq}
    found = faults.raised(
        row.faults, code=fact.code, text=fact.text, kind=fact.kind, danger=fact.danger, at=now,
        word=(fact.session, fact.seq),
    )  # fmt: skip
    if fact.kind == faults.WARNING:
        if faults.same(found, row.faults):
            return Verdict.REDUNDANT
        said = _faults(found) | (
            {"fault": row.fault} if row.fault and not row.faults else {}
        )  # one of before there were several
        change.record("robot.warned", **said, code=fact.code, text=found[-1]["text"], **word)
        return Verdict.APPLIED
    mode = {} if row.mode == Mode.FAULT else {"mode": Mode.FAULT, "mode_since": now}
    change.record("robot.faulted", **_faults(found), code=fact.code, danger=fact.danger, **mode, **word)
    return Verdict.APPLIED


def fault_cleared(change: Change, fact: facts.FaultCleared, now: datetime) -> Verdict:
    """By an older word than the newest as well, if only it is newer than what it clears."""
    row, newest = change.row, is_newest(change, fact)
    left = faults.cleared(row.faults, fact.code, (fact.session, fact.seq))
    if len(left) == len(row.faults) and not newest:
        return Verdict.STALE
    over = [f for f in row.faults if f not in left]
    word = {"word_session": fact.session, "word_seq": fact.seq} if newest else {}
    ends = newest and row.mode == Mode.FAULT and not faults.blocking(left)
    mode = {"mode": Mode.UNKNOWN, "mode_since": now} if ends else {}
    over_words = "; ".join(f["text"] for f in over) or None
    change.record("robot.fault_cleared", **_faults(left), text=over_words, **mode, **word)
    return Verdict.APPLIED


def _faults(found: list[faults.Entry]) -> dict[str, Any]:
    """Columns, and whether there are several."""
    return {"faults": found, "fault": faults.words(found), "several": len(faults.blocking(found)) > 1}


def stood_still(change: Change, fact: facts.StoodStill, now: datetime) -> Verdict:
    """It confirms only a stop that it can have meant, and that even when a later word came first: a stop is latched."""
    waiting = [h for h in holding.unconfirmed(change) if (fact.asked_at or now) >= h.since]
    word = {"word_session": fact.session, "word_seq": fact.seq} if is_newest(change, fact) else {}
    if not word and (fact.asked_at is None or not waiting):
        return Verdict.STALE
    confirmed = [{"number": hold.number, "confirmed_at": now} for hold in waiting]
    change.record("robot.stop_confirmed", holds=confirmed, **word, **(holding.stop_settled(change) if waiting else {}))
    return Verdict.APPLIED


def seen(change: Change, fact: facts.Seen, now: datetime) -> Verdict:
    if fact.presence == change.row.presence:
        return Verdict.REDUNDANT
    change.record(
        "robot.presence_changed", presence=fact.presence, presence_since=now, last_received_at=fact.last_received_at
    )
    if fact.presence == Presence.ONLINE and holding.unconfirmed(
        change
    ):  # whatever it was told before the link was lost
        change.record("robot.stop_resent", stop_due_at=now + timedelta(seconds=holding.STOP_RESEND_S))
        holding.send_stop(change)
    return Verdict.APPLIED


def offers(change: Change, fact: facts.Offers, now: datetime) -> Verdict:
    if change.row.capabilities == fact.capabilities:
        return Verdict.REDUNDANT
    change.record("robot.capabilities_told", capabilities=fact.capabilities, can=abilities.words(fact.capabilities))
    return Verdict.APPLIED
