"""Pages of a list by cursor: the next one begins after the last row of this one, whatever came in meanwhile."""

import base64
from typing import Any

import msgspec
from django.core.exceptions import ValidationError
from django.db.models import BooleanField, F, QuerySet
from django.db.models.expressions import Func, Value
from django.db.models.lookups import GreaterThan, LessThan

from telemetry.api.problems import Wrong

LIMIT = 50
MAX_LIMIT = 200


class Tuple(Func):
    """A row value, `(a, b)`: PostgreSQL compares it as a whole, by an index if there is one."""

    template = "(%(expressions)s)"
    arg_joiner = ", "
    output_field = BooleanField()  # Django wants one; what is compared is the row value


def page(rows: QuerySet[Any], by: tuple[str, ...], cursor: str, limit: int) -> tuple[list[Any], str | None]:
    """At most `limit` rows after the cursor, and the cursor of what follows (None at the end).

    `by` names the columns that order it, all in one direction (`-` before each: descending); together they are unique.
    """
    names = [name.lstrip("-") for name in by]
    rows = rows.order_by(*by)
    if cursor:
        compare = LessThan if by[0].startswith("-") else GreaterThan
        fields = [rows.model._meta.get_field(name) for name in names]
        last = [Value(value, output_field=field) for value, field in zip(_read(cursor, fields), fields, strict=True)]
        rows = rows.filter(compare(Tuple(*map(F, names)), Tuple(*last)))
    found = list(rows[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    return found, _write([getattr(found[-1], name) for name in names]) if more else None


def _write(values: list[Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).decode().rstrip("=")


def _read(cursor: str, fields: list[Any]) -> list[Any]:
    try:
        values = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list)
        if len(values) != len(fields) or any("\x00" in v for v in values if isinstance(v, str)):
            raise ValueError
        return [field.to_python(value) for field, value in zip(fields, values, strict=True)]
    except (ValueError, TypeError, msgspec.MsgspecError, ValidationError):
        raise Wrong("cursor", "This is no cursor of this list. Use `next` of the page before as it is.") from None
