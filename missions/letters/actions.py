"""What people can do with dead letters: requeue and discard. Each leaves an event of `letter:<id>` that says who and why.

Both are idempotent: five clicks, or two people at once, have one effect, and everybody is told what it was.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from fleet.columns import accepted_text
from fleet.commit import commit, load, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Command, CommandState, Robot
from fleet.refusals import Refused
from fleet.wording import clock
from missions.models import FINAL, DeadLetter, Direction, LetterState, Mission

REOPEN: dict[str, Callable[[DeadLetter], None]] = {}  # direction → how it is sent again, where missions does not know


def requeue_letter(letter_id: int, *, by: Origin) -> str:
    """Have it applied, or sent, once more: `requeued`, `requeued already` or `applied already`."""
    now = timezone.now()
    with transaction.atomic():
        mission = _mission_of(letter_id)
        letter = _locked(letter_id)
        if letter.state in _DONE:
            return _DONE[LetterState(letter.state)]
        if letter.state == LetterState.DISCARDED:
            raise Refused(
                f"{letter.discarded_by} discarded it, {clock(letter.discarded_at)}: {letter.discarded_why}. It stays so."
            )
        if not letter.body:
            raise Refused("There is no message to apply: it never came. Discard it, with a word about it.")
        if letter.direction == Direction.OUT:
            _open_again(letter, mission)
        elif letter.direction in REOPEN:
            REOPEN[letter.direction](letter)
        said = {"requeued_at": now, "requeued_by": by.actor_name}
        change = _decision(letter, by, now)
        change.record("letter.requeued", **_about(letter), requeues=change.row.requeues + 1, **said)
        commit([change], now=now)
        _write(letter, state=LetterState.REQUEUED, result="", settled_at=None, stored_at=None, **said)
    return "requeued"


def discard_letter(letter_id: int, *, by: Origin, why: str) -> str:
    """Nothing is to be done about it: `discarded`, or `discarded already`."""
    why = accepted_text(why.strip())
    if not why:
        raise Refused("reason: Say why nothing is to be done about it. Who looks later will ask.")
    now = timezone.now()
    with transaction.atomic():
        letter = _locked(letter_id)
        if letter.state == LetterState.DISCARDED:
            return "discarded already"
        if letter.state == LetterState.APPLIED:
            raise Refused("It was requeued and applied: there is nothing left to discard.")
        if letter.state == LetterState.REQUEUED:
            raise Refused(f"{letter.requeued_by} has requeued it. See what becomes of it first.")
        said = {"discarded_at": now, "discarded_by": by.actor_name, "discarded_why": why}
        change = _decision(letter, by, now)
        change.record("letter.discarded", **_about(letter), **said)
        commit([change], now=now)
        _write(letter, state=LetterState.DISCARDED, **said)
    return "discarded"


def why_not_requeued(letter: DeadLetter) -> str:
    """Why nobody can requeue this command now; empty when one may try. Nothing is locked: the page only offers by it."""
    command = Command.objects.filter(pk=letter.msg_id).first() if letter.direction == Direction.OUT else None
    mission = Mission.objects.filter(pk=command.mission).first() if command and command.mission else None
    try:
        if command and mission:
            _still_wanted(command, mission)
    except Refused as refused:
        return str(refused)
    return ""


_DONE = {LetterState.REQUEUED: "requeued already", LetterState.APPLIED: "applied already"}


def _locked(letter_id: int) -> DeadLetter:
    letter = DeadLetter.objects.select_for_update().filter(pk=letter_id).first()
    if letter is None:
        raise Refused("It is no longer kept: dead letters are deleted when they are old.")
    return letter


def _mission_of(letter_id: int) -> Mission | None:
    """Of a command, locked: before its letter, as whoever gives a command up does."""
    out = DeadLetter.objects.filter(pk=letter_id, direction=Direction.OUT).values_list("msg_id", flat=True).first()
    key = Command.objects.filter(pk=out).values_list("mission", flat=True).first() if out else None
    return Mission.objects.select_for_update().filter(pk=key).first() if key else None


def _open_again(letter: DeadLetter, mission: Mission | None) -> None:
    """The same command, with the same msg_id, is to be sent; refused when nobody wants it any more."""
    command = Command.objects.select_for_update().filter(pk=letter.msg_id).first()
    if command is None:
        raise Refused("The command is no longer kept. Make a new one: rerun the mission, or stop the robot again.")
    if mission is None and Robot.objects.filter(pk=command.robot_id, retired_at__isnull=False).exists():
        raise Refused("Its robot is retired. Put it back in service first.")
    if mission is not None:
        _still_wanted(command, mission)
    if command.state != CommandState.DEAD:
        raise Refused(f"The command is {command.get_state_display().lower()}, not a dead letter.")
    Command.objects.filter(pk=command.pk).update(state=CommandState.OPEN, delivered_at=None)


def _still_wanted(command: Command, mission: Mission) -> None:
    if mission.state in FINAL:
        state = mission.get_state_display().lower()
        raise Refused(f"“{mission.title}” has ended ({state}), and nothing revives it. Rerun it from its page.")
    if mission.stop_requested_at:
        raise Refused(f"“{mission.title}” is being stopped. When it has ended, rerun it from its page.")
    if command.dispatch_no != mission.dispatch_no:
        raise Refused(f"“{mission.title}” was dispatched again since: this command belongs to an earlier dispatch.")


def _decision(letter: DeadLetter, by: Origin, now: datetime) -> Change:
    aggregate = AGGREGATES["letter"]
    change = load(aggregate, [letter.pk]).get(letter.pk) or new(aggregate, letter.pk)
    change.origin, change.now = by, now
    return change


def _about(letter: DeadLetter) -> dict[str, Any]:
    """Which letter it is, at the first decision and whenever its robot has moved: the letter itself is deleted some day."""
    site = Robot.objects.filter(pk=letter.robot_id).values_list("site_id", flat=True).first()
    return {
        "site_id": site, "direction": letter.direction, "robot_id": letter.robot_id, "msg_id": letter.msg_id,
        "what": letter.kind,
    }  # fmt: skip


def _write(letter: DeadLetter, **columns: Any) -> None:
    DeadLetter.objects.filter(pk=letter.pk).update(**columns)
