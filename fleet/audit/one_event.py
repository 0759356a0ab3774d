"""One event under the magnifying glass: what it changed, whether it is what was hashed, what it belongs together with."""

import uuid
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet
from django.utils.timezone import is_aware

from fleet.history import AGGREGATES, GENESIS, HASHED, KINDS, Change, decode, digest, fold
from fleet.models import Command, Event
from fleet.people.access import at_sites
from fleet.robots.commands import NAMESPACE

FOLDED = 20_000  # events; what comes later in a longer history shows only what the event itself says
TOGETHER = timedelta(days=1)
SHOWN = 100
COMMANDS = (
    *(f"mission.{verb}" for verb in ("assign", "pause", "resume", "cancel", "retry_step", "skip_step")),
    *(f"robot.{verb}" for verb in ("stop", "release", "query_state")),
)


class Moved(NamedTuple):
    """One column. `before` is None when it cannot be said."""

    column: str
    before: str | None
    after: str


def changes(event: Event) -> tuple[list[Moved], str]:
    """What it changed, and why that cannot be said in full, if so."""
    prefix, _, key = event.aggregate.partition(":")
    aggregate = AGGREGATES.get(prefix)
    if aggregate is None or event.kind not in KINDS:
        return [], "This kind of event is not in the catalogue of this version of Drover."
    if event.seq > FOLDED:
        return _said(event), f"This is event {event.seq} of its history: what was before is not worked out."
    earlier = Event.objects.filter(aggregate=event.aggregate, seq__lt=event.seq).order_by("seq")
    try:
        pk = aggregate.model._meta.pk.to_python(key)  # type: ignore[union-attr]
        change = fold(aggregate, pk, earlier.iterator())
        before = _columns(change)
        change.apply(KINDS[event.kind], decode(aggregate, event.data))
        after = _columns(change)
    except Exception as error:  # a history that was tampered with is shown all the same
        return _said(event), f"Its history does not fold: {error}"
    names = [*after, *(name for name in before if name not in after)]
    moved = [
        Moved(name, shown(before.get(name, "")), shown(after.get(name, "")))
        for name in names
        if shown(before.get(name, "")) != shown(after.get(name, "")) and name != "version"
    ]
    return moved, ""


def _columns(change: Change) -> dict[str, Any]:
    """Every column of the row and its children by name, `steps 2: outcome`; those that history does not hold are left out."""
    if not change.row.version:
        return {}
    outside = change.aggregate.outside
    found = {
        f.attname: _worded(change.row, f) for f in change.row._meta.concrete_fields
        if not f.primary_key and f.attname not in outside
    }  # fmt: skip
    for name, rows in change.children.items():
        parent = change.aggregate.parent(name)
        for number, child in rows.items():
            found |= {
                f"{name} {number}: {f.attname}": _worded(child, f)
                for f in child._meta.concrete_fields
                if not f.primary_key and f.attname not in {parent, "number", *outside}
            }
    return found


def _worded(row: Any, field: Any) -> Any:
    value = field.value_from_object(row)
    return dict(field.flatchoices).get(value, value) if field.choices else value


def _said(event: Event) -> list[Moved]:
    prefix = event.aggregate.partition(":")[0]
    data = decode(AGGREGATES[prefix], event.data)
    return [Moved(name, None, shown(value)) for name, value in data.items()]


def shown(value: Any) -> str:
    """A value as people read it."""
    match value:
        case None | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}" + (" UTC" if is_aware(value) else "")
    return str(value)


def verified(event: Event) -> str:
    """Why it is not what was written; empty when its hash is right and follows from the one before."""
    if digest(bytes(event.prev_hash), tuple(getattr(event, column) for column in HASHED)) != bytes(event.hash):
        return "its hash does not fit: it is not what was written"
    before = Event.objects.filter(aggregate=event.aggregate, seq=event.seq - 1).values_list("hash", flat=True).first()
    if bytes(event.prev_hash) != (GENESIS if event.seq == 1 else bytes(before or b"")):
        return "it does not name the hash of the event before it"
    return ""


def together(event: Event, user: Any) -> QuerySet[Event]:
    """Events of the same trace or cause within a day, oldest first, as far as the user may see them."""
    same = Q(pk=event.pk)
    if event.trace_id:
        same |= Q(trace_id=event.trace_id)
    if event.cause and not event.cause.startswith("deadline:"):  # that names a kind of deadline, not one of them
        same |= Q(cause=event.cause)
    near = (event.recorded_at - TOGETHER, event.recorded_at + TOGETHER)
    found = Event.objects.filter(same, recorded_at__range=near).order_by("recorded_at", "id")
    return at_sites(user, found)[:SHOWN]


def commands(event: Event, user: Any) -> QuerySet[Command]:
    """Commands that were written with it: their ids derive from the event's place in its history."""
    ids = [uuid.uuid5(NAMESPACE, f"{event.aggregate} {event.seq} {kind}") for kind in COMMANDS]
    return at_sites(user, Command.objects.filter(pk__in=ids))
