"""The worker: applies what robots said, fires deadlines, steps the queue, judges links, passes events on. One loop of short steps.

Batch → decide → commit → acknowledge. A message is acknowledged only after its effect is committed, so a killed
worker loses nothing; the unique row (robot, msg_id) makes the second try harmless.
"""

import logging
import threading
import time
from datetime import datetime
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from fleet.alerts.actions import raise_alert
from fleet.models import Robot, Severity
from telemetry import clocks, metrics
from telemetry.clocks import Clocks
from telemetry.failures import Blame, blame, store_of
from telemetry.gateways.rows import send_back
from telemetry.out.relay import Relay
from telemetry.partitions import TEND_S, Partitions
from telemetry.stream import Streams, is_group_lost, partition_of
from telemetry.worker.batch import Hook
from telemetry.worker.due import Deadlines
from telemetry.worker.messages import BATCH, Messages
from telemetry.worker.presence import Sweep
from telemetry.worker.process import reconnect, unique_name
from telemetry.worker.queueing import Queue
from telemetry.worker.requeued import Requeued
from telemetry.worker.tails import Tails

BLOCK_MS = 200  # how long a read waits for something new
GRACE_S = 5.0  # after taking a partition or an outage, before silence counts: robots reconnect meanwhile
DUE_S, QUEUE_S, SWEEP_S, LOOK_S, TRIM_S = 0.25, 0.2, 1.0, 1.0, 30.0
REQUEUED_S = 1.0
RELAY_S = 0.05  # under load; at once when there is nothing else to do
BACKOFF_S = (0.1, 0.2, 0.5, 1.0)

log = logging.getLogger(__name__)


