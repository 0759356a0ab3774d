"""How a refusal is told: in a sentence, at the field of a form that it names, or by that name to programs.

One that begins with `column:` is about that column (or step: `Step 2, place: Mars is no place of this site.`).
"""

from typing import Any

from fleet.commit import Conflict


class Refused(ValueError):
    """It cannot be done, and the text says why and what to do next."""


MOVED_ON = "Somebody changed it at the same moment: look at it again, then repeat."
NO_FIELD = {"nodes"}  # columns that forms have no field of that name for


def in_words(error: Exception) -> str:
    """For people. What a `Conflict` itself says is for the log."""
    return MOVED_ON if isinstance(error, Conflict) else str(error)


def named(error: Exception) -> tuple[str, str]:
    """(column, reason); the column is empty when it names none."""
    column, colon, reason = in_words(error).partition(": ")
    return (column, reason) if colon and not isinstance(error, Conflict) else ("", in_words(error))


def to_field(form: Any, error: Exception, prefix: str = "") -> None:
    """Add it to the form: `x: From 0 to 9 metres.` to the field x (or prefix and x), anything else to the form."""
    column, reason = named(error)
    field = next((name for name in (f"{prefix}{column}", column) if name in form.fields), None)
    form.add_error(field, reason if field or column in NO_FIELD else in_words(error))
