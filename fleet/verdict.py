"""What becomes of a fact that is told to a row."""

from enum import StrEnum


class Verdict(StrEnum):
    """What became of a fact."""

    APPLIED = "applied"
    REDUNDANT = "redundant"  # already known
    STALE = "stale"  # overtaken, or of another dispatch or attempt
    LATE = "late"  # about a mission that has ended: kept, changes no state
