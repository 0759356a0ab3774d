"""The worker: applies what robots said, fires deadlines, steps the queue, judges links, passes events on. One loop of short steps.

Batch → decide → commit → acknowledge. A message is acknowledged only after its effect is committed, so a killed
worker loses nothing; the unique row (robot, msg_id) makes the second try harmless.
"""

import gc
import logging
import os
import secrets
import socket
import threading
import time
from collections import Counter
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from redis.exceptions import RedisError

from fleet import logs
from fleet.alerts.actions import raise_alert
from fleet.models import Robot, Severity
from telemetry import clocks, metrics
from telemetry.clocks import Clocks
from telemetry.failures import Blame, blame
from telemetry.gateways.rows import send_back
from telemetry.out.relay import Relay
from telemetry.partitions import TEND_S, Partitions
from telemetry.stream import Entry, Streams, is_group_lost, partition_of
from telemetry.worker import batch, poison
from telemetry.worker.due import Deadlines
from telemetry.worker.presence import Sweep
from telemetry.worker.queueing import Queue
from telemetry.worker.requeued import Requeued
from telemetry.worker.tails import Tails

BATCH = 100  # entries of one partition per transaction
BATCH_LEAST = 20.0  # a transaction costs as much as 20 messages: a starved worker must not waste what it gets
BATCH_S = 0.1  # a transaction that takes longer makes the next ones smaller: stops and pages wait for its rows
BLOCK_MS = 200  # how long a read waits for something new
RACES = 20  # lost races of one message in a row that pass for somebody else's fault
GRACE_S = 5.0  # after taking a partition or an outage, before silence counts: robots reconnect meanwhile
DUE_S, QUEUE_S, SWEEP_S, LOOK_S, TRIM_S = 0.25, 0.2, 1.0, 1.0, 30.0
REQUEUED_S = 1.0
RELAY_S = 0.05  # under load; at once when there is nothing else to do
BACKOFF_S = (0.1, 0.2, 0.5, 1.0)
GARBAGE = 20_000  # new objects until garbage is looked for: a batch makes thousands, and nearly none in cycles
FROZEN_MS = 3000  # a frozen worker's open transaction ends after this, so that another can take over

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
        hook: batch.Hook = lambda where: None,
        grace_s: float = GRACE_S,
        limit: int = BATCH,
    ) -> None:
        self.streams = Streams(settings.REDIS_URL)
        self.partitions = Partitions(name or _unique_name(), count or settings.PARTITIONS)
        self.deadlines = Deadlines(self.streams, Clocks(grace_s))
        self.queue = Queue()
        self.sweep = Sweep()
        self.requeued = Requeued(self.streams)
        self.tails = Tails()
        self.relay = Relay(self.streams.redis)
        self.hook = hook
        self.grace_s = grace_s
        self.limit = limit
        self._at_once = float(limit)  # what this machine can do in BATCH_S just now, at most `limit`
        self.stopping = threading.Event()
        self.open_from: dict[int, float] = {}  # partition → tick from which silence counts
        self._settled_from: dict[int, float] = {}  # the same, as if the durable Redis had never been away
        self.pause_s = 0.0  # > 0: nothing can be read, rest this long after a step that found nothing
        self._in_hand: dict[int, list[Entry]] = {}
        self._recover: set[int] = set()  # partitions with entries handed out and not acknowledged
        self._kept_back: set[str] = set()  # robots whose later messages wait, in this step, for an earlier one
        self._races: Counter[str] = Counter()
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
            self._in_hand = self._read(BLOCK_MS if wait else None)
        except Exception as error:
            self._survive(error, time.monotonic())

    def close(self) -> None:
        """Give the partitions back."""
        try:
            self.partitions.release()
        except Exception as error:
            log.warning("partitions not released: %s", error)
        self.streams.close()

    def step(self, now: datetime, tick: float) -> bool:
        """One round: says whether it found work. `now` is UTC, `tick` monotonic (s). Survives every outage."""
        try:
            found = self._work(now, tick)
        except Exception as error:
            self._survive(error, tick)
            if isinstance(error, RedisError):
                self._stops(now, tick)
            return False
        if self._failures:
            log.info("stores are back")
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
        self._kept_back.clear()
        found = False
        for p in sorted(self._recover & self.fences.keys()):
            found |= self._again(p, now)
        found |= self._new(now)
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
            self._recover.discard(p)
        if taken:
            log.info("%s took partitions %s", self.partitions.owner, sorted(taken))
            self._groups_doubtful = True
            self._recover |= taken
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
        self._recover |= {p for p, stand in progress.items() if stand.unacked is not None} - self._in_hand.keys()
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

    # --- messages

    def _new(self, now: datetime) -> bool:
        read, self._in_hand = self._in_hand or self._read(None), {}
        ours = self.fences.keys() - self._recover  # not what was lost or taken anew since it was read
        self._recover |= read.keys()  # handed out is pending until acknowledged, whatever happens in between
        for p, entries in read.items():
            if entries:
                self.tails.saw(p, entries[-1].id)
            if p in ours and self._apply(p, entries, now):
                self._recover.discard(p)
        return bool(read)

    def _read(self, block_ms: int | None) -> dict[int, list[Entry]]:
        readable = self.fences.keys() - self._recover
        return self.streams.read_new(readable, min(self.limit, int(self._at_once)), block_ms) if readable else {}

    def _again(self, p: int, now: datetime) -> bool:
        """What was handed out and never acknowledged, one at a time: one of them may have killed its worker."""
        entries = self.streams.read_pending(p, self.limit)
        for entry in entries:
            if self.stopping.is_set():
                return True
            metrics.RETRIES.labels("redelivered").inc()
            self._apply(p, [entry], now, again=True)
        if not entries:
            self._recover.discard(p)
            poison.forget(p)
        return bool(entries)

    def _apply(self, p: int, entries: list[Entry], now: datetime, *, again: bool = False) -> bool:
        """Apply and acknowledge. False when some of it has to be tried again."""
        entries = [entry for entry in entries if entry.robot_id not in self._kept_back]
        if not entries:
            return False
        began = time.perf_counter()
        try:
            answered = batch.apply(p, self.fences[p], entries, now=now, hook=self.hook, redelivered=again)
        except Exception as error:
            fault = self._blame(error, entries)
            if fault in (Blame.OUTAGE, Blame.LOST):
                raise
            if fault is Blame.MESSAGE and len(entries) > 1:
                half = len(entries) // 2
                first = self._apply(p, entries[:half], now)
                return self._apply(p, entries[half:], now) and first
            if fault is Blame.MESSAGE and self._failed(p, entries[0], error, now):
                return True
            self._kept_back |= {entry.robot_id for entry in entries}
            return False
        self._pace(time.perf_counter() - began)
        self.deadlines.inquiry.answered(answered)
        self._acknowledge(p, entries)
        return True

    def _pace(self, took_s: float) -> None:
        """The next batch, by how long this one took."""
        if took_s > BATCH_S:
            self._at_once = max(BATCH_LEAST, self._at_once / 2)
        else:
            self._at_once = min(float(self.limit), self._at_once * 1.2)

    def _acknowledge(self, p: int, entries: list[Entry]) -> None:
        self.hook("before_ack")
        self.streams.ack(p, [entry.id for entry in entries])
        if self._races:
            for entry in entries:
                self._races.pop(entry.id, None)

    def _blame(self, error: Exception, entries: list[Entry]) -> Blame:
        fault = blame(error)
        if fault is not Blame.RACE:
            return fault
        _reconnect()
        for entry in entries:
            self._races[entry.id] += 1
        if len(entries) == 1 and self._races[entries[0].id] > RACES:
            return Blame.MESSAGE  # no race is lost that often: the rows are not what the code takes them for
        metrics.RETRIES.labels("race").inc()
        log.info("lost a race, will read again: %s", error)
        return fault

    def _failed(self, p: int, entry: Entry, error: Exception, now: datetime) -> bool:
        """Count a failed try of one message. True when that was the last: it is a dead letter now."""
        tries = poison.count(p, self.fences[p], entry, error)
        metrics.RETRIES.labels("message").inc()
        with logs.working_on(**batch.about(entry)):
            log.error("message %s of %s failed, try %d", entry.msg_id, entry.robot_id, tries, exc_info=error)
        if tries <= poison.TRIES:
            return False
        doomed = (poison.reason(error), tries)
        batch.apply(p, self.fences[p], [entry], now=now, hook=self.hook, doomed=doomed)
        self._acknowledge(p, [entry])
        return True

    # --- outages

    def _survive(self, error: Exception, tick: float) -> None:
        """Go on from a fresh read. When a store is away: say so once, and rest a little."""
        self._recover |= self.fences.keys()
        self._in_hand = {}
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
        if not self._failures:
            log.error("a store does not answer, will try again: %s", error, exc_info=fault is not Blame.OUTAGE)
        metrics.STORE_FAILURES.inc()
        _reconnect()
        self.pause_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._reopen(self.fences, tick)
        if not isinstance(error, RedisError):
            self._settled_from |= dict.fromkeys(self.fences, tick + self.grace_s)

    def _stops(self, now: datetime, tick: float) -> None:
        """The durable Redis is away. What is asked of robots for safety goes on without it."""
        try:
            self.deadlines.stops(now, tick, self.fences, self._settled_from)
        except Exception as error:
            log.warning("stops wait: %s", error)
            _reconnect()


def _reconnect() -> None:
    """Begin afresh: no broken connection, no plan that an ALTER TYPE made void."""
    if not connection.in_atomic_block:
        connection.close()


def settle() -> None:
    """Once, when everything is imported: what is there stays, so that looking for garbage does not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def prepare(connection: Any, **_: Any) -> None:
    """Receiver of `connection_created` in a worker process: plans are kept, a frozen worker lets go."""
    connection.connection.prepare_threshold = 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, FALSE)", [str(FROZEN_MS)])


def _unique_name() -> str:
    return f"{socket.gethostname()[:50]}:{os.getpid()}:{secrets.token_hex(3)}"
