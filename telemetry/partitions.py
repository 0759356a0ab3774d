"""Who may commit what arrives on a stream: partitions are owned by rows in PostgreSQL, by database time.

Taking a partition raises its `fence`. A worker that was frozen while another took over still knows the old number,
and `hold`, the first statement of each batch, refuses it. Order and efficiency rest on ownership; correctness on
versions and unique rows.

A killed worker's session ends with it, at once, which the others see; so the lease need not be short enough for that,
and a worker that is merely busy keeps what it has.
"""

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from fleet import rows
from telemetry.models import Partition

LEASE_S = 5.0  # a worker that is frozen, or cut off without a word, counts as alive this long
TEND_S = 0.3  # how often an owner renews, and how soon it sees that another was killed
FORGET_S = 3600  # a worker that ended without a word stays listed this long


def _living_in(processes: str, able: str = "TRUE") -> str:
    return (
        f"{processes} w JOIN pg_stat_activity a ON a.pid = w.backend AND a.backend_start = w.backend_start"
        f" AND w.until > clock_timestamp() AND {able}"
    )


_LIVING = _living_in("telemetry_workerprocess")


class Lost(Exception):
    """Another worker owns the partition by now: drop what is in hand."""


def hold(partition: int, fence: int) -> None:
    """First statement of every batch: keep the partition ours until the transaction ends. Raises `Lost`."""
    with connection.wrap_database_errors:
        holding(partition, fence)()


def holding(partition: int, fence: int) -> Callable[[], None]:
    """As `hold`, in a pipeline: asks now, and the result, when called, raises `Lost` if it has to."""
    sql = "SELECT 1 FROM telemetry_partition WHERE id = %s AND fence = %s FOR SHARE"
    answer = rows.ask(sql, [partition, fence])

    def check() -> None:
        if answer.fetchone() is None:
            raise Lost(f"partition {partition} has a newer owner than fence {fence}")

    return check


def somebody_works() -> bool:
    """Does any worker own a partition now?"""
    return Partition.objects.filter(until__gt=Now()).exclude(owner="").exists()


def living() -> int:
    """How many workers there are."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {_LIVING}")
        return int(cursor.fetchone()[0])


class Partitions:
    """The partitions of one worker. `tend` every `TEND_S`, between batches; `release` at the end.

    Gateways share robots out in the same way, in tables of their own (telemetry/gateways/mqtt/sharing.py).
    """

    def __init__(
        self, owner: str, count: int, *, lease_s: float = LEASE_S,
        partitions: str = "telemetry_partition", processes: str = "telemetry_workerprocess", able: str = "TRUE",
    ) -> None:  # fmt: skip
        """`able`: which of the processes (`w`) that live get any, as SQL."""
        self.owner = owner
        self._partitions, self._processes, self._living = partitions, processes, _living_in(processes, able)
        self.count = count
        self.lease_s = lease_s
        self.fences: dict[int, int] = {}  # partition → fence, of what we own

    def tend(self) -> tuple[set[int], set[int]]:
        """Renew, give back what is over our share, take what is free. Returns (taken, lost or given back)."""
        before = dict(self.fences)
        with transaction.atomic(), connection.cursor() as cursor:
            share = self._share(cursor)
            kept = self._renew(cursor)
            surplus = sorted(kept)[share:]
            self._give_back(cursor, surplus)
            kept = {p: fence for p, fence in kept.items() if p not in surplus}
            taken = self._take(cursor, share - len(kept))
        self.fences = kept | taken
        return set(taken), {p for p in before if self.fences.get(p) != before[p]} - set(taken)

    def release(self) -> None:
        """Planned end: whoever lives may take over at once."""
        self.fences = {}
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"UPDATE {self._partitions} SET owner = '', until = NULL WHERE owner = %s", [self.owner])
            cursor.execute(f"DELETE FROM {self._processes} WHERE name = %s", [self.owner])

    def _share(self, cursor: Any) -> int:
        """How many partitions are ours by right: as even as it goes, the first by name have one more."""
        cursor.execute(
            f"INSERT INTO {self._processes} (name, started_at, until, backend, backend_start)"
            " SELECT %s, clock_timestamp(), clock_timestamp() + %s * interval '1 second', pid, backend_start"
            " FROM pg_stat_activity WHERE pid = pg_backend_pid() ON CONFLICT (name) DO UPDATE"
            " SET until = EXCLUDED.until, backend = EXCLUDED.backend, backend_start = EXCLUDED.backend_start",
            [self.owner, self.lease_s],
        )
        cursor.execute(f"SELECT w.name FROM {self._living} ORDER BY w.name")
        living = [name for (name,) in cursor.fetchall()]
        cursor.execute(
            f"DELETE FROM {self._processes} WHERE until < clock_timestamp() - %s * interval '1 second'", [FORGET_S]
        )
        if self.owner not in living:
            return 0
        return self.count // len(living) + (living.index(self.owner) < self.count % len(living))

    def _renew(self, cursor: Any) -> dict[int, int]:
        """What is still ours. A lease that ran out while nobody else wanted it goes on under the same fence."""
        if not self.fences:
            return {}
        cursor.execute(
            f"UPDATE {self._partitions} p SET until = clock_timestamp() + %s * interval '1 second'"
            " FROM unnest(%s::int[], %s::bigint[]) AS mine(id, fence)"
            " WHERE p.id = mine.id AND p.fence = mine.fence AND p.owner = %s RETURNING p.id, p.fence",
            [self.lease_s, list(self.fences), list(self.fences.values()), self.owner],
        )
        return dict(cursor.fetchall())

    def _give_back(self, cursor: Any, surplus: list[int]) -> None:
        if surplus:
            cursor.execute(
                f"UPDATE {self._partitions} SET owner = '', until = NULL WHERE owner = %s AND id = ANY(%s)",
                [self.owner, surplus],
            )

    def _take(self, cursor: Any, wanted: int) -> dict[int, int]:
        """Take free ones. A partition whose last owner is still inside a batch is locked, thus skipped."""
        if wanted <= 0:
            return {}
        cursor.execute(
            f"INSERT INTO {self._partitions} (id, owner, fence) SELECT n, '', 0 FROM generate_series(0, %s) AS n"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self._partitions} WHERE id = n) ON CONFLICT DO NOTHING",
            [self.count - 1],
        )
        cursor.execute(
            f"UPDATE {self._partitions} SET owner = %s, fence = fence + 1,"
            " until = clock_timestamp() + %s * interval '1 second'"
            f" WHERE id = ANY(ARRAY(SELECT id FROM {self._partitions}"
            " WHERE id < %s AND (until IS NULL OR until < clock_timestamp()"
            f" OR owner NOT IN (SELECT w.name FROM {self._living}))"
            " ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id, fence",
            [self.owner, self.lease_s, self.count, wanted],
        )
        return dict(cursor.fetchall())
