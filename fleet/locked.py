"""One row under lock, for a verb of people or programs."""

from typing import Any

from fleet.commit import load
from fleet.history import AGGREGATES, Change
from fleet.refusals import Refused


def one(kind: str, pk: Any) -> Change:
    """The site, brand, template … of this key, as a change to be. Raises `Refused` when there is none."""
    found = load(AGGREGATES[kind], [pk])
    if pk not in found:
        raise Refused(f"There is no {kind} {pk}.")
    return found[pk]
