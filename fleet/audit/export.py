"""Events as files: CSV for spreadsheets, JSON lines for programs. Streamed in chunks, so memory stays flat."""

import csv
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from fleet.audit.questions import About, abouts, in_chunks
from fleet.csv_files.table import harmless
from fleet.history import sentence
from fleet.models import Event, Site

FIELDS = (
    "recorded_at", "occurred_at", "site", "about", "about_id", "about_name", "seq", "kind", "what", "state_from",
    "state_to", "actor_kind", "actor_id", "actor_name", "reason", "cause", "trace_id", "span_id", "data", "hash",
)  # fmt: skip


class Streamed(StreamingHttpResponse):
    """Sends its parts one by one under ASGI as well, where Django would collect them all first."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = iter(self.streaming_content)  # type: ignore[arg-type]
        following = sync_to_async(partial(next, parts, None), thread_sensitive=True)
        while (part := await following()) is not None:
            yield part  # type: ignore[misc]


def row(event: Event, about: About, sites: dict[int, str]) -> dict[str, Any]:
    """One event with names, in the order of FIELDS. Times in full precision, UTC."""
    data = {}
    with suppress(ValueError, RecursionError):  # one that was tampered with must not end the export
        data = json.loads(event.data)
    return {
        "recorded_at": exact(event.recorded_at),
        "occurred_at": exact(event.occurred_at),
        "site": sites.get(event.site_id, "") if event.site_id else "",
        "about": about.prefix,
        "about_id": about.key,
        "about_name": about.name,
        "seq": event.seq,
        "kind": event.kind,
        "what": sentence(event),
        "state_from": event.state_from,
        "state_to": event.state_to,
        "actor_kind": event.actor_kind,
        "actor_id": event.actor_id,
        "actor_name": event.actor_name,
        "reason": reason(data),
        "cause": event.cause,
        "trace_id": event.trace_id,
        "span_id": event.span_id,
        "data": event.data,
        "hash": bytes(event.hash).hex(),
    }


def reason(data: dict[str, Any]) -> str:
    """Why, where the event says so."""
    return str(next((data[key] for key in ("abort_detail", "why", "reason", "cleared_why") if data.get(key)), ""))


def exact(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _rows(events: QuerySet[Event]) -> Iterator[list[dict[str, Any]]]:
    sites = dict(Site.objects.values_list("pk", "name"))
    for chunk in in_chunks(events):
        names = abouts(chunk)
        yield [row(event, names[event.aggregate], sites) for event in chunk]


def as_csv(events: QuerySet[Event]) -> Iterator[str]:
    """A header row, then one line per event; no cell can be a formula."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(FIELDS)
    for rows in _rows(events):
        writer.writerows([[harmless(str(value)) for value in one.values()] for one in rows])
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def as_json_lines(events: QuerySet[Event]) -> Iterator[str]:
    """One object per line, with the event's data as an object."""
    for rows in _rows(events):
        for one in rows:
            with suppress(ValueError, RecursionError):
                one["data"] = json.loads(one["data"])
        yield "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows)


FORMATS: dict[str, tuple[Callable[[QuerySet[Event]], Iterator[str]], str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "jsonl": (as_json_lines, "application/jsonl; charset=utf-8"),
}
