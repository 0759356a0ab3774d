"""`manage.py worker`: one worker process. Start as many as you like; they share the partitions out."""

import logging
import signal
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection
from django.db.backends.signals import connection_created

from fleet.running import startup
from telemetry.keeping.tidying import Tidying
from telemetry.metrics import REGISTRY
from telemetry.watching.scrape import export
from telemetry.watching.site_gauges import Site
from telemetry.watching.watch import Beside, Watch
from telemetry.worker.loop import Worker
from telemetry.worker.process import prepare, settle

PATIENCE_S = 10.0
BESIDE_S = 3.0  # how often Drover is looked after
log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Apply what robots say, fire deadlines, judge links. Ends within a second on SIGTERM."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        connection_created.connect(prepare, dispatch_uid="worker.prepare")
        worker = Worker()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stopping.set())
        _wait_until_sound(worker)
        REGISTRY.register(Site(lambda: 0 in worker.fences))
        exporter = export("worker")
        tidying = Tidying(rest=worker.stopping.wait)
        for name, step in (("watch", Watch(worker.partitions.owner).step), ("tidying", tidying.step)):
            Beside(name, step, BESIDE_S, worker.stopping).start()
        settle()
        try:
            worker.run()
        finally:
            if exporter:
                exporter.stop()


def _wait_until_sound(worker: Worker) -> None:
    """A worker may start before the database is up and migrated; one that waits too long says why and ends."""
    patience = time.monotonic() + PATIENCE_S
    while startup.problems() and time.monotonic() < patience and not worker.stopping.is_set():
        connection.close()
        worker.stopping.wait(0.5)
    if not worker.stopping.is_set():
        startup.check()
