"""The only code that writes robots, missions, their children, events and commands.

One change from a page or hundreds from the worker take the same way: events first, then rows, then commands.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import zip_longest
from typing import Any

import psycopg
from django.db import connection, models, transaction

from fleet import alert_rows
from fleet.history import AGGREGATES, GENESIS, HASHED, Aggregate, Change, digest, encode
from fleet.models import Command, Event


class Conflict(Exception):
    """Somebody else changed the row since it was read: drop the objects and do it again."""


def load(
    aggregate: Aggregate,
    pks: Iterable[Any],
    *,
    children: dict[str, models.Q] | None = None,
    skip_locked: bool = False,
) -> dict[Any, Change]:
    """Rows locked in the order of their keys, with the children a change needs. Absent rows are left out.

    `children` overrides the aggregate's `wanted`, e.g. `{"credentials": Q()}` for all of them. With `skip_locked`, rows
    that somebody else holds are left out as well, instead of being waited for.
    """
    skip = " SKIP LOCKED" if skip_locked else ""
    wanted = {**aggregate.wanted, **(children or {})}
    pk = aggregate.model._meta.pk
    assert pk is not None
    connection.ensure_connection()
    with connection.wrap_database_errors:
        rows = _read(aggregate.model, pk.attname, pks, f'ORDER BY "{pk.column}" FOR NO KEY UPDATE{skip}')
        changes = {row.pk: Change(aggregate, row, {name: {} for name in aggregate.children}) for row in rows}
        for name, model in aggregate.children.items() if changes else ():
            parent = aggregate.parent(name)
            for child in _read(model, parent, changes, _and_null(wanted.get(name))):
                changes[getattr(child, parent)].children[name][child.number] = child
    return changes


def _read(model: type[models.Model], column: str, values: Iterable[Any], rest: str) -> list[Any]:
    """Rows where the column is one of the values. The ORM would take seven times as long to compile the same."""
    head, names, converters = _select(model)
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(f'{head} WHERE "{column}" = ANY(%s) {rest}', [list(set(values))])
        found = cursor.fetchall()
    for index, convert in converters:
        found = [(*row[:index], convert(row[index], None, connection), *row[index + 1 :]) for row in found]
    return [model.from_db(connection.alias, names, row) for row in found]


@cache
def _select(model: type[models.Model]) -> tuple[str, list[str], list[tuple[int, Any]]]:
    """SELECT … FROM, the attributes it fills, and which of them the field converts."""
    fields: list[Any] = list(model._meta.concrete_fields)
    converters = [(n, f.from_db_value) for n, f in enumerate(fields) if hasattr(f, "from_db_value")]
    columns = ", ".join(f'"{f.column}"' for f in fields)
    return f'SELECT {columns} FROM "{model._meta.db_table}"', [f.attname for f in fields], converters


def _and_null(wanted: models.Q | None) -> str:
    """`Q(released_at=None)` as SQL; `wanted` is nothing but columns that must be null."""
    conditions = wanted.children if wanted is not None else ()
    if any(not isinstance(c, tuple) or c[1] is not None for c in conditions):
        raise ValueError(f"cannot narrow by {wanted}: only by columns that are null")
    return "".join(f' AND "{c[0]}" IS NULL' for c in conditions if isinstance(c, tuple))


def new(aggregate: Aggregate, pk: Any) -> Change:
    """A change that will make the row `pk`."""
    return Change(aggregate, aggregate.model(pk=pk), {name: {} for name in aggregate.children})


EVENT_COLUMNS = (*HASHED, "prev_hash", "hash", "site_id")
_COPY_EVENTS = f"COPY {Event._meta.db_table} ({', '.join(EVENT_COLUMNS)}) FROM STDIN"


def commit(changes: Iterable[Change], *, now: datetime) -> None:
    """Write changes, inside the caller's transaction. Raises `Conflict` or `IntegrityError`; then nothing may be kept.

    Sends `robot_changed` / `mission_transitioned` once per call, after the transaction.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("commit() needs a transaction around the reading and the writing")
    changes = [c for c in changes if c.events or c.commands or c.command_moves]
    if not changes:
        return
    changes += alert_rows.changes_of(changes, now)  # what opens or clears by these events is of the same transaction
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        _write_events(cursor, changes, now)
        for aggregate in AGGREGATES.values():
            mine = [c for c in changes if c.aggregate is aggregate and c.events]
            _insert_rows(aggregate, [c for c in mine if not c.before])
            _update_rows(cursor, aggregate, [c for c in mine if c.before])
            _write_children(cursor, aggregate, mine)
    _write_commands(changes)
    transaction.on_commit(lambda: _announce(changes))


def _write_events(cursor: psycopg.Cursor[Any], changes: list[Change], now: datetime) -> None:
    known = [(c.name, c.before) for c in changes if c.before and c.events]
    last: dict[str, bytes] = {}
    if known:
        cursor.execute(
            f"SELECT e.aggregate, e.hash FROM {Event._meta.db_table} e"
            " JOIN unnest(%s::text[], %s::int[]) AS k(aggregate, seq) ON e.aggregate = k.aggregate AND e.seq = k.seq",
            ([name for name, _ in known], [seq for _, seq in known]),
        )
        last = {name: bytes(value) for name, value in cursor.fetchall()}
    if gone := [f"{name} has no event {seq}" for name, seq in known if name not in last]:
        raise Conflict("; ".join(gone))
    with cursor.copy(_COPY_EVENTS) as copy:
        for change in changes:
            prev, site = last.get(change.name, GENESIS), change.aggregate.site(change.row)
            for draft in change.events:
                who = draft.origin
                fields = (
                    change.name, draft.seq, draft.kind, 1, encode(draft.data), draft.state_from, draft.state_to,
                    who.actor_kind, who.actor_id, who.actor_name, who.cause, who.trace_id, who.span_id,
                    who.occurred_at or draft.at, now,
                )  # fmt: skip
                this = digest(prev, fields)
                copy.write_row((*fields, prev, this, site))
                prev = this


