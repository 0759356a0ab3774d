"""What a fact means for a robot: pure rules from a fact to recorded events and commands."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from fleet.history import Change
from fleet.models import CommandState, HoldKind, Mode, Presence
from fleet.robots import abilities, faults
from fleet.robots.commands import command, msg_id_of
from fleet.wording import minute

STOP_S = 15  # from the stop to the robot's word that it stands; then it is said that it may still be moving
STOP_RESEND_S = 5
STOP_RESEND_MOST_S = 300  # the pauses double up to this
THE_ROBOT = "the robot's word"  # who lifts a hold that lifts by itself


class Verdict(StrEnum):
    """What became of a fact."""

    APPLIED = "applied"
    REDUNDANT = "redundant"  # already known
    STALE = "stale"  # overtaken, or of another dispatch or attempt
    LATE = "late"  # about a mission that has ended: kept, changes no state


@dataclass(frozen=True, slots=True)
class Word:
    """A robot's word about itself. Not monotone: only the newest (session, seq) counts."""

    session: int
    seq: int


@dataclass(frozen=True, slots=True)
class Reported(Word):
    """robot.state. `mission` and `dispatch_no` name what it works on, or with `ended` what it last knew.

    `reply_to`: msg_id of the query that it answers.
    """

    mode: str
    mission: UUID | None = None
    dispatch_no: int | None = None
    ended: str = ""
    reply_to: UUID | None = None


@dataclass(frozen=True, slots=True)
class Faulted(Word):
    """Something is wrong; of each code the newest word counts. `kind` as in fleet/robots/faults.py."""

    text: str
    code: str = ""
    danger: bool = False
    kind: str = faults.FAULT


@dataclass(frozen=True, slots=True)
class FaultCleared(Word):
    """What has that code is over; None: everything is."""

    code: str | None = None


@dataclass(frozen=True, slots=True)
class StoodStill(Word):
    """robot.stopped: it stands, and stays until released.

    `asked_at` is when the stop that it answers was asked for; None when it names none: then it is from before any stop that
    was asked for after it was received.
    """

    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The sweep's judgement of the link."""

    presence: str
    last_received_at: datetime | None


@dataclass(frozen=True, slots=True)
class Enrol:
    """`profile`: settings of its driver, laid over its brand's."""

    name: str
    site_id: int
    brand_id: int
    address: str = ""
    profile: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """Columns with their new values. `words`: what that is, for people."""

    columns: dict[str, Any]
    words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offers:
    """What the robot says it can do, sorted: command types, and `custom:<name>` for each custom one."""

    capabilities: list[str]


@dataclass(frozen=True, slots=True)
class Retire:
    pass


@dataclass(frozen=True, slots=True)
class Reinstate:
    pass


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Open a hold. Kind `stopped` also sends robot.stop, each time it is asked for."""

    kind: str
    by: str
    why: str = ""
    until: datetime | None = None
    mission: UUID | None = None
    dispatch_no: int | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """Why it is stopped, said afterwards."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release hold `number`, or every open stop. `unsent`: the robot cannot have heard of the stop."""

    by: str
    number: int | None = None
    unsent: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A deadline of the robot has passed: its kind, as in fleet/deadlines.py."""

    kind: str


@dataclass(frozen=True, slots=True)
class StopConfirmed:
    """The robot's word, at last, about a dispatch whose stop was not confirmed."""

    mission: UUID
    dispatch_no: int | None


@dataclass(frozen=True, slots=True)
class IssueCredential:
    label: str
    digest: str


