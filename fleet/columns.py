"""What may be kept: names, texts, numbers and times, checked once for forms, imports and programs."""

import math
from datetime import UTC, datetime
from typing import Any

from fleet.refusals import Refused

MAX_NAME = 200
MAX_REASON = 500  # characters
FIRST_TIME, END_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)  # of what people may say


def checked_name(column: str, text: Any) -> str:
    """A name of 1 to 200 characters without NUL. Raises `Refused` that begins with the column."""
    text = str(text).strip()
    if "\x00" in text:
        raise Refused(f"{column}: Text must not contain the NUL character.")
    if not 1 <= len(text) <= MAX_NAME:
        raise Refused(f"{column}: Give it a name of at most {MAX_NAME} characters.")
    return text


def plain_text(text: str) -> str:
    if "\x00" in text:
        raise Refused("Text must not contain the NUL character.")
    if not storable(text):
        raise Refused("Text must be valid Unicode.")
    return text


def accepted_text(reason: str) -> str:
    """A reason that can always be kept: stop and cancel must not fail for the words that come with them (I13)."""
    return reason.replace("\x00", "").encode(errors="replace").decode().strip()[:MAX_REASON]


def storable(text: str) -> bool:
    """Whether it can be written in UTF-8: half a surrogate pair, which JSON can spell, cannot."""
    return text.isascii() or text.encode(errors="replace").decode() == text


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


def kept_time(name: str, at: datetime) -> None:
    """Refuse a time that PostgreSQL keeps and Python cannot read back, in UTC: such a row breaks each list that it is in."""
    if not FIRST_TIME <= at < END_OF_TIME:
        raise Refused(f"{name}: Choose a time from {FIRST_TIME:%Y} to {END_OF_TIME.year - 1}.")
