"""Rows read and changed by the hundred, with few statements: what `fleet.commit` and the worker's batches stand on.

The ORM would take several times as long to compile the same statements, to fill the objects and to hand over lists.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import psycopg
from django.db import connection, models
from django.db.models.base import ModelState
from psycopg.pq import PipelineStatus
from psycopg.types.datetime import TimestamptzLoader

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Cursor(psycopg.Cursor[Any]):
    """Statements are prepared when they recur (in a worker: `telemetry.worker.process.prepare`); times are read in C."""

    def __init__(self) -> None:
        connection.ensure_connection()
        super().__init__(connection.connection)
        self.adapters.register_loader("timestamptz", TimestamptzLoader)


def ask(sql: str, values: Sequence[Any] = ()) -> Cursor:
    """Send a statement. Within `pipeline()` the answer comes when it is fetched, or at its end."""
    cursor = Cursor()
    cursor.execute(sql, values)
    return cursor


@contextmanager
def pipeline() -> Iterator[None]:
    """`with pipeline():` what is asked in it goes out at once, without waiting for one answer after the other.

    For `ask`, what is built on it, and what the ORM inserts: who counts the rows of an ORM's answer wants it at once, and
    so does COPY. Within another it is part of that one.
    """
    connection.ensure_connection()
    session: psycopg.Connection[Any] = connection.connection
    if session.info.pipeline_status is not PipelineStatus.OFF:
        yield
        return
    with session.pipeline():
        yield
    # psycopg's last word is a Flush, and any word stops PostgreSQL's clock of idle transactions until the next answer:
    # a worker frozen after it would hold its partition for ever
    session.execute("")


def array(values: Iterable[Any]) -> Any:
    """A list for `%s::type[]`. A JSON array of plain values is an array literal but for its brackets, bytes are base64."""
    values = list(values)
    text = _encode(values).decode()
    if "\\" in text and "\\" in text.replace("\\\\", "").replace('\\"', ""):
        return values  # other escapes than these two differ
    return f"{{{text[1:-1]}}}"


def arrays(table: Iterable[Sequence[Any]], width: int) -> list[Any]:
    """The columns of a table of that many, each for `%s::type[]`."""
    lines = list(table)
    return [array(line[n] for line in lines) for n in range(width)]


def select(model: type[models.Model], column: str, values: Iterable[Any], rest: str = "") -> Cursor:
    """Ask for the rows where `column` is one of the values; `fill` makes objects of the answer."""
    return ask(f'{_select(model)[0]} WHERE "{column}" = ANY(%s::{kind(model, column)}[]) {rest}', [array(set(values))])


def fill(model: type[models.Model], answer: Cursor) -> list[Any]:
    """Objects as `Model.from_db` makes them."""
    _, names, converters = _select(model)
    found = []
    for row in answer.fetchall():
        filled = model.__new__(model)
        filled._state = ModelState()
        filled._state.adding, filled._state.db = False, connection.alias
        columns = filled.__dict__
        columns.update(zip(names, row, strict=True))
        for name, convert in converters:
            columns[name] = convert(columns[name], None, connection)
        found.append(filled)
    return found


@cache
def _select(model: type[models.Model]) -> tuple[str, list[str], list[tuple[str, Any]]]:
    """SELECT … FROM, the attributes it fills, and which of them the field converts."""
    fields: list[Any] = list(model._meta.concrete_fields)
    plain = {f.attname for f in fields if type(f) is models.JSONField and f.decoder is None}
    converters = [
        (f.attname, f.from_db_value) for f in fields if hasattr(f, "from_db_value") and f.attname not in plain
    ]
    converters += [(name, _json_value) for name in sorted(plain)]
    columns = ", ".join(f'"{f.column}"' for f in fields)
    return f'SELECT {columns} FROM "{model._meta.db_table}"', [f.attname for f in fields], converters


def _json_value(text: str | None, *_: Any) -> Any:
    return None if text is None else _decode(text)


def update(
    model: type[models.Model],
    keys: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Any],
    *,
    before: Sequence[int] = (),
) -> Cursor:
    """Ask for one UPDATE of these columns of many rows. `before`: only rows that are of this version.

    `rowcount` of the answer says how many there were.
    """
    named = (*keys, *columns)
    arrays = [
        array(getattr(row, name) for row in rows) if (name not in _json(model)) else _texts(rows, name)
        for name in named
    ]
    return ask(
        _update(model, tuple(keys), tuple(columns), bool(before)), [*arrays, *([array(before)] if before else [])]
    )


def _texts(rows: Iterable[Any], name: str) -> list[str | None]:
    """JSON documents, each as its text."""
    values = [getattr(row, name) for row in rows]
    return [None if value is None else _encode(value).decode() for value in values]


@cache
def _json(model: type[models.Model]) -> frozenset[str]:
    return frozenset(f.attname for f in model._meta.concrete_fields if isinstance(f, models.JSONField))


@cache
def _update(model: type[models.Model], keys: tuple[str, ...], columns: tuple[str, ...], versioned: bool) -> str:
    """UPDATE … FROM unnest: one array per column."""
    named = (*keys, *columns)
    cast = {name: "::jsonb" if name in _json(model) else "" for name in named}
    kinds = ["text" if cast[name] else kind(model, name) for name in named] + ["int"] * versioned
    return (
        f'UPDATE "{model._meta.db_table}" t SET '
        + ", ".join(f'"{c}" = u."{c}"{cast[c]}' for c in columns)
        + f" FROM unnest({', '.join(f'%s::{k}[]' for k in kinds)}) AS u("
        + ", ".join([*(f'"{name}"' for name in named), *["before"] * versioned])
        + ") WHERE "
        + " AND ".join(f't."{key}" = u."{key}"' for key in keys)
        + " AND t.version = u.before" * versioned
    )


def insert(model: type[models.Model], columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> Cursor:
    """Ask for one INSERT of rows in their order, given as the values of these columns."""
    return ask(_insert(model, tuple(columns)), arrays(lines, len(columns)))


@cache
def _insert(model: type[models.Model], columns: tuple[str, ...]) -> str:
    kinds = {name: kind(model, name) for name in columns}
    given = ", ".join(f"%s::{'text' if k == 'bytea' else k}[]" for k in kinds.values())
    wanted = ", ".join(
        f"decode(u.\"{name}\", 'base64')" if k == "bytea" else f'u."{name}"' for name, k in kinds.items()
    )
    names = ", ".join(f'"{name}"' for name in columns)
    return f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {wanted} FROM unnest({given}) AS u({names})'


@cache
def kind(model: type[models.Model], column: str) -> str:
    """PostgreSQL's type of a column."""
    field: Any = model._meta.get_field(column)
    return str(field.db_type(connection)).split("(")[0].removesuffix(" GENERATED BY DEFAULT AS IDENTITY")
