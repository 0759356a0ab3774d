"""Messages in the worker: read, applied in batches, acknowledged; what fails is told apart, tried again, and given up in the end."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from uuid import UUID

from fleet import logs
from telemetry import metrics
from telemetry.failures import Blame, blame
from telemetry.partitions import Partitions
from telemetry.stream import Entry, Streams
from telemetry.worker import batch, poison
from telemetry.worker.process import reconnect
from telemetry.worker.tails import Tails

BATCH = 100  # entries of one partition per transaction
BATCH_LEAST = 20.0  # a transaction costs as much as 20 messages: a starved worker must not waste what it gets
BATCH_S = 0.1  # a transaction that takes longer makes the next ones smaller: stops and pages wait for its rows
RACES = 20  # lost races of one message in a row that pass for somebody else's fault

log = logging.getLogger(__name__)


class Messages:
    """What robots said, of the partitions that are ours. `answered` is told which questions a batch answered."""

    def __init__(
        self, streams: Streams, partitions: Partitions, tails: Tails, *, answered: Callable[[set[UUID]], None],
        stopping: threading.Event, hook: batch.Hook, limit: int,
    ) -> None:  # fmt: skip
        self._streams, self._partitions, self._tails = streams, partitions, tails
        self._answered, self._stopping = answered, stopping
        self.hook = hook
        self.limit = limit
        self.unfinished: set[int] = set()  # partitions with entries handed out and not acknowledged
        self._at_once = float(limit)  # what this machine can do in BATCH_S just now, at most `limit`
        self._in_hand: dict[int, list[Entry]] = {}
        self._kept_back: set[str] = set()  # robots whose later messages wait, in this step, for an earlier one
        self._races: Counter[str] = Counter()

    def fetch(self, block_ms: int | None) -> None:
        """Read what the next step will apply; wait so long for it if it is to wait."""
        self._in_hand = self._read(block_ms)

    def begin_anew(self) -> None:
        """What is in hand is dropped, and read again before anything else."""
        self.unfinished |= self._partitions.fences.keys()
        self._in_hand = {}

    def handed_out(self, partitions: Iterable[int]) -> None:
        """These have entries that nobody acknowledged: other than those in hand, a former owner was handed them."""
        self.unfinished |= set(partitions) - self._in_hand.keys()

    def step(self, now: datetime) -> bool:
        """Apply what was handed out before, then what is new. Says whether there was anything."""
        self._kept_back.clear()
        found = False
        for p in sorted(self.unfinished & self._partitions.fences.keys()):
            found |= self.again(p, now)
        return self.new(now) or found

    def new(self, now: datetime) -> bool:
        """Apply what has been read, or is read now without waiting. Says whether there was anything."""
        read, self._in_hand = self._in_hand or self._read(None), {}
        ours = self._partitions.fences.keys() - self.unfinished  # not what was lost or taken anew since it was read
        self.unfinished |= read.keys()  # handed out is pending until acknowledged, whatever happens in between
        for p, entries in read.items():
            if entries:
                self._tails.saw(p, entries[-1].id)
            if p in ours and self._apply(p, entries, now):
                self.unfinished.discard(p)
        return bool(read)

    def _read(self, block_ms: int | None) -> dict[int, list[Entry]]:
        readable = self._partitions.fences.keys() - self.unfinished
        return self._streams.read_new(readable, min(self.limit, int(self._at_once)), block_ms) if readable else {}

    def again(self, p: int, now: datetime) -> bool:
        """Apply what was handed out and never acknowledged, one at a time: one of them may have killed its worker."""
        entries = self._streams.read_pending(p, self.limit)
        for entry in entries:
            if self._stopping.is_set():
                return True
            metrics.RETRIES.labels("redelivered").inc()
            self._apply(p, [entry], now, again=True)
        if not entries:
            self.unfinished.discard(p)
            poison.forget(p)
        return bool(entries)

    def _apply(self, p: int, entries: list[Entry], now: datetime, *, again: bool = False) -> bool:
        """Apply and acknowledge. False when some of it has to be tried again."""
        entries = [entry for entry in entries if entry.robot_id not in self._kept_back]
        if not entries:
            return False
        began = time.perf_counter()
        try:
            answered = batch.apply(p, self._partitions.fences[p], entries, now=now, hook=self.hook, redelivered=again)
        except Exception as error:  # `blame` says whose it is
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
        self._answered(answered)
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
        self._streams.ack(p, [entry.id for entry in entries])
        if self._races:
            for entry in entries:
                self._races.pop(entry.id, None)

    def _blame(self, error: Exception, entries: list[Entry]) -> Blame:
        fault = blame(error)
        if fault is not Blame.RACE:
            return fault
        reconnect()
        for entry in entries:
            self._races[entry.id] += 1
        if len(entries) == 1 and self._races[entries[0].id] > RACES:
            return Blame.MESSAGE  # no race is lost that often: the rows are not what the code takes them for
        metrics.RETRIES.labels("race").inc()
        log.info("lost a race, will read again: %s", error)
        return fault

    def _failed(self, p: int, entry: Entry, error: Exception, now: datetime) -> bool:
        """Count a failed try of one message. True when that was the last: it is a dead letter now."""
        tries = poison.count(p, self._partitions.fences[p], entry, error)
        metrics.RETRIES.labels("message").inc()
        with logs.working_on(**batch.about(entry)):
            log.error("message %s of %s failed, try %d", entry.msg_id, entry.robot_id, tries, exc_info=error)
        if tries <= poison.TRIES:
            return False
        doomed = (poison.reason(error), tries)
        batch.apply(p, self._partitions.fences[p], [entry], now=now, hook=self.hook, doomed=doomed)
        self._acknowledge(p, [entry])
        return True
