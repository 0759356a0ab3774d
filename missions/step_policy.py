"""What is to be done when a step takes too long or fails: how it is said, checked and copied."""

from collections.abc import Mapping
from typing import Any

from fleet.refusals import Refused
from missions import command_types
from missions.models import Then

COLUMNS = ("repeatable", "confirm", "timeout_retries", "failure_retries", "timeout_then", "failure_then")
MAX_RETRIES = 10


def checked(number: int, step: Mapping[str, Any]) -> dict[str, Any]:
    """The policy of step `number` as it is stored; what is not said is its command type's. Raises `Refused`."""
    known = command_types.TYPES[step["command"]]
    defaults = {
        "repeatable": known.repeatable, "confirm": known.confirm, "timeout_retries": 0, "failure_retries": 0,
        "timeout_then": Then.ABORT.value, "failure_then": Then.ABORT.value,
    }  # fmt: skip
    found = {column: defaults[column] if step.get(column) in (None, "") else step[column] for column in COLUMNS}
    for column in ("repeatable", "confirm"):
        if not isinstance(found[column], bool):
            raise Refused(f"Step {number}, {column}: Yes or no.")
    for column in ("timeout_retries", "failure_retries"):
        if (
            isinstance(found[column], bool)
            or not isinstance(found[column], int)
            or not 0 <= found[column] <= MAX_RETRIES
        ):
            raise Refused(f"Step {number}, {column}: From 0 to {MAX_RETRIES}.")
    for column in ("timeout_then", "failure_then"):
        if found[column] not in Then.values:
            raise Refused(f"Step {number}, {column}: Choose one of {', '.join(Then.values)}.")
        found[column] = str(found[column])
    if known.confirm and not found["confirm"]:
        raise Refused(f"Step {number}, confirm: {known.label} counts as done only by the robot's own word.")
    if found["timeout_retries"] and not found["repeatable"]:
        raise Refused(
            f"Step {number}, timeout_retries: It is not repeatable, and nobody knows after a timeout whether it was done."
            " Mark it as repeatable, or try it again only after a failure."
        )
    return found


def said(step: Mapping[str, Any]) -> dict[str, Any]:
    """Of what was said about a step, what concerns its policy."""
    return {column: step[column] for column in COLUMNS if step.get(column) not in (None, "")}


def of(step: Any) -> dict[str, Any]:
    """The policy of a stored step, to be said again."""
    return {column: getattr(step, column) for column in COLUMNS}
