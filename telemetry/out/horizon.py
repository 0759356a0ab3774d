"""Up to which event the history is complete: no event with a smaller id can still be committed.

Ids are given before the commit, so a plain `id > last` would skip events of a transaction that commits late. Whoever
writes an event holds a lock on the table from before it gets an id until after its commit shows; so once everybody
who held that lock when the newest id was looked up has let go, everything up to that id is there or never will be.
"""

from functools import cache
from typing import Any

from django.db import connection

_WRITERS = (
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND relation = 'fleet_event'::regclass AND pid <> pg_backend_pid()"
)


class Horizon:
    """`look` again and again; it remembers for whom it waits.

    While somebody always writes, what was the newest id is safe as soon as those of then are done. READ COMMITTED.
    """

    def __init__(self) -> None:
        self.safe = 0
        self._next = 0
        self._waits_for: set[str] | None = None

    def look(self) -> int:
        """The largest id up to which the history is complete. Never goes back."""
        with connection.cursor() as cursor:
            if self._waits_for is None:
                self._next = _newest(cursor)  # first: who gets an id from here on has a larger one
                self._waits_for = _writers(cursor)
            else:
                self._waits_for &= _writers(cursor)
        if not self._waits_for:
            self.safe, self._waits_for = max(self.safe, self._next), None
        return self.safe


def _newest(cursor: Any) -> int:
    """The newest id that was given out, whether or not its event is there."""
    cursor.execute(f"SELECT last_value, is_called FROM {_sequence()}")
    last, given = cursor.fetchone()
    return int(last) if given else int(last) - 1


@cache
def _sequence() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_serial_sequence('fleet_event', 'id')")
        return str(cursor.fetchone()[0])


def _writers(cursor: Any) -> set[str]:
    cursor.execute(_WRITERS)
    return {who for (who,) in cursor.fetchall()}
