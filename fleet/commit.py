"""The only code that writes robots, missions, their children, events and commands.

One change from a page or hundreds from the worker take the same way: events first, then rows, then commands.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from itertools import zip_longest
from typing import Any

from django.db import connection, models, transaction

from fleet import rows
from fleet.alerts import rows as alert_rows
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
    with connection.wrap_database_errors, rows.pipeline():
        return loading(aggregate, pks, children=children, skip_locked=skip_locked)()


def loading(
    aggregate: Aggregate,
    pks: Iterable[Any],
    *,
    children: dict[str, models.Q] | None = None,
    skip_locked: bool = False,
) -> Callable[[], dict[Any, Change]]:
    """As `load`, in a pipeline: asks now, the answer is what the result returns when called."""
    skip = " SKIP LOCKED" if skip_locked else ""
    wanted = {**aggregate.wanted, **(children or {})}
    pk = aggregate.model._meta.pk
    assert pk is not None
    if not (pks := set(pks)):
        return dict
    asked = rows.select(aggregate.model, pk.attname, pks, f'ORDER BY "{pk.column}" FOR NO KEY UPDATE{skip}')
    belong = {
        name: rows.select(model, aggregate.parent(name), pks, _and_null(wanted.get(name)))
        for name, model in aggregate.children.items()
    }
    hashes = rows.ask(
        f"SELECT t.{pk.column}, e.hash FROM {aggregate.model._meta.db_table} t JOIN {Event._meta.db_table} e"
        f" ON e.aggregate = '{aggregate.prefix}:' || t.{pk.column} AND e.seq = t.version"
        f" WHERE t.{pk.column} = ANY(%s::{rows.kind(aggregate.model, pk.attname)}[])",
        [rows.array(pks)],
    )
    return lambda: _loaded(aggregate, asked, belong, hashes)


def _loaded(
    aggregate: Aggregate, asked: rows.Cursor, belong: dict[str, rows.Cursor], hashes: rows.Cursor
) -> dict[Any, Change]:
    found = rows.fill(aggregate.model, asked)
    changes = {row.pk: Change(aggregate, row, {name: {} for name in aggregate.children}) for row in found}
    for name, answer in belong.items():
        parent = aggregate.parent(name)
        for child in rows.fill(aggregate.children[name], answer):
            if (change := changes.get(getattr(child, parent))) is not None:
                change.children[name][child.number] = child
    for key, value in hashes.fetchall():
        if key in changes:
            changes[key].last_hash = bytes(value)
    return changes


def _and_null(wanted: models.Q | None) -> str:
    """`Q(released_at=None)` as SQL; `wanted` is nothing but columns that must be null."""
    conditions = wanted.children if wanted is not None else ()
    if any(not isinstance(c, tuple) or c[1] is not None for c in conditions):
        raise ValueError(f"cannot narrow by {wanted}: only by columns that are null")
    return "".join(f' AND "{c[0]}" IS NULL' for c in conditions if isinstance(c, tuple))


def new(aggregate: Aggregate, pk: Any) -> Change:
    """A change that will make the row `pk`."""
    return Change(aggregate, aggregate.model(pk=pk), {name: {} for name in aggregate.children})


def next_pk(model: type[models.Model]) -> int:
    """The key of a row to come: its first event, which is written before it, names it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [model._meta.db_table])
        return int(cursor.fetchone()[0])


EVENT_COLUMNS = (*HASHED, "prev_hash", "hash", "site_id")


