"""Dead letters as rows: what could not be delivered becomes one, and what was requeued gets to know what became of it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef

from fleet.models import Command, CommandState
from fleet.verdict import Verdict
from missions.models import DeadLetter, Direction, LetterState

SAYS: dict[str, str] = {  # verdict of a letter that was requeued → what became of it
    Verdict.APPLIED: "It was applied.",
    Verdict.STALE: "It was taken, and changed nothing: it is stale, of another dispatch or overtaken by newer words.",
    Verdict.LATE: "It was taken, too late to change the state of its mission, and is kept in the mission's history.",
    Verdict.REDUNDANT: "It was taken, and said nothing new.",
}


def bury_command(command: Command, reason: str, tries: int, now: datetime) -> None:
    """A command that is given up. One that was requeued before has failed again."""
    again: dict[str, Any] = {"reason": reason, "tries": tries}
    DeadLetter.objects.update_or_create(
        direction=Direction.OUT, robot_id=command.robot_id, msg_id=command.pk,
        defaults={**again, "state": LetterState.FAILED, "result": f"It failed again: {reason}", "settled_at": now},
        create_defaults={**again, "kind": command.kind, "body": command.body, "created_at": now},
    )  # fmt: skip


def claim(letters: list[int]) -> set[int]:
    """Which of these letters of robots are to be applied, locked until the end of the transaction: each once."""
    waiting = DeadLetter.objects.filter(pk__in=letters, state=LetterState.REQUEUED, direction=Direction.IN)
    return set(waiting.order_by("pk").select_for_update().values_list("pk", flat=True))


TAKEN = {
    CommandState.DELIVERED: "The robot has taken it.",
    CommandState.WITHDRAWN: "It was withdrawn meanwhile: nobody wants it any more.",
}


def settle_commands(now: datetime) -> None:
    """Requeued commands that a robot has taken, or that nobody wants any more. Looked for now and then: nothing hangs on it."""
    for state, result in TAKEN.items():
        gone = Command.objects.filter(pk=OuterRef("msg_id"), state=state)
        DeadLetter.objects.filter(Exists(gone), state=LetterState.REQUEUED, direction=Direction.OUT).update(
            state=LetterState.APPLIED, result=result, settled_at=now
        )


class Settled(NamedTuple):
    """What became of a requeued letter: the verdict or, if it failed again, the reason. `says` is where things stand."""

    letter: int
    verdict: str
    reason: str
    tries: int
    says: str = ""


def settle(found: Iterable[Settled], now: datetime) -> None:
    """Of claimed letters, in the transaction that applied them."""
    for one in found:
        if one.reason:
            DeadLetter.objects.filter(pk=one.letter).update(
                state=LetterState.FAILED, result=f"It failed again: {one.reason}", reason=one.reason, tries=one.tries,
                settled_at=now,
            )  # fmt: skip
        else:
            result = f"{SAYS.get(one.verdict, one.verdict)} {one.says}".strip()
            DeadLetter.objects.filter(pk=one.letter).update(state=LetterState.APPLIED, result=result, settled_at=now)
