"""Sends what waits for one webhook: in order, each until it is taken or a day has passed.

A receiver that is in trouble rests (1-2-4-8-16 s and so on, at most an hour) with all that waits for it. What is wrong
with one event holds up only what comes after it about the same thing.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import connection, transaction
from django.db.models import F

from fleet.alerts import clear_alert, raise_alert
from fleet.models import Alert, Severity
from telemetry.out import webhooks
from telemetry.out.models import Sending, SendState, Webhook, WebhookLane
from telemetry.out.payload import key_of, payload
from telemetry.out.posting import Answer, Line
from telemetry.out.signing import HEADER, signature

MOST_WAIT_S = 3600
FAILING_S = 300.0  # then somebody is told
SUSPEND_AFTER = timedelta(hours=24)
ABOUT_THE_EVENT = {400, 413, 422}  # the receiver is well and does not want this one
AGENT = "Drover (webhook)"

log = logging.getLogger(__name__)
_NEXT = """SELECT s.id FROM telemetry_sending s WHERE s.webhook_id = %s AND s.state = 'open' AND s.event_id IS NOT NULL
 AND s.due_at <= %s AND NOT EXISTS (SELECT FROM telemetry_sending b WHERE b.webhook_id = s.webhook_id AND b.state = 'open'
 AND b.aggregate = s.aggregate AND b.event_id < s.event_id) ORDER BY s.event_id LIMIT 1"""


def wait_s(failures: int) -> int:
    """1-2-4-8-16 s, doubled on, at most an hour."""
    return int(min(MOST_WAIT_S, 2 ** min(max(failures, 1) - 1, 20)))


class Lane:
    """One webhook's way out. `step` sends one thing; for one thread at a time."""

    def __init__(self, webhook_id: int, line: Callable[[str], Line] = Line) -> None:
        self.webhook_id = webhook_id
        self._make, self._line = line, None

    def step(self, now: datetime) -> bool:
        """Send the next. Says whether there was one. Outside of any transaction: a receiver may take its time."""
        webhook = Webhook.objects.filter(pk=self.webhook_id).first()
        sending = webhook and self._next(webhook, now)
        if not webhook or not sending:
            return False
        sending.webhook = webhook
        try:
            body = payload(sending)
        except LookupError:  # restored without its event
            Sending.objects.filter(pk=sending.pk).update(state=SendState.DROPPED, answer="The event is not there.")
            return True
        headers = {
            "Content-Type": "application/json", "User-Agent": AGENT, "Drover-Event": key_of(sending),
            "Drover-Kind": sending.kind, "Drover-Try": str(sending.tries + 1),
            HEADER: signature(webhook.secret, body, int(now.timestamp())),
        }  # fmt: skip
        began = time.monotonic()
        answer = self._to(webhook.url).post(body, headers)
        self._note(webhook, sending, answer, now, int((time.monotonic() - began) * 1000))
        return True

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _to(self, url: str) -> Line:
        if self._line is None or self._line.url != url:
            self.close()
            self._line = self._make(url)
        return self._line

    def _next(self, webhook: Webhook, now: datetime) -> Sending | None:
        tests = Sending.objects.filter(webhook=webhook, event_id=None, state=SendState.OPEN, due_at__lte=now)
        if test := tests.order_by("id").first():
            return test
        if not webhook.enabled or WebhookLane.objects.filter(pk=webhook.pk, rests_until__gt=now).exists():
            return None
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [webhook.pk, now])
            row = cursor.fetchone()
        return Sending.objects.get(pk=row[0]) if row else None

    def _note(self, webhook: Webhook, sending: Sending, answer: Answer, now: datetime, took_ms: int) -> None:
        taken = 200 <= answer.status < 300
        said = {
            "tries": sending.tries + 1, "tried_at": now, "took_ms": took_ms, "status": answer.status or None,
            "answer": answer.text,
        }  # fmt: skip
        mine = Sending.objects.filter(pk=sending.pk, state=SendState.OPEN)  # not dropped meanwhile
        if sending.event_id is None:
            mine.update(state=SendState.DELIVERED if taken else SendState.DEAD, **said)
        elif taken:
            mine.update(state=SendState.DELIVERED, **said)
            self._well(webhook, now)
        else:
            log.info("webhook %d: event %s not taken, try %d: %s", webhook.pk, sending.event_id, said["tries"],
                     answer.status or answer.text)  # fmt: skip
            with transaction.atomic():
                if now >= sending.give_up_at:
                    self._give_up(mine, said, webhook, answer, now)
                else:
                    mine.update(due_at=now + timedelta(seconds=wait_s(sending.tries + 1)), **said)
                if answer.status not in ABOUT_THE_EVENT:
                    self._rest(webhook, answer, now)
            self._told(webhook, answer, now)

    def _well(self, webhook: Webhook, now: datetime) -> None:
        lane = WebhookLane.objects.filter(pk=webhook.pk)
        failing = lane.exclude(failing_since=None).exists()
        lane.update(failures=0, failing_since=None, rests_until=None, delivered_at=now)
        if failing:  # what waited for it has waited enough
            Sending.objects.filter(webhook=webhook, state=SendState.OPEN, due_at__gt=now).update(due_at=now)
            clear_alert(webhooks.failing(webhook.pk), now=now)

    def _rest(self, webhook: Webhook, answer: Answer, now: datetime) -> None:
        lane = WebhookLane.objects.select_for_update().get(pk=webhook.pk)
        pause = max(wait_s(lane.failures + 1), min(answer.later_s, MOST_WAIT_S))
        WebhookLane.objects.filter(pk=webhook.pk).update(
            failures=F("failures") + 1, failing_since=lane.failing_since or now,
            rests_until=now + timedelta(seconds=pause),
        )  # fmt: skip

    def _give_up(self, mine: object, said: dict[str, object], webhook: Webhook, answer: Answer, now: datetime) -> None:
        mine.update(state=SendState.DEAD, **said)  # type: ignore[attr-defined]

    def _told(self, webhook: Webhook, answer: Answer, now: datetime) -> None:
        """An alert after a while; after a day without one success it is switched off."""
        since = WebhookLane.objects.filter(pk=webhook.pk).values_list("failing_since", flat=True).first()
        if since is None or (now - since).total_seconds() < FAILING_S:
            return
        host, why = urlsplit(webhook.url).hostname, answer.text if not answer.status else f"it answers {answer.status}"
        cause, site = webhooks.failing(webhook.pk), webhook.site_id
        if now - since >= SUSPEND_AFTER and webhooks.suspend(webhook.pk, why=f"{host} took nothing for a day: {why}"):
            clear_alert(cause, now=now)
            text = f"The webhook “{webhook}” is switched off: {host} took nothing for a day ({why}). Switch it on when it is well"
            raise_alert(
                f"webhook_off:{webhook.pk}", severity=Severity.WARNING, text=text, site=site, lasts=False, now=now
            )
            return
        if not Alert.objects.filter(cause=cause, cleared_at=None).exists():
            text = f"The webhook “{webhook}” fails: {host} took nothing since {since:%H:%M} UTC ({why}). Events wait, for a day"
            raise_alert(cause, severity=Severity.WARNING, text=text, site=site, now=now)