def commit(changes: Iterable[Change], *, now: datetime, also: Callable[[], None] = lambda: None) -> None:
    """Write changes, inside the caller's transaction. Raises `Conflict` or `IntegrityError`; then nothing may be kept.

    `also` asks for what else is to be written; all of it goes to the database together, in one wait. Sends `robot_changed` / `mission_transitioned` once per call, after the transaction.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("commit() needs a transaction around the reading and the writing")
    changes = [c for c in changes if c.events or c.commands or c.command_moves]
    if not changes:
        with connection.wrap_database_errors, rows.pipeline():
            also()
        return
    changes += alert_rows.changes_of(changes, now)  # what opens or clears by these events is of the same transaction
    told = [c for c in changes if c.events]
    with connection.wrap_database_errors:
        hashes = _last_hashes(told)
        with rows.pipeline():
            rows.insert(Event, EVENT_COLUMNS, _events(told, hashes, now))
            for aggregate, mine in _by_aggregate(told):
                _insert(aggregate, mine)
            asked = [update for aggregate, mine in _by_aggregate(told) for update in _updates(aggregate, mine)]
            _write_commands(changes)
            also()
    for model, wanted, answer in asked:
        if answer.rowcount != wanted:
            raise Conflict(f"{wanted - answer.rowcount} of {wanted} {model._meta.verbose_name} rows had moved on")
    transaction.on_commit(lambda: _announce(changes))


def _by_aggregate(changes: list[Change]) -> Iterator[tuple[Aggregate, list[Change]]]:
    for aggregate in AGGREGATES.values():
        if mine := [c for c in changes if c.aggregate is aggregate]:
            yield aggregate, mine


def _last_hashes(changes: list[Change]) -> dict[str, bytes]:
    """Of the last event of each aggregate that has any."""
    last = {c.name: c.last_hash for c in changes if c.last_hash}
    known = [(c.name, c.before) for c in changes if c.before and not c.last_hash]
    if known:
        answer = rows.ask(
            f"SELECT e.aggregate, e.hash FROM {Event._meta.db_table} e"
            " JOIN unnest(%s::text[], %s::int[]) AS k(aggregate, seq) ON e.aggregate = k.aggregate AND e.seq = k.seq",
            [rows.array(name for name, _ in known), rows.array(seq for _, seq in known)],
        )
        last |= {name: bytes(value) for name, value in answer.fetchall()}
    if gone := [f"{name} has no event {seq}" for name, seq in known if name not in last]:
        raise Conflict("; ".join(gone))
    return last


def _events(changes: list[Change], last: dict[str, bytes], now: datetime) -> Iterator[tuple[Any, ...]]:
    """Rows of the history, each chained to the one before."""
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
            yield (*fields, prev, this, site)
            prev = this


def _insert(aggregate: Aggregate, changes: list[Change]) -> None:
    """Rows and children that are new; children that are gone."""
    if new := [c.row for c in changes if not c.before]:
        aggregate.model._default_manager.bulk_create(new)
    for name, model in aggregate.children.items():
        new = []
        for change in changes:
            for number, touched in change.touched_children.get(name, {}).items():
                if "gone" in touched:
                    model._default_manager.filter(**{aggregate.parent(name): change.row.pk, "number": number}).delete()
                elif "new" in touched:
                    new.append(change.children[name][number])
        if new:
            model._default_manager.bulk_create(new)


def _updates(aggregate: Aggregate, changes: list[Change]) -> Iterator[tuple[type[models.Model], int, rows.Cursor]]:
    """The model, how many of its rows there should be, the answer."""
    old = [c for c in changes if c.before]
    if old:
        model = aggregate.model
        assert model._meta.pk is not None
        columns = sorted(_derived(model).union(*(c.touched for c in old)))
        answer = rows.update(
            model, [model._meta.pk.attname], columns, [c.row for c in old], before=[c.before for c in old]
        )
        yield model, len(old), answer
    for name, model in aggregate.children.items():
        touched = [
            (change.children[name][number], columns)
            for change in changes
            for number, columns in change.touched_children.get(name, {}).items()
            if columns and not columns & {"gone", "new"}
        ]
        if touched:
            columns = sorted(set().union(*(columns for _, columns in touched)))
            answer = rows.update(model, [aggregate.parent(name), "number"], columns, [row for row, _ in touched])
            yield model, len(touched), answer


@cache
def _derived(model: type[models.Model]) -> frozenset[str]:
    """Columns that change with every event."""
    return frozenset({"version", "next_due_at"} & {f.name for f in model._meta.fields})


def _write_commands(changes: list[Change]) -> None:
    for moves in zip_longest(*(c.command_moves for c in changes)):  # the first of each, the second of each, …
        alike: dict[tuple[Any, ...], list[Any]] = {}
        for change, move in zip(changes, moves, strict=True):
            if move is not None:
                alike.setdefault((change.aggregate.prefix, *move), []).append(change.row.pk)
        for (prefix, kinds, state, target), pks in alike.items():
            whose = (
                "robot_id = ANY(%s::text[]) AND mission IS NULL" if prefix == "robot" else "mission = ANY(%s::uuid[])"
            )
            rows.ask(
                f"UPDATE {Command._meta.db_table} SET state = %s WHERE {whose} AND state = %s"
                " AND (%s::text[] = '{}' OR kind = ANY(%s::text[]))",
                [target, rows.array(pks), state, rows.array(kinds), rows.array(kinds)],
            )
    new = [command for c in changes for command in c.commands]
    if new:
        Command.objects.bulk_create(new)


def _announce(changes: list[Change]) -> None:
    for aggregate, mine in _by_aggregate(changes):
        aggregate.changed.send(sender=aggregate.model, changes=mine)
