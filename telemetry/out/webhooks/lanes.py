"""A thread for each webhook that has something to send, so that a slow receiver holds up nobody but itself."""

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import connection
from django.utils import timezone

from telemetry.out.webhooks.sending import Lane

_LOCK = 0x0D0A1F  # advisory lock, with the webhook's key: one process sends for it
_DUE = """SELECT w.id FROM telemetry_webhook w LEFT JOIN telemetry_webhooklane l ON l.webhook_id = w.id WHERE
 EXISTS (SELECT FROM telemetry_sending s WHERE s.webhook_id = w.id AND s.state = 'open' AND s.event_id IS NULL AND s.due_at <= %s)
 OR (w.enabled AND coalesce(l.rests_until <= %s, TRUE) AND EXISTS
 (SELECT FROM telemetry_sending s WHERE s.webhook_id = w.id AND s.state = 'open' AND s.event_id IS NOT NULL AND s.due_at <= %s))"""

log = logging.getLogger(__name__)


def due(now: datetime) -> list[int]:
    """Webhooks that have something to send now."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [now, now, now])
        return [pk for (pk,) in cursor.fetchall()]


class Lanes:
    """`step` starts what has to run and waits for nothing."""

    def __init__(self, clock: Callable[[], datetime] = timezone.now) -> None:
        self._clock = clock
        self._running: dict[int, threading.Thread] = {}

    def step(self, now: datetime) -> bool:
        self._running = {pk: thread for pk, thread in self._running.items() if thread.is_alive()}
        for pk in due(now):
            if pk not in self._running:
                thread = threading.Thread(target=self._run, args=(pk,), name=f"webhook {pk}", daemon=True)
                self._running[pk] = thread
                thread.start()
        return False

    def join(self, timeout_s: float) -> None:
        for thread in self._running.values():
            thread.join(timeout_s)

    def _run(self, pk: int) -> None:
        lane = Lane(pk)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK, pk])
                if not cursor.fetchone()[0]:
                    return  # another process is at it; its lock ends with its connection
            while lane.step(self._clock()):
                pass
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK, pk])
        except Exception as error:  # a thread that ends: what waits is due again, and tried by another
            log.warning("webhook %d rests: %s", pk, error)
        finally:
            lane.close()
            connection.close()
