"""What this process counts and times for Prometheus: every metric of Drover stands in this file.

Labels are words from our own tables (a verdict, a kind, a partition), never the id of a robot, a mission or a person:
their number must not grow with the fleet. What is counted is committed; a batch that is rolled back counts nothing.
"""

import time
from collections import Counter as Counted
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from fleet.history import AGGREGATES, Change
from telemetry.protocol import Up

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

LABELS = {  # every label there is, and what it may say
    "verdict": "applied, redundant, stale, late, dead",
    "kind": "a line of the event catalogue, a deadline or a kind of hold",
    "where": "gateway (recognised by the store) or worker (recognised by PostgreSQL)",
    "what": "what was tried again: command, message, race, redelivered",
    "direction": "in, out, web (to a webhook)",
    "channel": "critical, lossy",
    "scope": "row (a change in the database), live (pose, battery)",
    "field": "first part of the field that was wrong",
    "partition": "number of the partition",
    "state": "of open missions",
    "severity": "info, warning, critical",
    "presence": "of robots in service",
    "cause": "of trouble with Drover itself: a line of the table in telemetry/watching/causes.py",
    "table": "of the database, from the table in telemetry/keeping/rules.py",
    "group": "who follows the events: statistics, webhooks, e-mail",
    "method": "HTTP method",
    "status": "class of HTTP status: 2xx, 3xx, 4xx, 5xx",
}

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_FIELDS = {*Up.__struct_fields__, "message"}
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_ENTRIES = (1, 2, 5, 10, 20, 50, 100, 200)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"drover_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"drover_{name}", text, labels, registry=REGISTRY)


def _seconds(name: str, text: str, *labels: str) -> Histogram:
    return Histogram(f"drover_{name}_seconds", text, labels, registry=REGISTRY, buckets=_SECONDS)


# worker
RECEIVED_TO_APPLIED = _seconds("received_to_applied", "From a message's receipt to the commit of its effect.")
BATCH_SECONDS = _seconds("batch", "Time of one batch: decide, commit.")
BATCH_ENTRIES = Histogram(
    "drover_batch_entries", "Messages of one batch.", (), registry=REGISTRY, buckets=_ENTRIES
)  # fmt: skip
MESSAGES = _counter("messages_applied", "Critical messages by what became of them; stale and late ones too.", "verdict")
BACKLOG = _gauge(
    "backlog_age_seconds", "Age of the oldest message that is not applied, of owned partitions.", "partition"
)
OWNED = _gauge("partitions_owned", "Partitions that this worker owns.")
RETRIES = _counter("retries", "Things that were tried again.", "what")
DEAD_LETTERS = _counter(
    "dead_letters", "Messages given up, from robots (in), to robots (out), to webhooks (web).", "direction"
)
STORE_FAILURES = _counter("store_failures", "Times that a worker found a store not answering.")
TROUBLE = _gauge("trouble", "1 for each cause of trouble with Drover itself that this worker finds.", "cause")
TIDIED = _counter("tidied_rows", "Rows that were deleted because they are old.", "table")

# any process that commits
EVENTS = _counter("events", "Committed events of the history.", "kind")
TIMEOUTS = _counter("timeouts", "Deadlines that passed.", "kind")

# gateways
LINKS = _gauge("robot_links", "Robots connected to this process.")
DUPLICATES = _counter("duplicates", "Messages that were known already.", "where")
GAPS = _counter("seq_gaps", "Numbers that robots skipped: messages lost on the way.", "channel")
BAD = _counter("bad_messages", "Messages that got the verdict invalid.", "field")
NOT_STORED = _counter("not_stored", "Critical messages that were not acknowledged: the robot sends them again.")
HELD_BACK = _gauge("partitions_held_back", "Partitions whose robots are asked to wait with critical messages.")
DROPPED = _counter(
    "telemetry_dropped", "Lossy messages that were not taken: a robot sent too many, or the live Redis is slow."
)
BROKER = _gauge("broker_connected", "1 while this gateway hears the MQTT broker.")
UNAUTHORISED = _counter("unauthorised", "Robots' connections with a token that is not valid.")

