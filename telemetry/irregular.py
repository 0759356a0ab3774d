"""Duplicates, stale, late and dead messages, counted by robot and kind: by the worker in its batch, by gateways in bundles.

Rows are written only when there is something to count, by one statement that locks them in one order. What is redundant
is not counted: a robot that says what is known does nothing wrong.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from fleet.ports.irregular import Irregular
from fleet.verdict import Verdict
from telemetry.models import Irregularity
from telemetry.one_connection import OneConnection
from telemetry.protocol import INTERNAL, TYPES

DUPLICATE, DEAD = "duplicate", "dead"
COUNTED = {str(Verdict.STALE), str(Verdict.LATE), DEAD}
EVERY_S = 5.0
KEPT = 5000  # counts that a gateway holds while the database is away
OTHER = "other"

SAYS = {
    DUPLICATE: ("Sent again", "The robot repeats what is stored already. A few after each reconnect are usual; many mean that it "
                "resends before it sees our acknowledgements: its link is slow or loses them, or its timer is too short."),
    str(Verdict.STALE): ("Stale", "It speaks of a dispatch that is over or of an attempt that was given up, or newer words of its "
                         "own had come before: it resends old messages, or it does not keep dispatch numbers and attempts."),
    str(Verdict.LATE): ("Too late", "Receipts for missions that had ended. It was offline when they ran out of time, or the times "
                        "of its brand are too short. They are kept in the missions' histories."),
    DEAD: ("Not applied", "They could not be understood or applied and are dead letters: each says what to do."),
}  # fmt: skip

Key = tuple[str, str, str]  # robot id, kind, verdict

log = logging.getLogger(__name__)


def kind_of(type: str | None) -> str:
    """The type as one of those that we know: robots cannot make up rows."""
    return type if type in TYPES or type in INTERNAL else OTHER


def write(cursor: Any, found: Mapping[Key, int], at: datetime) -> None:
    """Add to the counts, of robots that are enrolled."""
    if not found:
        return
    rows = [(*key, n) for key, n in sorted(found.items())]
    cursor.execute(
        "INSERT INTO telemetry_irregularity AS t (robot_id, kind, verdict, count, first_at, last_at)"
        " SELECT k.robot_id, k.kind, k.verdict, k.n, %s, %s"
        " FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS k(robot_id, kind, verdict, n)"
        " JOIN fleet_robot r ON r.id = k.robot_id ORDER BY 1, 2, 3"
        " ON CONFLICT (robot_id, kind, verdict) DO UPDATE"
        " SET count = t.count + EXCLUDED.count, last_at = greatest(t.last_at, EXCLUDED.last_at)",
        [at, at, *(list(column) for column in zip(*rows, strict=True))],
    )


class Duplicates:
    """A gateway's: what its window recognised. `run` writes."""

    def __init__(self, rows: OneConnection) -> None:
        self._rows = rows
        self._noted: Counter[Key] = Counter()

    def note(self, robot: str, type: str) -> None:
        key = (robot, kind_of(type), DUPLICATE)
        if key in self._noted or len(self._noted) < KEPT:
            self._noted[key] += 1

    async def run(self) -> None:
        """Write what was noted, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.step()

    async def step(self) -> None:
        noted, self._noted = self._noted, Counter()
        if not noted:
            return
        try:
            await self._rows.ask(_record, noted)
        except DatabaseError as error:
            log.debug("%d counts of duplicates wait: %s", len(noted), error)
            self._noted += noted


def _record(noted: Counter[Key]) -> None:
    with connection.cursor() as cursor:
        write(cursor, noted, timezone.now())


def of_robot(robot_id: str) -> list[Irregular]:
    """For the robot's page."""
    counts: dict[str, list[Irregularity]] = {}
    for row in Irregularity.objects.filter(robot=robot_id).order_by("-count", "kind"):
        counts.setdefault(row.verdict, []).append(row)
    return [
        Irregular(
            what, sum(r.count for r in rows), tuple((r.kind, r.count) for r in rows), max(r.last_at for r in rows), hint
        )
        for verdict, (what, hint) in SAYS.items()
        if (rows := counts.get(verdict))
    ]