class Worker:
    """`step` is the whole of it; `run` repeats it until `stopping`.

    `hook` is called at before_decide, before_commit and before_ack. `grace_s`: see GRACE_S.
    """

    def __init__(
        self,
        *,
        name: str = "",
        count: int | None = None,
        hook: Hook = lambda where: None,
        grace_s: float = GRACE_S,
        limit: int = BATCH,
    ) -> None:
        self.streams = Streams(settings.REDIS_URL)
        self.partitions = Partitions(name or unique_name(), count or settings.PARTITIONS)
        self.deadlines = Deadlines(self.streams, Clocks(grace_s))
        self.queue = Queue()
        self.sweep = Sweep()
        self.requeued = Requeued(self.streams)
        self.tails = Tails()
        self.relay = Relay(self.streams.redis)
        self.grace_s = grace_s
        self.stopping = threading.Event()
        self.messages = Messages(
            self.streams, self.partitions, self.tails, answered=self.deadlines.inquiry.answered,
            stopping=self.stopping, hook=hook, limit=limit,
        )  # fmt: skip
        self.open_from: dict[int, float] = {}  # partition → tick from which silence counts
        self._settled_from: dict[int, float] = {}  # the same, as if the durable Redis had never been away
        self.pause_s = 0.0  # > 0: nothing can be read, rest this long after a step that found nothing
        self._groups_doubtful = True  # streams or their groups may not be there
        self._failures = 0
        self._next: dict[str, float] = {}

    @property
    def fences(self) -> dict[int, int]:
        return self.partitions.fences

    def run(self) -> None:
        """Work until told to stop, then give the partitions back."""
        while not self.stopping.is_set():
            found = self.step(*clocks.read())
            self._fetch(wait=not found)
        self.close()

    def _fetch(self, *, wait: bool) -> None:
        """What the next step will apply, read before that step's time is taken; waits for it if told to."""
        if self.pause_s:
            self.stopping.wait(self.pause_s if wait else 0)
            return
        try:
            self.messages.fetch(BLOCK_MS if wait else None)
        except Exception as error:  # as in `step`
            self._survive(error, time.monotonic())

    def close(self) -> None:
        """Give the partitions back."""
        try:
            self.partitions.release()
        except Exception as error:  # it ends all the same, and its leases with it
            log.warning("partitions not released: %s", error)
        self.streams.close()

    def step(self, now: datetime, tick: float) -> bool:
        """One round: says whether it found work. `now` is UTC, `tick` monotonic (s). Survives every outage."""
        try:
            found = self._work(now, tick)
        except Exception as error:  # whatever it is, the next round may do: `_survive` says it and rests
            self._survive(error, tick)
            if isinstance(error, RedisError):
                self._stops(now, tick)
            return False
        if self._failures:
            log.info("the worker goes on")
            self._failures = 0
        self.pause_s = 0.0 if self.fences else TEND_S / 2
        return found

    def _work(self, now: datetime, tick: float) -> bool:
        if self._is_time("tend", TEND_S, tick):
            self._tend(tick)
        if self._groups_doubtful:
            self._see_what_is_lost(tick)
            self._groups_doubtful = False
        if self._is_time("look", LOOK_S, tick):
            self._look(now)
        found = self.messages.step(now)
        if self._is_time("due", DUE_S, tick):
            found |= self.deadlines.step(now, tick, self.fences, self.open_from)
        if self._is_time("queue", QUEUE_S, tick):
            found |= self.queue.step(now, tick, self.fences, self.open_from)
        if self._is_time("requeued", REQUEUED_S, tick):
            found |= self.requeued.step(now, self.fences)
        if self._is_time("sweep", SWEEP_S, tick):
            found |= self.sweep.step(now, tick, self.fences, self.open_from)
        if not found or self._is_time("relay", RELAY_S, tick):
            found |= self.relay.step(tick)
        if self._is_time("trim", TRIM_S, tick):
            self.streams.trim(self.fences)
        return found

    def _is_time(self, what: str, every_s: float, tick: float) -> bool:
        if tick < self._next.get(what, float("-inf")):
            return False
        self._next[what] = tick + every_s
        return True

    # --- partitions

    def _tend(self, tick: float) -> None:
        taken, lost = self.partitions.tend()
        for p in lost:
            self.open_from.pop(p, None)
            self._settled_from.pop(p, None)
            self.messages.unfinished.discard(p)
        if taken:
            log.info("%s took partitions %s", self.partitions.owner, sorted(taken))
            self._groups_doubtful = True
            self.messages.unfinished |= taken
            self.tails.take(taken)
            self._reopen(taken, tick)
            self._settled_from |= dict.fromkeys(taken, tick + self.grace_s)
        if lost:
            log.info("%s let go of partitions %s", self.partitions.owner, sorted(lost))

    def _reopen(self, partitions: Any, tick: float) -> None:
        """Silence counts only a while from now."""
        self.open_from |= dict.fromkeys(partitions, tick + self.grace_s)

    def _look(self, now: datetime) -> None:
        """Find entries that a former owner, frozen in the middle of a read, was handed after we took over."""
        progress = self.streams.progress(self.fences)
        self.tails.remember(progress, self.fences)
        self.messages.handed_out(p for p, stand in progress.items() if stand.unacked is not None)
        behind = {p for p, stand in progress.items() if not stand.applied(stand.last)}
        metrics.backlog({p: self.streams.oldest_unapplied_s([p], now) if p in behind else 0.0 for p in self.fences})

    def _see_what_is_lost(self, tick: float) -> None:
        """Whole streams, or only the newest entries; then see to it that all are there."""
        progress = self.streams.progress(self.fences)
        gone = self.fences.keys() - progress.keys()
        short = self.tails.lost(progress, self.streams.replication())
        if gone:
            self.streams.forget_marks(gone)
        for lost, how in ((gone, "had no stream"), (short - gone, "may have lost their newest entries")):
            if lost:
                self._send_back(lost, how, tick)
                self.tails.forget(progress, lost)
        self.streams.ensure_groups(self.fences)

    def _send_back(self, lost: set[int], how: str, tick: float) -> None:
        """These streams lost what was acknowledged and not applied, or may have: robots say it again.

        Before the groups are made anew: whoever dies in between leaves them absent, and the next one does it.
        """
        robots = [r for r in Robot.objects.values_list("pk", flat=True) if partition_of(r) in lost]
        if connected := send_back(robots):
            log.critical("partitions %s %s: %d robots are sent back to repeat", sorted(lost), how, connected)
            text = f"The durable Redis lost what it held: {connected} robots were sent back to say it again"
            raise_alert("data_lost", severity=Severity.CRITICAL, text=text, lasts=False)
        self._reopen(lost, tick)

    # --- outages

    def _survive(self, error: Exception, tick: float) -> None:
        """Go on from a fresh read. When a store is away: say so once, and rest a little."""
        self.messages.begin_anew()
        self._next.pop("tend", None)  # first of all: what is still ours?
        self._groups_doubtful = True
        if is_group_lost(error):
            log.critical("a stream or its group is lost: made anew, reading from the oldest entry (%s)", error)
            self._reopen(self.fences, tick)
            return
        fault = blame(error)
        if fault in (Blame.LOST, Blame.RACE):
            log.warning("%s: %s", fault.value, error)
            return
        if not self._failures and fault is Blame.OUTAGE:
            log.error("%s does not answer, or refuses; will try again: %s", store_of(error), error)
        elif not self._failures:
            log.error("a step of the worker raised, will try again: %s", error, exc_info=True)
        metrics.STORE_FAILURES.inc()
        reconnect()
        self.pause_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._reopen(self.fences, tick)
        if not isinstance(error, RedisError):
            self._settled_from |= dict.fromkeys(self.fences, tick + self.grace_s)

    def _stops(self, now: datetime, tick: float) -> None:
        """The durable Redis is away. What is asked of robots for safety goes on without it."""
        try:
            self.deadlines.stops(now, tick, self.fences, self._settled_from)
        except Exception as error:  # it is within the handling of another failure
            log.warning("stops wait: %s", error)
            reconnect()