# live page
SOCKETS = _gauge("live_sockets", "Live pages connected to this process.")
CHANGED_TO_PUSHED = _seconds("changed_to_pushed", "From a change to the frame that carries it to browsers.", "scope")
FRAMES = _counter("frames", "Frames sent to live pages.")
FRAME_BYTES = _counter("frame_bytes", "Characters of frames sent to live pages.")
FRAGMENTS = _counter("fragments", "Fragments sent to live pages.")

# pages
REQUESTS = _seconds("http_request", "Requests for pages, by what came of them.", "method", "status")


def connect() -> None:
    """Count what commits announce."""
    for aggregate in AGGREGATES.values():
        aggregate.changed.connect(_committed, dispatch_uid=f"metrics.{aggregate.prefix}")


def _committed(*, changes: list[Change] | tuple[()] = (), **_: Any) -> None:
    kinds = Counted(draft.kind for change in changes for draft in change.events)
    for kind, n in kinds.items():
        EVENTS.labels(kind).inc(n)
    for change in changes:
        for kind in {d.origin.actor_id for d in change.events if d.origin.actor_kind == "deadline"}:
            TIMEOUTS.labels(kind).inc()
        if any(to == "dead" for _kinds, _from, to in change.command_moves):
            DEAD_LETTERS.labels("out").inc()


def applied(messages: list[tuple[str, datetime]], now: datetime, took_s: float) -> None:
    """Messages whose effect was committed `took_s` after `now`: verdict, and when each was received."""
    for verdict, n in Counted(verdict for verdict, _ in messages).items():
        MESSAGES.labels(verdict).inc(n)
    for _, received_at in messages:
        RECEIVED_TO_APPLIED.observe(max(0.0, (now - received_at).total_seconds() + took_s))


def backlog(ages_s: dict[int, float]) -> None:
    """Ages of this worker's partitions; those of others are no longer shown here."""
    OWNED.set(len(ages_s))
    BACKLOG.clear()
    for partition, age_s in ages_s.items():
        BACKLOG.labels(str(partition)).set(age_s)


def trouble(causes: Iterable[str]) -> None:
    """These hold now, no others."""
    TROUBLE.clear()
    for cause in causes:
        TROUBLE.labels(cause).set(1)


def bad(field: str) -> None:
    """A message with something wrong in `field`, of which only the first part is a word of ours."""
    first = field.partition(".")[0]
    BAD.labels(first if first in _FIELDS else "other").inc()


class Requests:
    """Middleware: times pages. Outermost but for the trace, so that it sees every answer."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        began = time.perf_counter()
        if iscoroutinefunction(self.get_response):
            return self._later(request, began)
        return _timed(request, self.get_response(request), began)

    async def _later(self, request: HttpRequest, began: float) -> HttpResponse:
        return _timed(request, await self.get_response(request), began)


def _timed(request: HttpRequest, response: HttpResponse, began: float) -> HttpResponse:
    method = request.method if request.method in _METHODS else "other"
    REQUESTS.labels(method, f"{response.status_code // 100}xx").observe(time.perf_counter() - began)
    return response


FAR = 1_000_000  # no gap: nobody loses so many, a number is wrong
SESSIONS = 200  # sessions of one robot whose numbers are followed: the newest


class Sequence:
    """Numbers of one robot's messages on one link, by session and channel. Resent ones are no gaps."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], int] = {}

    def saw(self, session: int, channel: str, seq: int) -> None:
        last = self._last.get((session, channel))
        if last is not None and seq - last > FAR:
            return
        if last is None or seq > last:
            if last is not None and seq > last + 1:
                GAPS.labels(channel).inc(seq - last - 1)
            self._last[session, channel] = seq
            if len(self._last) > SESSIONS:
                del self._last[min(self._last)]


def declared() -> list[tuple[str, tuple[str, ...]]]:
    """(name, labels) of every metric of Drover in this file, in its order."""
    found = [value for value in globals().values() if isinstance(value, Counter | Gauge | Histogram)]
    return [(metric._name, tuple(metric._labelnames)) for metric in found]
