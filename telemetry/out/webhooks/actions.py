"""What people can do with webhooks. Each verb is one transaction; each but the test leaves an event that says who."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from fleet.alerts.actions import clear_alert
from fleet.columns import checked_name
from fleet.commit import commit, new, next_pk
from fleet.history import AGGREGATES, Change, Origin
from fleet.locked import one
from fleet.refusals import Refused
from telemetry.out.models import Sending, SendState, Webhook, WebhookLane
from telemetry.out.webhooks import rules, undelivered
from telemetry.out.webhooks.addresses import checked_url
from telemetry.out.webhooks.signing import new_secret
from telemetry.out.webhooks.wanted import TEST, matching

MOST = 100  # webhooks: each that has something to send has a thread


def create_webhook(*, name: str, url: str, site: int | None, kinds: Iterable[str], by: Origin) -> Webhook:
    """A new webhook, switched on. Its `secret` is to be shown once."""
    fact = rules.Set(_checked(name, url, site, kinds), new_secret())
    with transaction.atomic():
        if Webhook.objects.count() >= MOST:
            raise Refused(f"There are {MOST} webhooks already. Give one that is no longer needed another address.")
        change = new(AGGREGATES["webhook"], next_pk(Webhook))
        _tell(change, fact, by)
        WebhookLane.objects.create(webhook_id=change.row.pk)
    return change.row  # type: ignore[no-any-return]


def edit_webhook(pk: int, *, name: str, url: str, site: int | None, kinds: Iterable[str], by: Origin) -> None:
    """What waits goes to the new address as well."""
    _change(pk, rules.Set(_checked(name, url, site, kinds)), by)
    _afresh(pk)


def enable_webhook(pk: int, *, by: Origin) -> bool:
    """Events from now on are for it. False when it was on."""
    with transaction.atomic():
        changed = _change(pk, rules.Enable(), by)
        if changed:
            drop_waiting(pk)
            _afresh(pk)
    return changed


def disable_webhook(pk: int, *, by: Origin) -> bool:
    """What waits is not sent any more. False when it was off."""
    with transaction.atomic():
        changed = _change(pk, rules.Disable(), by)
        if changed:
            drop_waiting(pk)
    if changed:
        clear_alert(failing(pk))
    return changed


def renew_secret(pk: int, *, by: Origin) -> str:
    """The new secret, to be shown once."""
    secret = new_secret()
    _change(pk, rules.Renew(secret), by)
    return secret


def send_test(pk: int, *, now: datetime | None = None) -> None:
    """A test event goes out at once, before all that waits, and once."""
    now = now or timezone.now()
    with transaction.atomic():
        one("webhook", pk)  # two clicks at once are one test
        if Sending.objects.filter(webhook=pk, event_id=None, state=SendState.OPEN).exists():
            raise Refused("A test event waits to be sent already. Is `manage.py followers` running?")
        Sending.objects.create(
            webhook_id=pk, kind=TEST, created_at=now, due_at=now, give_up_at=now + timedelta(seconds=1)
        )  # fmt: skip


def failing(pk: int) -> str:
    """Cause of the alert that its receiver does not take what is sent."""
    return f"webhook_failing:{pk}"


def drop_waiting(pk: int) -> None:
    """What is a dead letter already stays one; the rest is not sent, and nobody asks for it."""
    undelivered.fail_waiting(pk, "its webhook was switched off", timezone.now())
    Sending.objects.filter(webhook=pk, state=SendState.OPEN, event_id__isnull=False).update(state=SendState.DROPPED)


def _afresh(pk: int) -> None:
    """The receiver's failures of before say nothing about it any more."""
    WebhookLane.objects.filter(pk=pk).update(failures=0, failing_since=None, rests_until=None)


def _checked(name: str, url: str, site: int | None, kinds: Iterable[str]) -> dict[str, Any]:
    patterns = sorted(set(kinds))
    if not patterns:
        raise Refused("kinds: Choose at least one kind of event.")
    if unknown := next((p for p in patterns if not matching(p)), None):
        raise Refused(f"kinds: There is no event {unknown[:60]}. See docs/webhooks.md.")
    return {"name": checked_name("name", name), "url": checked_url(url), "site_id": site, "kinds": patterns}


def _change(pk: int, fact: Any, by: Origin) -> bool:
    with transaction.atomic():
        return _tell(one("webhook", pk), fact, by)


def _tell(change: Change, fact: Any, by: Origin) -> bool:
    now = timezone.now()
    change.origin = by
    rules.decide(change, fact, now)
    commit([change], now=now)
    return bool(change.events)


def suspend(pk: int, *, why: str) -> bool:
    """Drover itself switches it off; what waits is for the caller to give up. False when it was off."""
    return _change(pk, rules.Disable(why), Origin("policy", actor_name="policy"))
