"""What no receiver took for a day becomes a dead letter, and gets to know what became of it when it is requeued."""

from datetime import datetime
from typing import Any
from uuid import UUID

from missions.models import DeadLetter, Direction, LetterState, Mission
from telemetry import metrics
from telemetry.out import webhooks
from telemetry.out.models import Sending
from telemetry.out.payload import payload
from telemetry.out.wanted import KEEP_TRYING

TAKEN = "The receiver has taken it."


def msg_id_of(sending: Sending) -> UUID:
    """The same for the same event to the same webhook: given up twice, it is one letter."""
    return UUID(int=sending.webhook_id << 64 | (sending.event_id or 0))


def bury(sendings: list[Sending], why: str, now: datetime) -> None:
    """Inside the caller's transaction. Those that were requeued before have failed again."""
    known = set(
        DeadLetter.objects.filter(direction=Direction.HOOK, msg_id__in=[msg_id_of(s) for s in sendings]).values_list(
            "msg_id", flat=True
        )
    )
    again = [s for s in sendings if msg_id_of(s) in known]
    robots = _robots(sendings)
    letters = [
        DeadLetter(
            direction=Direction.HOOK, robot_id=robots.get(s.aggregate, ""), msg_id=msg_id_of(s), kind=s.kind, tries=s.tries,
            body=_body(s), reason=f"the webhook “{s.webhook}” did not take it: {why}", created_at=now,
        )
        for s in sendings
        if msg_id_of(s) not in known
    ]  # fmt: skip
    DeadLetter.objects.bulk_create(letters, ignore_conflicts=True)
    metrics.DEAD_LETTERS.labels(Direction.HOOK.value).inc(len(letters))
    for one in again:
        _settle(one, LetterState.FAILED, f"It failed again: {why}", now)


def settle_taken(sending: Sending, now: datetime) -> None:
    """It was taken; if it had been given up before, its letter says so."""
    if sending.give_up_at - sending.created_at > KEEP_TRYING:
        _settle(sending, LetterState.APPLIED, TAKEN, now)


def open_again(letter: DeadLetter) -> None:
    """Hook of `missions.letter_actions`: send it again. Raises `Refused`."""
    webhook, event = divmod(letter.msg_id.int, 1 << 64)
    webhooks.send_again(Sending.objects.filter(webhook=webhook, event_id=event).first())


def _settle(sending: Sending, state: str, result: str, now: datetime) -> None:
    letter = DeadLetter.objects.filter(direction=Direction.HOOK, msg_id=msg_id_of(sending), state=LetterState.REQUEUED)
    letter.update(state=state, result=result, settled_at=now)


def _robots(sendings: list[Sending]) -> dict[str, str]:
    """Aggregate → the robot that it is about, if any: who may see the robot may see the letter."""
    missions = [s.aggregate.partition(":")[2] for s in sendings if s.aggregate.startswith("mission:")]
    found = Mission.objects.filter(pk__in=missions).exclude(robot=None).values_list("pk", "robot_id")
    named: dict[str, Any] = {f"mission:{pk}": robot for pk, robot in found}
    return named | {s.aggregate: s.aggregate[6:] for s in sendings if s.aggregate.startswith("robot:")}


def _body(sending: Sending) -> str:
    try:
        return payload(sending).decode()
    except LookupError:
        return ""
