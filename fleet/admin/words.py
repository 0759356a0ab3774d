"""Where a refusal belongs in a form: one that begins with `column:` goes to that field."""

from typing import Any

FIELDS = {"nodes": None}  # a column that has no field of that name


def to_field(form: Any, error: Exception) -> None:
    """Add the refusal to the form: `x: From 0 to 9 metres.` to the field x, anything else to the form."""
    column, colon, reason = str(error).partition(": ")
    if colon and column in form.fields:
        form.add_error(column, reason)
    else:
        form.add_error(None, reason if colon and column in FIELDS else str(error))