@dataclass(frozen=True, slots=True)
class RevokeCredential:
    number: int


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the robot. `now` is when it was received (UTC). No I/O, no clock."""
    change.now = now
    if isinstance(fact, Word) and not isinstance(fact, StoodStill | FaultCleared) and not _is_newest(change, fact):
        return Verdict.STALE
    return _RULES[type(fact)](change, fact, now)


def _reported(change: Change, fact: Reported, now: datetime) -> Verdict:
    word = {"word_session": fact.session, "word_seq": fact.seq}
    if fact.mode != change.row.mode:
        change.record("robot.mode_changed", mode=fact.mode, mode_since=now, **word)
    else:
        change.record("robot.mode_confirmed", **word)
    if fact.mission is not None and (fact.mode == Mode.IDLE or fact.ended):
        _lift_unconfirmed(change, fact.mission, fact.dispatch_no, now)
    answered = [h for h in _open(change, HoldKind.UNCONFIRMED) if h.question and h.question == fact.reply_to]
    if answered:
        _lift(change, answered, THE_ROBOT, now)
    return Verdict.APPLIED


def _is_newest(change: Change, fact: Word) -> bool:
    return (fact.session, fact.seq) > (change.row.word_session, change.row.word_seq)


def _faulted(change: Change, fact: Faulted, now: datetime) -> Verdict:
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


def _fault_cleared(change: Change, fact: FaultCleared, now: datetime) -> Verdict:
    """By an older word than the newest as well, if only it is newer than what it clears."""
    row, newest = change.row, _is_newest(change, fact)
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


def _stood_still(change: Change, fact: StoodStill, now: datetime) -> Verdict:
    """It confirms only a stop that it can have meant, and that even when a later word came first: a stop is latched."""
    waiting = [h for h in _unconfirmed(change) if (fact.asked_at or now) >= h.since]
    word = {"word_session": fact.session, "word_seq": fact.seq} if _is_newest(change, fact) else {}
    if not word and (fact.asked_at is None or not waiting):
        return Verdict.STALE
    confirmed = [{"number": hold.number, "confirmed_at": now} for hold in waiting]
    change.record("robot.stop_confirmed", holds=confirmed, **word, **(_stop_settled(change) if waiting else {}))
    return Verdict.APPLIED


def _seen(change: Change, fact: Seen, now: datetime) -> Verdict:
    if fact.presence == change.row.presence:
        return Verdict.REDUNDANT
    change.record(
        "robot.presence_changed", presence=fact.presence, presence_since=now, last_received_at=fact.last_received_at
    )
    if fact.presence == Presence.ONLINE and _unconfirmed(change):  # whatever it was told before the link was lost
        change.record("robot.stop_resent", stop_due_at=now + timedelta(seconds=STOP_RESEND_S))
        _send_stop(change)
    return Verdict.APPLIED


def _enrol(change: Change, fact: Enrol, now: datetime) -> Verdict:
    change.record("robot.enrolled", **asdict(fact))
    return Verdict.APPLIED


def _edit(change: Change, fact: Edit, now: datetime) -> Verdict:
    """Under another address or brand it is another machine: what it said it can do holds no longer."""
    changed = {column: value for column, value in fact.columns.items() if getattr(change.row, column) != value}
    if not changed:
        return Verdict.REDUNDANT
    what = "; ".join(fact.words.get(column, column) for column in changed)
    if changed.keys() & {"address", "brand_id"} and change.row.capabilities is not None:
        changed["capabilities"] = None
    change.record("robot.edited", **changed, what=what)
    return Verdict.APPLIED


def _offers(change: Change, fact: Offers, now: datetime) -> Verdict:
    if change.row.capabilities == fact.capabilities:
        return Verdict.REDUNDANT
    change.record("robot.capabilities_told", capabilities=fact.capabilities, can=abilities.words(fact.capabilities))
    return Verdict.APPLIED


def _retire(change: Change, fact: Retire, now: datetime) -> Verdict:
    if change.row.retired_at:
        return Verdict.REDUNDANT
    change.record("robot.retired", retired_at=now)
    return Verdict.APPLIED


def _reinstate(change: Change, fact: Reinstate, now: datetime) -> Verdict:
    if not change.row.retired_at:
        return Verdict.REDUNDANT
    change.record("robot.reinstated", retired_at=None)
    return Verdict.APPLIED


def _hold_back(change: Change, fact: HoldBack, now: datetime) -> Verdict:
    if fact.kind == HoldKind.MAINTENANCE and (open_holds := _open(change, HoldKind.MAINTENANCE)):
        return _change_hold(change, open_holds[0], fact)
    if fact.kind != HoldKind.STOPPED:
        _open_hold(change, fact, now)
        return Verdict.APPLIED
    due = now + timedelta(seconds=STOP_RESEND_S)
    if stopped := _open(change, HoldKind.STOPPED):  # what it said before does not count for what is asked now
        asked = [
            {"number": h.number, "asked_at": now, "confirmed_at": None, "unconfirmed_at": None} for h in stopped
        ]  # fmt: skip
        change.record("robot.stop_repeated", by=fact.by, holds=asked, stop_due_at=due)
    else:
        _open_hold(change, fact, now, {"asked_at": now}, stop_due_at=due)
    _send_stop(change)
    return Verdict.APPLIED


def _open_hold(change: Change, fact: HoldBack, now: datetime, more: dict[str, Any] | None = None, **row: Any) -> None:
    hold = {
        "number": change.row.version + 1, "kind": fact.kind, "why": fact.why, "by": fact.by, "since": now,
        "until": fact.until, "mission": fact.mission, "dispatch_no": fact.dispatch_no, **(more or {}),
    }  # fmt: skip
    word = HoldKind(fact.kind).label.lower()
    if fact.until:
        row |= {"until_word": f" until {minute(fact.until)}", **_ends(change, {hold["number"]: fact.until})}
    change.record("robot.hold_opened", holds=[hold], kind_word=word, why=fact.why, **row)


def _change_hold(change: Change, hold: Any, fact: HoldBack) -> Verdict:
    """Asked for again: it stays the same hold, with the new end and the new reason."""
    if (hold.why, hold.until) == (fact.why, fact.until):
        return Verdict.REDUNDANT
    change.record(
        "robot.hold_changed", holds=[{"number": hold.number, "why": fact.why, "until": fact.until}], why=fact.why,
        kind_word=HoldKind(hold.kind).label.lower(), until_word=minute(fact.until) if fact.until else "released",
        **_ends(change, {hold.number: fact.until}),
    )  # fmt: skip
    return Verdict.APPLIED


def _ends(change: Change, new: dict[int, datetime | None]) -> dict[str, datetime | None]:
    """`hold_due_at` as it will be when the holds of these numbers end then; None: not by themselves. Empty: unchanged."""
    known = {h.number: h.until for h in change.children["holds"].values() if h.released_at is None}
    due = min((until for until in (known | new).values() if until is not None), default=None)
    return {} if due == change.row.hold_due_at else {"hold_due_at": due}


def _send_stop(change: Change) -> None:
    """What was said before and is still on its way no longer holds: a release that is repeated would let it go."""
    change.move_commands(("robot.stop", "robot.release"), CommandState.OPEN, CommandState.WITHDRAWN)
    why = next((h.why for h in _open(change, HoldKind.STOPPED)), "")
    change.commands.append(command(change, "robot.stop", change.row.pk, data={"why": why}))


def _explain(change: Change, fact: Explain, now: datetime) -> Verdict:
    holds = [h for h in _open(change, HoldKind.STOPPED) if h.why != fact.why]
    if not holds:
        return Verdict.REDUNDANT
    said = [{"number": h.number, "why": fact.why} for h in holds]
    change.record("robot.hold_explained", holds=said, by=fact.by, why=fact.why)
    return Verdict.APPLIED


def _release(change: Change, fact: Release, now: datetime) -> Verdict:
    holds = [
        hold
        for hold in change.children["holds"].values()
        if hold.released_at is None
        and (hold.number == fact.number if fact.number is not None else hold.kind == HoldKind.STOPPED)
    ]
    if not holds:
        return Verdict.REDUNDANT
    stopped = any(h.kind == HoldKind.STOPPED for h in holds)  # no more than one is open
    doubtful = stopped and not fact.unsent and bool(_unconfirmed(change))
    _lift(change, holds, fact.by, now, **(_stop_settled(change) if stopped else {}))
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
    _open_hold(change, HoldBack(HoldKind.UNCONFIRMED, "policy", why), now, {"question": question})
    change.commands.append(command(change, "robot.query_state", change.row.pk))


def _due(change: Change, fact: Due, now: datetime) -> Verdict:
    return _DUE[fact.kind](change, now)


def _stop_passed(change: Change, now: datetime) -> Verdict:
    """It has not said that it stands. An offline robot is told when it is back (`_seen`)."""
    waiting = _unconfirmed(change)
    if not waiting:
        return Verdict.REDUNDANT
    hold, offline = waiting[0], change.row.presence == Presence.OFFLINE
    waited = (now - (hold.asked_at or hold.since)).total_seconds()
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
        _send_stop(change)
    return Verdict.APPLIED


def _stop_confirmed(change: Change, fact: StopConfirmed, now: datetime) -> Verdict:
    return _lift_unconfirmed(change, fact.mission, fact.dispatch_no, now)


def _issue(change: Change, fact: IssueCredential, now: datetime) -> Verdict:
    number = change.row.version + 1
    change.record(
        "robot.credential_issued",
        credentials=[{"number": number, "label": fact.label, "issued_at": now}], label=fact.label,
    )  # fmt: skip
    change.children["credentials"][number].digest = fact.digest  # a secret stays out of the history
    return Verdict.APPLIED


def _revoke(change: Change, fact: RevokeCredential, now: datetime) -> Verdict:
    credential = change.children["credentials"].get(fact.number)
    if credential is None or credential.revoked_at:
        return Verdict.REDUNDANT
    change.record(
        "robot.credential_revoked", credentials=[{"number": fact.number, "revoked_at": now}], label=credential.label
    )
    return Verdict.APPLIED


_RULES: dict[type, Callable[[Change, Any, datetime], Verdict]] = {
    Reported: _reported,
    Faulted: _faulted,
    FaultCleared: _fault_cleared,
    StoodStill: _stood_still,
    Seen: _seen,
    Enrol: _enrol,
    Edit: _edit,
    Offers: _offers,
    Retire: _retire,
    Reinstate: _reinstate,
    HoldBack: _hold_back,
    Explain: _explain,
    Release: _release,
    Due: _due,
    StopConfirmed: _stop_confirmed,
    IssueCredential: _issue,
    RevokeCredential: _revoke,
}


def _hold_passed(change: Change, now: datetime) -> Verdict:
    """Only holds that were given an end do end by themselves."""
    over = [h for h in change.children["holds"].values() if h.released_at is None and h.until and h.until <= now]
    if not over:
        return Verdict.REDUNDANT
    _lift(change, over, "deadline", now)
    return Verdict.APPLIED


_DUE: dict[str, Callable[[Change, datetime], Verdict]] = {"stop": _stop_passed, "hold": _hold_passed}


def _open(change: Change, kind: str) -> list[Any]:
    return [h for h in change.children["holds"].values() if h.kind == kind and h.released_at is None]


def _unconfirmed(change: Change) -> list[Any]:
    """The open stop, when the robot has not said that it stands."""
    return [h for h in _open(change, HoldKind.STOPPED) if h.confirmed_at is None]


def _stop_settled(change: Change) -> dict[str, None]:
    return {} if change.row.stop_due_at is None else {"stop_due_at": None}


def _lift(change: Change, holds: list[Any], by: str, now: datetime, **row: Any) -> None:
    change.record(
        "robot.hold_released",
        holds=[{"number": hold.number, "released_at": now, "released_by": by} for hold in holds],
        released_by=by,
        **row,
        **_ends(change, {hold.number: None for hold in holds}),
    )


def _lift_unconfirmed(change: Change, mission: UUID, dispatch_no: int | None, now: datetime) -> Verdict:
    """The only hold that lifts by itself: the robot's word about that very dispatch."""
    holds = [h for h in _open(change, HoldKind.UNCONFIRMED) if (h.mission, h.dispatch_no) == (mission, dispatch_no)]
    if not holds:
        return Verdict.REDUNDANT
    _lift(change, holds, THE_ROBOT, now)
    return Verdict.APPLIED
