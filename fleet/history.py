"""History: the catalogue of event kinds, how an event changes a row, and how rows are folded from events.

The same `Change.apply` serves the live path and the replay, so a row can only be what its events say (I9).
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import models
from django.dispatch import Signal

from fleet import logs

MAX_NAME = 200  # characters of an actor's name; first and last name may have 301
GENESIS = bytes(32)  # prev_hash of the first event of an aggregate
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the event catalogue.

    `sets` names the columns that the event may set: `column` of the row, `steps.column` of a child row.
    `notes` names data that is no column. `transition` is the FSM method that the event runs, if any.
    `text` is the sentence people read, a format string over the data; of `but` (name in the data, its value, text) the
    first that the data have comes in its place.
    """

    name: str
    text: str
    sets: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset()
    transition: str = ""
    but: tuple[tuple[str, Any, str], ...] = ()


KINDS: dict[str, Kind] = {}


def kind(
    name: str, text: str, sets: str = "", *, notes: str = "", transition: str = "",
    but: tuple[tuple[str, Any, str], ...] = (),
) -> Kind:  # fmt: skip
    """Add a line to the catalogue. `sets` and `notes` are space-separated names."""
    if name in KINDS:
        raise ValueError(f"event kind {name} is already in the catalogue")
    KINDS[name] = Kind(name, text, frozenset(sets.split()), frozenset(notes.split()), transition, but)
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What is folded together: a row, its children (each with a `number`), and who hears of a change.

    `derive` sets columns that follow from others. `site` is the site that the row belongs to, if any. `changed` is sent after commit with `changes=[Change, …]`.
    `outside` names columns that history does not hold (secrets). `wanted` narrows which children a change reads.
    """

    prefix: str
    model: type[models.Model]
    children: dict[str, type[models.Model]]
    changed: Signal
    state: str = ""
    derive: Callable[[Any], None] = lambda row: None
    site: Callable[[Any], int | None] = lambda row: getattr(row, "site_id", None)
    outside: frozenset[str] = frozenset()
    wanted: dict[str, models.Q] = field(default_factory=dict)

    def name(self, pk: object) -> str:
        return f"{self.prefix}:{pk}"

    def parent(self, child: str) -> str:
        """Column of the child that points to the row, e.g. `mission_id`."""
        return next(f.attname for f in self.children[child]._meta.concrete_fields if f.related_model is self.model)


AGGREGATES: dict[str, Aggregate] = {}


@dataclass(frozen=True, slots=True)
class Origin:
    """Who and why (I8): stamped on every event that comes of one fact.

    `actor_kind` is user, robot, deadline, policy or system. `cause` is `message:<msg_id>`, `request:<id>` or
    `deadline:<kind>`. `occurred_at` is the time by the actor's clock, where that is not ours.
    """

    actor_kind: str
    actor_id: str = ""
    actor_name: str = ""
    cause: str = ""
    trace_id: str = ""
    span_id: str = ""
    occurred_at: datetime | None = None


def by_user(user: Any) -> Origin:
    """The origin of what a signed-in person asks for."""
    return asked_by("user", str(user.pk), user.get_full_name() or user.get_username())


def asked_by(actor_kind: str, actor_id: str, actor_name: str) -> Origin:
    """The origin of what somebody asks for with the request under way, whose id its log lines and its answer carry."""
    here = logs.about()
    request = here.get(logs.REQUEST) or uuid.uuid4().hex
    trace = here.get("trace_id") or request
    return Origin(actor_kind, actor_id, actor_name[:MAX_NAME], cause_of(here.get(logs.WISH) or request), trace)


def cause_of(request: str) -> str:
    """Of events that follow from this request, or from the wish of a page that may be sent several times."""
    return f"request:{request}"


class Draft(NamedTuple):
    """An event that is not yet written."""

    kind: str
    data: dict[str, Any]
    seq: int
    state_from: str
    state_to: str
    origin: Origin
    at: datetime


@dataclass(slots=True)
class Change:
    """One aggregate in the hands of one transaction: row and children in memory, and what is to be written.

    After an exception the objects may be ahead of the database: drop them.
    """

    aggregate: Aggregate
    row: Any
    children: dict[str, dict[int, Any]]
    origin: Origin = Origin("system")
    now: datetime | None = None
    events: list[Draft] = field(default_factory=list)
    commands: list[Any] = field(default_factory=list)  # fleet.models.Command to be inserted
    command_moves: list[tuple[tuple[str, ...], str, str]] = field(default_factory=list)  # (kinds or all, from, to)
    follow: list[Any] = field(default_factory=list)  # facts for the robot that come of it
    touched: set[str] = field(default_factory=set)
    touched_children: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    before: int = -1  # version as read; 0 for a new row
    last_hash: bytes = b""  # of the event of that version, where the reading brought it along

    def __post_init__(self) -> None:
        self.before = self.row.version

    @property
    def state(self) -> str:
        return str(getattr(self.row, self.aggregate.state)) if self.aggregate.state else ""

    @property
    def name(self) -> str:
        return self.aggregate.name(self.row.pk)

    def record(self, name: str, /, **data: Any) -> None:
        """Something happened: change the row by it and keep the event for commit."""
        state_from = self.state if self.row.version else ""
        self.apply(KINDS[name], data)
        assert self.now is not None
        self.events.append(Draft(name, data, self.row.version, state_from, self.state, self.origin, self.now))

    def move_commands(self, kinds: tuple[str, ...], state: str, to: str) -> None:
        """Commands of this mission (of these kinds, or all) that are in one state go to another.

        Of a robot: its own commands, those that belong to no mission.
        """
        self.command_moves.append((kinds, state, to))
        for new in self.commands:
            if new.state == state and (not kinds or new.kind in kinds):
                new.state = to

    def apply(self, kind: Kind, data: dict[str, Any]) -> None:
        """Change the row and its children by one event. Raises when the catalogue or the machine does not allow it."""
        if kind.transition:
            getattr(self.row, kind.transition)()
            self.touched.add(self.aggregate.state)
        for key, value in data.items():
            if key in kind.sets:
                setattr(self.row, key, value)
                self.touched.add(key)
            elif key in self.children:
                for item in value:
                    self._apply_child(kind, key, item)
            elif key not in kind.notes:
                raise ValueError(f"{kind.name} may not carry {key!r}: see the event catalogue")
        self.row.version += 1
        self.aggregate.derive(self.row)

    def _apply_child(self, kind: Kind, name: str, item: dict[str, Any]) -> None:
        number, rows = item["number"], self.children[name]
        touched = self.touched_children.setdefault(name, {}).setdefault(number, set())
        if item.get("gone"):
            if f"{name}.gone" not in kind.sets:
                raise ValueError(f"{kind.name} may not remove from {name}")
            del rows[number]
            touched.clear()
            touched.add("gone")
            return
        if number not in rows:
            model = self.aggregate.children[name]
            rows[number] = model(**{self.aggregate.parent(name): self.row.pk, "number": number})
            touched.add("new")
        for column, value in item.items():
            if column == "number":
                continue
            if f"{name}.{column}" not in kind.sets:
                raise ValueError(f"{kind.name} may not set {name}.{column}: see the event catalogue")
            setattr(rows[number], column, value)
            touched.add(column)


def encode(data: dict[str, Any]) -> str:
    """Event data as the JSON text that is stored and hashed."""
    return _encode(data).decode()


def decode(aggregate: Aggregate, text: str) -> dict[str, Any]:
    """Stored event data with column values as Python objects again."""
    data: dict[str, Any] = _decode(text)
    for key, value in data.items():
        child = aggregate.children.get(key)
        if child is not None:
            for item in value:
                for column in item.keys() - {"gone"}:
                    item[column] = _to_python(child, column, item[column])
        else:
            data[key] = _to_python(aggregate.model, key, value)
    return data


def _to_python(model: type[models.Model], column: str, value: Any) -> Any:
    column_field = _columns(model).get(column)
    return value if value is None or column_field is None else column_field.to_python(value)


_columns_cache: dict[type[models.Model], dict[str, Any]] = {}


def _columns(model: type[models.Model]) -> dict[str, Any]:
    if model not in _columns_cache:
        _columns_cache[model] = {f.attname: f for f in model._meta.concrete_fields}
    return _columns_cache[model]


def digest(prev_hash: bytes, fields: tuple[Any, ...]) -> bytes:
    """SHA-256 over the hash before it and the stored fields of an event, in the order of `HASHED`."""
    return hashlib.sha256(prev_hash + _encode(fields)).digest()


HASHED = (
    "aggregate", "seq", "kind", "schema", "data", "state_from", "state_to", "actor_kind", "actor_id", "actor_name",
    "cause", "trace_id", "span_id", "occurred_at", "recorded_at",
)  # fmt: skip


def fold(aggregate: Aggregate, pk: Any, events: Iterable[Any]) -> Change:
    """Rebuild a row and its children from its events, oldest first. The FSM runs again, so illegal history raises."""
    change = Change(aggregate, aggregate.model(pk=pk), {name: {} for name in aggregate.children})
    for event in events:
        change.apply(KINDS[event.kind], decode(aggregate, event.data))
        if (event.seq, event.state_to) != (change.row.version, change.state):
            raise ValueError(f"{event} does not follow: row is at {change.row.version} {change.state}")
    return change


def differences(folded: Change, row: Any, children: dict[str, dict[int, Any]]) -> list[str]:
    """Where the rows in the database are not what their history says, in words."""
    found = _row_differences(folded.name, folded.aggregate, folded.row, row)
    for name, rows in children.items():
        expected = folded.children[name]
        for number in sorted(expected.keys() | rows.keys()):
            label = f"{folded.name} {name} {number}"
            if number not in rows or number not in expected:
                found.append(f"{label}: only in {'history' if number in expected else 'the table'}")
            else:
                found += _row_differences(label, folded.aggregate, expected[number], rows[number])
    return found


def _row_differences(label: str, aggregate: Aggregate, expected: Any, row: Any) -> list[str]:
    return [
        f"{label}: {column} is {getattr(row, column)!r}, history says {getattr(expected, column)!r}"
        for column, f in _columns(type(row)).items()
        if not (f.primary_key and f.get_internal_type().endswith("AutoField"))
        and column not in aggregate.outside
        and getattr(row, column) != getattr(expected, column)
    ]


def sentence(event: Any) -> str:
    """The event as people read it."""
    known = KINDS.get(event.kind)
    try:
        data = _decode(event.data)
    except msgspec.DecodeError:  # tampered with: the audit shows it all the same
        known = None
    if known is None:
        return str(event.kind)
    for item in data.get("steps", ()) if len(data.get("steps", ())) == 1 and "number" in data["steps"][0] else ():
        data = {**item, "step": item["number"], **data}
    text = next((text for name, value, text in known.but if data.get(name) is value), known.text)
    words = str(text.format_map(_Blank(data | labels(event.kind, data)))).strip()
    return words.removesuffix(" ()").strip().removesuffix(":")


def labels(kind_name: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Codes of the aggregate's own columns, as its model words them: operator is "cancelled by a person"."""
    aggregate = AGGREGATES.get(kind_name.partition(".")[0])
    columns = _columns(aggregate.model) if aggregate else {}
    choices = {name: dict(f.flatchoices) for name, f in columns.items() if name in data and f.choices}
    own = getattr(aggregate.model, "SAID_AS", {}) if aggregate else {}
    return {n: own.get(data[n]) or str(of[data[n]]).lower() for n, of in choices.items() if data[n] in of}


class _Blank(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return ""
