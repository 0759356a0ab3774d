"""What follows from a receiver's answer: taken, tried again later, or given up; a receiver in trouble rests, and is said."""

import logging
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F

from fleet.alerts.actions import clear_alert, raise_alert
from fleet.models import Alert, Severity
from telemetry.out.models import Sending, SendState, Webhook, WebhookLane
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks import undelivered
from telemetry.out.webhooks.posting import Answer

MOST_WAIT_S = 3600
FAILING_S = 300.0  # then somebody is told
SUSPEND_AFTER = timedelta(hours=24)
ABOUT_THE_EVENT = {400, 413, 422}  # the receiver is well and does not want this one
CHUNK = 500

log = logging.getLogger(__name__)


def wait_s(failures: int) -> int:
    """1-2-4-8-16 s, doubled on, at most an hour."""
    return int(min(MOST_WAIT_S, 2 ** min(max(failures, 1) - 1, 20)))


def note(sending: Sending, answer: Answer, now: datetime, took_ms: int) -> None:
    """Write down what came of one try."""
    taken = 200 <= answer.status < 300
    sending.tries += 1
    said = {
        "tries": sending.tries, "tried_at": now, "took_ms": took_ms, "status": answer.status or None, "answer": answer.text,
    }  # fmt: skip
    mine = Sending.objects.filter(pk=sending.pk, state=SendState.OPEN)  # not dropped meanwhile
    if sending.event_id is None:
        mine.update(state=SendState.DELIVERED if taken else SendState.DEAD, **said)
    elif taken:
        with transaction.atomic():
            mine.update(state=SendState.DELIVERED, **said)
            undelivered.settle_taken(sending, now)
        _well(sending.webhook, now)
    else:
        log.info("webhook %d: event %s not taken, try %d: %s", sending.webhook_id, sending.event_id, sending.tries,
                 answer.status or answer.text)  # fmt: skip
        with transaction.atomic():
            if now < sending.give_up_at:
                mine.update(due_at=now + timedelta(seconds=wait_s(sending.tries)), **said)
            elif mine.update(state=SendState.DEAD, **said):
                undelivered.bury([sending], _why(answer), now)
            if answer.status not in ABOUT_THE_EVENT:
                _rest(sending.webhook, answer, now)
        _say(sending.webhook, _why(answer), now)


def _why(answer: Answer) -> str:
    return f"it answers {answer.status}" if answer.status else answer.text


def _well(webhook: Webhook, now: datetime) -> None:
    lane = WebhookLane.objects.filter(pk=webhook.pk)
    failing = lane.exclude(failing_since=None).exists()
    lane.update(failures=0, failing_since=None, rests_until=None, delivered_at=now)
    if failing:  # what waited for it has waited enough
        Sending.objects.filter(webhook=webhook, state=SendState.OPEN, due_at__gt=now).update(due_at=now)
        clear_alert(webhooks.failing(webhook.pk), now=now)


def _rest(webhook: Webhook, answer: Answer, now: datetime) -> None:
    lane = WebhookLane.objects.select_for_update().get(pk=webhook.pk)
    pause = max(wait_s(lane.failures + 1), min(answer.later_s, MOST_WAIT_S))
    WebhookLane.objects.filter(pk=webhook.pk).update(
        failures=F("failures") + 1, failing_since=lane.failing_since or now, rests_until=now + timedelta(seconds=pause)
    )


def _say(webhook: Webhook, why: str, now: datetime) -> None:
    """An alert after a while; after a day without one success it is switched off."""
    since = WebhookLane.objects.filter(pk=webhook.pk).values_list("failing_since", flat=True).first()
    if since is None or (now - since).total_seconds() < FAILING_S:
        return
    host, cause = urlsplit(webhook.url).hostname, webhooks.failing(webhook.pk)
    if now - since >= SUSPEND_AFTER:
        _suspend(webhook, f"{host} took nothing for a day: {why}", now)
    elif not Alert.objects.filter(cause=cause, cleared_at=None).exists():
        text = f"The webhook “{webhook}” fails: {host} took nothing since {since:%H:%M} UTC ({why}). Events wait, for a day"
        raise_alert(cause, severity=Severity.WARNING, text=text, site=webhook.site_id, now=now)


def _suspend(webhook: Webhook, why: str, now: datetime) -> None:
    """Switch it off; all that waits is given up, so that it does not grow for ever."""
    with transaction.atomic():
        if not webhooks.suspend(webhook.pk, why=why):
            return
        waiting = Sending.objects.filter(webhook=webhook, state=SendState.OPEN, event_id__isnull=False)
        while chunk := list(waiting.select_related("webhook").order_by("event_id")[:CHUNK]):
            undelivered.bury(chunk, why, now)
            Sending.objects.filter(pk__in=[one.pk for one in chunk]).update(state=SendState.DEAD, answer=why)
        clear_alert(webhooks.failing(webhook.pk), now=now)
        text = f"The webhook “{webhook}” is switched off: {why}. Switch it on when its receiver is well"
        raise_alert(
            f"webhook_off:{webhook.pk}",
            severity=Severity.WARNING,
            text=text,
            site=webhook.site_id,
            lasts=False,
            now=now,
        )
