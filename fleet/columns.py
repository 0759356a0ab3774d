"""What a column of a site, place or brand may hold, checked once for forms, imports and programs."""

import math
from typing import Any

from django.db import connection, models

from fleet.robots.actions import Refused

MAX_NAME = 200


def checked_name(column: str, text: Any) -> str:
    """A name of 1 to 200 characters without NUL. Raises `Refused` that begins with the column."""
    text = str(text).strip()
    if "\x00" in text:
        raise Refused(f"{column}: Text must not contain the NUL character.")
    if not 1 <= len(text) <= MAX_NAME:
        raise Refused(f"{column}: Give it a name of at most {MAX_NAME} characters.")
    return text


def number(column: str, value: Any, low: float, high: float, unit: str) -> float:
    """A finite number within bounds. Raises `Refused` that begins with the column."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not low <= found <= high:
        raise Refused(f"{column}: From {low:g} to {high:g} {unit}.")
    return found + 0.0  # no -0.0


def whole(column: str, value: Any, low: int, high: int, unit: str) -> int:
    """A whole number within bounds. Raises `Refused` that begins with the column."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refused(f"{column}: From {low} to {high} {unit}.")
    return value


def next_pk(model: type[models.Model]) -> int:
    """The key of a row to come: its first event, which is written before it, names it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [model._meta.db_table])
        return int(cursor.fetchone()[0])
