"""From the outbox to the stream `out`: committed events for those who follow them at their own pace.

`out` is derived from the history, so it is trimmed by size; a reader that fell behind goes on from the database. An
event may come twice (then with the same id), never out of order within its aggregate.
"""

import logging
from typing import Any

import msgspec
from django.db import connection, transaction

from fleet import rows

OUT = "out"
MAXLEN = 100_000
CLAIM = 1000
RETRY_S = 5.0
_LOCK = 0x0D07E7  # advisory lock: one relay at a time, because two would break the order

# of the JSON object that an entry carries; `data` is JSON text, as hashed
FIELDS = ("id", "aggregate", "seq", "kind", "data", "state_from", "state_to", "actor", "cause", "recorded_ms")

# KEYS: the stream. ARGV: how long it may be, then the events. A command for each would cost more than all the rest.
_APPEND = """
for i = 2, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'event', ARGV[i]) end
"""
_CLAIM = (
    "WITH claimed AS (DELETE FROM fleet_outbox WHERE event_id = ANY(ARRAY("
    "SELECT event_id FROM fleet_outbox ORDER BY event_id LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING event_id)"
    " SELECT e.id, e.aggregate, e.seq, e.kind, e.data, e.state_from, e.state_to, e.actor_name, e.cause,"
    " (extract(epoch FROM e.recorded_at) * 1000)::bigint"
    " FROM claimed JOIN fleet_event e ON e.id = claimed.event_id ORDER BY e.id"
)

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class Relay:
    """`step` from a loop: it never raises, so it can never hold up what comes in."""

    def __init__(self, redis: Any) -> None:
        self._script = redis.register_script(_APPEND)
        self._again_at = float("-inf")
        self._down = False

    def step(self, tick: float) -> bool:
        """Pass on up to `CLAIM` events. Says whether there were any. `tick` is monotonic, s."""
        if tick < self._again_at:
            return False
        try:
            found = self._pass_on()
        except Exception as error:  # whatever it is, what comes in goes on
            if not self._down:
                log.warning("events wait in the outbox: %s", error)
            self._down, self._again_at = True, tick + RETRY_S
            return False
        if self._down:
            log.info("the outbox flows again")
            self._down = False
        return found

    def _pass_on(self) -> bool:
        with transaction.atomic(), connection.wrap_database_errors:
            if not rows.ask("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK]).fetchone()[0]:  # type: ignore[index]
                return False
            events = rows.ask(_CLAIM, [CLAIM]).fetchall()
            if events:
                self._append(events)
        return bool(events)

    def _append(self, events: list[tuple[Any, ...]]) -> None:
        # one field for each: packing ten of them costs more than making one text
        self._script([OUT], [MAXLEN, *(_encode(dict(zip(FIELDS, event, strict=True))) for event in events)])