def _insert_rows(aggregate: Aggregate, changes: list[Change]) -> None:
    if changes:
        aggregate.model._default_manager.bulk_create([c.row for c in changes])


def _update_rows(cursor: psycopg.Cursor[Any], aggregate: Aggregate, changes: list[Change]) -> None:
    if not changes:
        return
    columns = sorted(set().union(*(c.touched for c in changes)))
    columns += [c for c in _derived(aggregate) if c not in columns]
    model = aggregate.model
    assert model._meta.pk is not None
    written = _update_from_arrays(
        cursor, model, [model._meta.pk.attname], columns, [c.row for c in changes],
        extra="t.version = u.before", arrays={"before": ("int", [c.before for c in changes])},
    )  # fmt: skip
    if written != len(changes):
        raise Conflict(f"{len(changes) - written} of {len(changes)} {model._meta.verbose_name} rows had moved on")


def _derived(aggregate: Aggregate) -> list[str]:
    return ["version"] + (["next_due_at"] if any(f.name == "next_due_at" for f in aggregate.model._meta.fields) else [])


def _write_children(cursor: psycopg.Cursor[Any], aggregate: Aggregate, changes: list[Change]) -> None:
    for name, model in aggregate.children.items():
        new: list[Any] = []
        old: list[Any] = []
        columns: set[str] = set()
        for change in changes:
            for number, touched in change.touched_children.get(name, {}).items():
                if "gone" in touched:
                    model._default_manager.filter(**{aggregate.parent(name): change.row.pk, "number": number}).delete()
                elif "new" in touched:
                    new.append(change.children[name][number])
                elif touched:
                    old.append(change.children[name][number])
                    columns |= touched
        if new:
            model._default_manager.bulk_create(new)
        if old:
            written = _update_from_arrays(cursor, model, [aggregate.parent(name), "number"], sorted(columns), old)
            if written != len(old):
                raise Conflict(f"{len(old) - written} {model._meta.verbose_name} rows are not there")


def _update_from_arrays(
    cursor: psycopg.Cursor[Any],
    model: type[models.Model],
    keys: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Any],
    *,
    extra: str = "TRUE",
    arrays: dict[str, tuple[str, list[Any]]] | None = None,
) -> int:
    """One UPDATE … FROM unnest for many rows; returns how many matched."""
    named = {c: _array(model, c, rows) for c in (*keys, *columns)} | {
        name: (f"{kind}[]", "", values) for name, (kind, values) in (arrays or {}).items()
    }
    sql = (
        f'UPDATE "{model._meta.db_table}" t SET '
        + ", ".join(f'"{c}" = u."{c}"{named[c][1]}' for c in columns)
        + " FROM unnest("
        + ", ".join(f"%s::{kind}" for kind, _, _ in named.values())
        + ") AS u("
        + ", ".join(f'"{c}"' for c in named)
        + ") WHERE "
        + " AND ".join(f't."{key}" = u."{key}"' for key in keys)
        + f" AND {extra}"
    )
    cursor.execute(sql, [values for _, _, values in named.values()])
    return cursor.rowcount


def _array(model: type[models.Model], column: str, rows: Sequence[Any]) -> tuple[str, str, list[Any]]:
    """PostgreSQL array type, cast back, and the values of one column."""
    field: Any = model._meta.get_field(column)
    kind = field.db_type(connection).split("(")[0].removesuffix(" GENERATED BY DEFAULT AS IDENTITY")
    values = [v.value if isinstance(v := getattr(row, column), Enum) else v for row in rows]
    if kind == "jsonb":
        return "text[]", "::jsonb", [None if v is None else encode(v) for v in values]
    return f"{kind}[]", "", values


def _write_commands(changes: list[Change]) -> None:
    for moves in zip_longest(*(c.command_moves for c in changes)):  # the first of each, the second of each, …
        alike: dict[tuple[Any, ...], list[Any]] = {}
        for change, move in zip(changes, moves, strict=True):
            if move is not None:
                alike.setdefault((change.aggregate.prefix, *move), []).append(change.row.pk)
        for (prefix, kinds, state, target), pks in alike.items():
            whose = {"robot__in": pks, "mission": None} if prefix == "robot" else {"mission__in": pks}
            commands = Command.objects.filter(**whose, state=state)
            (commands.filter(kind__in=kinds) if kinds else commands).update(state=target)
    new = [command for c in changes for command in c.commands]
    if new:
        Command.objects.bulk_create(new)


def _announce(changes: list[Change]) -> None:
    for aggregate in AGGREGATES.values():
        mine = [c for c in changes if c.aggregate is aggregate]
        if mine:
            aggregate.changed.send(sender=aggregate.model, changes=mine)
