"""What workers find wrong, for processes that cannot ask the database: a short-lived note in the live Redis.

An alert is a row, so a database that takes no writes cannot have one. `/readyz` and `manage.py status` read this.
"""

import logging
from typing import NamedTuple

import msgspec
import redis

from telemetry import snapshots

KEY = "trouble"  # hash: worker → (ms since 1970, {cause: text})
FRESH_MS = 20_000

log = logging.getLogger(__name__)


class _Note(NamedTuple):
    at_ms: int
    causes: dict[str, str]


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(_Note).decode


def put(worker: str, causes: dict[str, str]) -> None:
    """This worker finds these now. Lossy."""
    try:
        with snapshots.client().pipeline(transaction=False) as pipe:
            pipe.hset(KEY, worker, _encode(_Note(snapshots.now_ms(), causes)))
            pipe.pexpire(KEY, FRESH_MS)
            pipe.execute()
    except (redis.RedisError, OSError) as error:
        log.debug("what is wrong is not noted: %s", error)


def read() -> dict[str, str]:
    """Cause → text, of workers that looked lately. Empty when the live Redis does not answer: `/readyz` says that."""
    try:
        notes = snapshots.client().hgetall(KEY)
    except (redis.RedisError, OSError):
        return {}
    found: dict[str, str] = {}
    now = snapshots.now_ms()
    for raw in notes.values():
        try:
            note = _decode(raw)
        except msgspec.MsgspecError:
            continue
        if abs(now - note.at_ms) <= FRESH_MS:
            found |= note.causes
    return found
