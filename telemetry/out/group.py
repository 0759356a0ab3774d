"""One group that follows the events: at its own pace, each event once, from wherever it stopped.

The database is what it reads, by id up to the horizon; the stream `out` only wakes it. So a stream that was trimmed,
flushed or never filled makes no difference, and to catch up after a day is the same path as to follow.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction

from telemetry.out.horizon import Horizon
from telemetry.out.models import Follower

CHUNK = 1000  # events of one transaction
SPAN = 20_000  # ids that one transaction looks through

log = logging.getLogger(__name__)
_COLUMNS = "id, aggregate, kind, data, site_id, recorded_at"


class Told(NamedTuple):
    """An event as groups get it; `data` is JSON text."""

    id: int
    aggregate: str
    kind: str
    data: str
    site_id: int | None
    recorded_at: datetime


class Group(NamedTuple):
    """What a group wants and does. `kinds` is asked in each transaction: exact names, or None for all.

    `effect` runs in the transaction that moves the position: what it writes to the database counts once. It must not
    wait for anything outside.
    """

    name: str
    kinds: Callable[[], Iterable[str] | None]
    effect: Callable[[list[Told], datetime], None]


class Follow:
    """`step` from a loop. Any number of processes may follow for the same group; one at a time gets on."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.horizon = Horizon()
        Follower.objects.get_or_create(name=group.name)

    def step(self, now: datetime) -> bool:
        """Take the next events. Says whether there is more to do at once."""
        safe = self.horizon.look()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT position FROM telemetry_follower WHERE name = %s FOR UPDATE SKIP LOCKED", [self.group.name]
            )
            row = cursor.fetchone()
            if row is None or row[0] >= safe:
                return False
            [position] = row
            kinds = self.group.kinds()  # after the horizon: what was made known before it is seen
            if kinds is not None and not (kinds := list(kinds)):
                end = safe
            else:
                events, end = read(cursor, position, safe, kinds)
                if events:
                    self.group.effect(events, now)
            cursor.execute(
                "UPDATE telemetry_follower SET position = %s, moved_at = %s WHERE name = %s",
                [end, now, self.group.name],
            )
        return bool(end < safe)


def read(cursor: Any, position: int, safe: int, kinds: list[str] | None) -> tuple[list[Told], int]:
    """The next events that are wanted, and up to which id that is all."""
    end = min(safe, position + SPAN)
    wanted, arguments = ("", []) if kinds is None else (" AND kind = ANY(%s)", [kinds])
    cursor.execute(
        f"SELECT {_COLUMNS} FROM fleet_event WHERE id > %s AND id <= %s{wanted} ORDER BY id LIMIT %s",
        [position, end, *arguments, CHUNK],
    )
    events = [Told(*row) for row in cursor.fetchall()]
    return events, events[-1].id if len(events) == CHUNK else end
