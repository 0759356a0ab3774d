"""What a fact means for a robot: pure rules from a fact to recorded events and commands."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from fleet.commands import command
from fleet.history import Change
from fleet.models import HoldKind, Mode


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
    """robot.state. `mission` and `dispatch_no` name what it works on, or with `ended` what it last knew."""

    mode: str
    mission: UUID | None = None
    dispatch_no: int | None = None
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Faulted(Word):
    text: str
    code: str = ""
    danger: bool = False


@dataclass(frozen=True, slots=True)
class FaultCleared(Word):
    pass


@dataclass(frozen=True, slots=True)
class StoodStill(Word):
    """robot.stopped: it stands, and stays until released."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The sweep's judgement of the link."""

    presence: str
    last_received_at: datetime | None


@dataclass(frozen=True, slots=True)
class Enrol:
    name: str
    site_id: int
    brand_id: int


@dataclass(frozen=True, slots=True)
class Edit(Enrol):
    pass


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
class Release:
    """Release hold `number`, or every open stop."""

    by: str
    number: int | None = None


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
    if isinstance(fact, Word) and (fact.session, fact.seq) <= (change.row.word_session, change.row.word_seq):
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
    return Verdict.APPLIED


def _faulted(change: Change, fact: Faulted, now: datetime) -> Verdict:
    change.record(
        "robot.faulted", fault=fact.text or fact.code, code=fact.code, danger=fact.danger, mode=Mode.FAULT,
        mode_since=now, word_session=fact.session, word_seq=fact.seq,
    )  # fmt: skip
    return Verdict.APPLIED


def _fault_cleared(change: Change, fact: FaultCleared, now: datetime) -> Verdict:
    mode = {"mode": Mode.UNKNOWN, "mode_since": now} if change.row.mode == Mode.FAULT else {}
    change.record("robot.fault_cleared", fault="", word_session=fact.session, word_seq=fact.seq, **mode)
    return Verdict.APPLIED


def _stood_still(change: Change, fact: StoodStill, now: datetime) -> Verdict:
    waiting = [h.number for h in _open(change, HoldKind.STOPPED) if h.confirmed_at is None]
    change.record(
        "robot.stop_confirmed",
        holds=[{"number": number, "confirmed_at": now} for number in waiting],
        word_session=fact.session, word_seq=fact.seq,
    )  # fmt: skip
    return Verdict.APPLIED


def _seen(change: Change, fact: Seen, now: datetime) -> Verdict:
    if fact.presence == change.row.presence:
        return Verdict.REDUNDANT
    change.record(
        "robot.presence_changed", presence=fact.presence, presence_since=now, last_received_at=fact.last_received_at
    )
    return Verdict.APPLIED


def _enrol(change: Change, fact: Enrol, now: datetime) -> Verdict:
    change.record("robot.enrolled", name=fact.name, site_id=fact.site_id, brand_id=fact.brand_id)
    return Verdict.APPLIED


def _edit(change: Change, fact: Edit, now: datetime) -> Verdict:
    new = {"name": fact.name, "site_id": fact.site_id, "brand_id": fact.brand_id}
    changed = {column: value for column, value in new.items() if getattr(change.row, column) != value}
    if not changed:
        return Verdict.REDUNDANT
    change.record("robot.edited", **changed)
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
    stop = fact.kind == HoldKind.STOPPED
    if stop and _open(change, HoldKind.STOPPED):
        change.record("robot.stop_repeated", by=fact.by)
    else:
        hold = {
            "number": change.row.version + 1, "kind": fact.kind, "why": fact.why, "by": fact.by, "since": now,
            "until": fact.until, "mission": fact.mission, "dispatch_no": fact.dispatch_no,
        }  # fmt: skip
        change.record("robot.hold_opened", holds=[hold], kind_word=HoldKind(fact.kind).label.lower(), why=fact.why)
    if stop:
        change.commands.append(command(change, "robot.stop", change.row.pk, data={"why": fact.why}))
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
    _lift(change, holds, fact.by, now)
    if any(h.kind == HoldKind.STOPPED for h in holds):  # no more than one is open
        change.commands.append(command(change, "robot.release", change.row.pk))
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
    Retire: _retire,
    Reinstate: _reinstate,
    HoldBack: _hold_back,
    Release: _release,
    StopConfirmed: _stop_confirmed,
    IssueCredential: _issue,
    RevokeCredential: _revoke,
}


def _open(change: Change, kind: str) -> list[Any]:
    return [h for h in change.children["holds"].values() if h.kind == kind and h.released_at is None]


def _lift(change: Change, holds: list[Any], by: str, now: datetime) -> None:
    change.record(
        "robot.hold_released",
        holds=[{"number": hold.number, "released_at": now, "released_by": by} for hold in holds],
        released_by=by,
    )


def _lift_unconfirmed(change: Change, mission: UUID, dispatch_no: int | None, now: datetime) -> Verdict:
    """The only hold that lifts by itself: the robot's word about that very dispatch."""
    holds = [h for h in _open(change, HoldKind.UNCONFIRMED) if (h.mission, h.dispatch_no) == (mission, dispatch_no)]
    if not holds:
        return Verdict.REDUNDANT
    _lift(change, holds, "the robot's word", now)
    return Verdict.APPLIED
