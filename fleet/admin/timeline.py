"""The history of one aggregate as people read it: one line per event, newest at the bottom."""

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.history import sentence
from fleet.models import Event
from fleet.people.access import at_sites
from fleet.wording import ago

SHOWN = 300  # newest events on a page; the event list has all
ACTORS = {"user": "person", "robot": "robot", "deadline": "deadline", "policy": "policy", "system": "system"}


class Entry(NamedTuple):
    """One line. `edge` is empty when the event changed no state; `skew` says when it was recorded much later."""

    event: Any
    words: str
    who: str
    actor: str
    cause: str
    edge: tuple[str, str] | None
    day: str
    clock: str
    iso: str
    ago: str
    skew: str


def clock(at: datetime) -> str:
    """10:44:05.123 (UTC, ms)."""
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def stamp(at: datetime | None) -> SafeString | str:
    """Date and time to the millisecond, for a cell of a list."""
    if at is None:
        return ""
    return format_html(
        '<time class="nowrap" datetime="{}" title="{}">{} {}</time>',
        at.isoformat(), ago(at, timezone.now()), f"{at:%Y-%m-%d}", clock(at),
    )  # fmt: skip


def entry(event: Any, now: datetime) -> Entry:
    moved = event.state_from != event.state_to
    late = (event.recorded_at - event.occurred_at).total_seconds()
    return Entry(
        event=event,
        words=sentence(event),
        who=event.actor_name or event.actor_id or ACTORS.get(event.actor_kind, event.actor_kind),
        actor=ACTORS.get(event.actor_kind, event.actor_kind),
        cause=event.cause,
        edge=(event.state_from or "new", event.state_to) if moved else None,
        day=f"{event.occurred_at:%Y-%m-%d}",
        clock=clock(event.occurred_at),
        iso=event.occurred_at.isoformat(),
        ago=ago(event.occurred_at, now),
        skew=f"recorded {late:.1f} s later" if late >= 1 else f"clock {-late:.1f} s ahead" if late <= -1 else "",
    )


def timeline(aggregate: str, user: Any, which: Q | None = None, *, everybodys: bool = False) -> dict[str, Any]:
    """Context of `admin/drover/_timeline.html`: what happened at the user's sites, all or that fits `which`. One query.

    `everybodys`: it belongs to no site, and whoever sees the page may read what happened to it.
    """
    now = timezone.now()
    events = Event.objects.filter(which or Q(), aggregate=aggregate)
    newest = list((events if everybodys else at_sites(user, events)).order_by("-seq")[: SHOWN + 1])
    return {
        "aggregate": aggregate,
        "entries": [entry(event, now) for event in reversed(newest[:SHOWN])],
        "older": max(newest[SHOWN].seq, 0) if len(newest) > SHOWN else 0,
    }
