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
    """This worker finds these now. Lossy. Notes of workers that are gone are taken away."""
    live, now = snapshots.client(), snapshots.now_ms()
    try:
        with live.pipeline(transaction=False) as pipe:
            pipe.hset(KEY, worker, _encode(_Note(now, causes)))
            pipe.pexpire(KEY, FRESH_MS)
            pipe.hgetall(KEY)
            notes = pipe.execute()[-1]
        if gone := [name for name, raw in notes.items() if _fresh(raw, now) is None]:
            live.hdel(KEY, *gone)
    except (redis.RedisError, OSError) as error:
        log.debug("what is wrong is not noted: %s", error)


def read() -> dict[str, str]:
    """Cause → text, of workers that looked lately. Empty when the live Redis does not answer: `/readyz` says that."""
    try:
        notes = snapshots.client().hgetall(KEY)
    except (redis.RedisError, OSError):
        return {}
    found: dict[str, str] = {}
    for raw in notes.values():
        if (note := _fresh(raw, snapshots.now_ms())) is not None:
            found |= note.causes
    return found


def _fresh(raw: bytes, now_ms: int) -> _Note | None:
    """The note, if it can be read and is not old."""
    try:
        note = _decode(raw)
    except msgspec.MsgspecError:
        return None
    return note if abs(now_ms - note.at_ms) <= FRESH_MS else None
