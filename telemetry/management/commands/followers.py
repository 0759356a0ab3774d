"""`manage.py followers`: statistics, webhooks and e-mail about alerts, beside the worker and never in its way.

More than one may run; they share the work out. When none runs, everything else goes on, and what they would have done
is done later.
"""

import logging
import signal
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

from fleet.running import startup
from telemetry.out.followers import loops
from telemetry.out.waking import Waker

PATIENCE_S = 10.0
log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Follow the events: count statistics, send webhooks and e-mail. Ends at once on SIGTERM."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        patience = time.monotonic() + PATIENCE_S
        while startup.problems() and time.monotonic() < patience and not stopping.is_set():
            connection.close()
            stopping.wait(0.5)
        if stopping.is_set():
            return
        startup.check()
        running = loops(stopping)
        for thread in (*running, Waker(running, stopping)):
            thread.start()
        log.info("following the events: %s", ", ".join(loop.name for loop in running))
        stopping.wait()
