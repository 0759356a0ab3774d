"""What no receiver took for a day becomes a dead letter, and gets to know what became of it when it is requeued."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from fleet.refusals import Refused
from missions.models import DeadLetter, Direction, LetterState, Mission
from telemetry import metrics
from telemetry.out.models import Sending, SendState, Webhook
from telemetry.out.webhooks.payload import payload
from telemetry.out.webhooks.wanted import KEEP_TRYING

TAKEN = "The receiver has taken it."
AGAIN = timedelta(seconds=1)  # by so much at least one that was requeued differs from the others


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


def fail_waiting(webhook_id: int, why: str, now: datetime) -> None:
    """Of those that wait, what was requeued is given up again: its letter must not wait for ever. Inside the caller's transaction."""
    waiting = Sending.objects.filter(webhook=webhook_id, state=SendState.OPEN, event_id__isnull=False)
    for one in waiting.filter(give_up_at__gt=F("created_at") + KEEP_TRYING).order_by("event_id"):
        give_up(one, SendState.DEAD, why, now)


def give_up(sending: Sending, state: str, why: str, now: datetime) -> None:
    """It is not sent, whatever its receiver says; if it was requeued, its letter says so."""
    Sending.objects.filter(pk=sending.pk, state=SendState.OPEN).update(state=state, answer=why)
    _settle(sending, LetterState.FAILED, f"It failed again: {why}", now)


def open_again(letter: DeadLetter) -> None:
    """Hook of `missions.letters.actions`: send it again, for another day. Raises `Refused` when nobody wants it any more."""
    now = timezone.now()
    webhook_id, event = divmod(letter.msg_id.int, 1 << 64)
    # locked: what is open when it is switched off is given up by whoever does it
    webhook = Webhook.objects.select_for_update(no_key=True).filter(pk=webhook_id).first()
    sending = Sending.objects.filter(webhook=webhook_id, event_id=event).first()
    if webhook is None or sending is None or sending.state == SendState.DROPPED:
        raise Refused("It is not kept any more: it is too long ago. Discard it, with a word about it.")
    if not webhook.enabled:
        raise Refused(f"“{webhook}” is switched off. Switch it on first.")
    Sending.objects.filter(pk=sending.pk, state=SendState.DEAD).update(
        state=SendState.OPEN, tries=0, due_at=now, give_up_at=max(now, sending.created_at + AGAIN) + KEEP_TRYING
    )


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
