"""Whose fault an exception is: the message's, another writer's, or a store's that is away.

Only what the message itself brings about is counted against it; all else is tried again from a fresh read.
"""

from enum import Enum

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from redis.exceptions import RedisError

from fleet.commit import Conflict
from missions.queue.dispatching import LOST_RACES
from telemetry.partitions import Lost


class Blame(Enum):
    MESSAGE = "application code raised: the message counts a failed try"
    RACE = "somebody else wrote the same rows: read again"
    LOST = "the partition has another owner"
    OUTAGE = "PostgreSQL or Redis is away"


RACES = {
    "event_seq_once", "event_chain", "event_seq_gapless", "processed_once", "watermark_once", "dead_letter_once",
    *LOST_RACES,
}  # fmt: skip
# SQLSTATE, or its class (the first two characters)
_STATES = {
    "40": Blame.RACE,  # serialization failure, deadlock
    "55P03": Blame.RACE,  # lock not available
    "0A000": Blame.RACE,  # cached plan must not change result type
    "54": Blame.MESSAGE,  # a value is too large for an index
    "08": Blame.OUTAGE,
    "25P03": Blame.OUTAGE,  # idle in transaction too long: this process was frozen
    "25006": Blame.OUTAGE,  # read only: a failover is under way
    "28": Blame.OUTAGE,
    "3D": Blame.OUTAGE,
    "53": Blame.OUTAGE,  # disk full, too many connections
    "57": Blame.OUTAGE,  # shutdown, cancelled
    "58": Blame.OUTAGE,
}


def blame(error: Exception) -> Blame:
    """Classify what applying a batch, or talking to the stores, raised."""
    if isinstance(error, Lost):
        return Blame.LOST
    if isinstance(error, Conflict):
        return Blame.RACE
    if isinstance(error, RedisError | InterfaceError):
        return Blame.OUTAGE
    if isinstance(error, IntegrityError):
        return Blame.RACE if _diag(error, "constraint_name") in RACES else Blame.MESSAGE
    if isinstance(error, DatabaseError):
        state = _diag(error, "sqlstate")
        found = _STATES.get(state) or _STATES.get(state[:2])
        return found or (Blame.OUTAGE if isinstance(error, OperationalError) else Blame.MESSAGE)
    return Blame.MESSAGE


def store_of(error: Exception) -> str:
    """Which store raised this, in the words of telemetry/watching/causes.py. A worker's own Redis is the durable one:
    what it asks of the live one may fail in silence.
    """
    return "the durable Redis" if isinstance(error, RedisError) else "PostgreSQL"


def _diag(error: DatabaseError, field: str) -> str:
    return getattr(getattr(error.__cause__, "diag", None), field, None) or ""
