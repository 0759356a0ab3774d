"""What is asked of a brand: pure rules from a fact to recorded events."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet import edited
from fleet.history import Change
from fleet.verdict import Verdict


@dataclass(frozen=True, slots=True)
class SetBrand:
    """Columns of the brand; the first one makes it."""

    columns: dict[str, Any]


def decide(change: Change, fact: SetBrand, now: datetime) -> Verdict:
    """Record what the fact means for the brand. No I/O, no clock."""
    change.now = now
    if not change.row.version:
        change.record("brand.created", **fact.columns)
        return Verdict.APPLIED
    new = edited.changed(change.row, fact.columns)
    if not new:
        return Verdict.REDUNDANT
    change.record("brand.edited", **new, what=edited.words(change.row, new))
    return Verdict.APPLIED
