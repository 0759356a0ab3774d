"""Sends what waits for one webhook: in order, each until it is taken or a day has passed.

A receiver that is in trouble rests (1-2-4-8-16 s and so on, at most an hour) with all that waits for it. What is wrong
with one event holds up only what comes after it about the same thing.
"""

import time
from collections.abc import Callable
from datetime import datetime

from django.db import connection

from telemetry.out.models import Sending, SendState, Webhook, WebhookLane
from telemetry.out.webhooks import outcomes, undelivered
from telemetry.out.webhooks.payload import key_of, payload
from telemetry.out.webhooks.posting import Connection
from telemetry.out.webhooks.signing import HEADER, signature

AGENT = "Drover (webhook)"

_NEXT = """SELECT s.id FROM telemetry_sending s WHERE s.webhook_id = %s AND s.state = 'open' AND s.event_id IS NOT NULL
 AND s.due_at <= %s AND NOT EXISTS (SELECT FROM telemetry_sending b WHERE b.webhook_id = s.webhook_id AND b.state = 'open'
 AND b.aggregate = s.aggregate AND b.event_id < s.event_id) ORDER BY s.event_id LIMIT 1"""


class Lane:
    """One webhook's way out. `step` sends one thing; for one thread at a time."""

    def __init__(self, webhook_id: int, connect: Callable[[str], Connection] = Connection) -> None:
        self.webhook_id = webhook_id
        self._connect = connect
        self._connection: Connection | None = None

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
            undelivered.give_up(sending, SendState.DROPPED, "The event is not there.", now)
            return True
        headers = {
            "Content-Type": "application/json", "User-Agent": AGENT, "Drover-Event": key_of(sending),
            "Drover-Kind": sending.kind, "Drover-Try": str(sending.tries + 1),
            HEADER: signature(webhook.secret, body, int(now.timestamp())),
        }  # fmt: skip
        began = time.monotonic()
        answer = self._to(webhook.url).post(body, headers)
        outcomes.note(sending, answer, now, int((time.monotonic() - began) * 1000))
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _to(self, url: str) -> Connection:
        if self._connection is None or self._connection.url != url:
            self.close()
            self._connection = self._connect(url)
        return self._connection

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
