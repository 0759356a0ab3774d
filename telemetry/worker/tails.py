"""Does the durable Redis still hold what was acknowledged? How far each stream had come is kept in PostgreSQL.

A failover or an older disk may lose only the newest entries: stream and group are there, and nothing else tells. Two
signs do: a stream that ends before what we have seen of it, and a replica that was promoted (it names its former
primary, which may have acknowledged what never reached it).
"""

from collections.abc import Iterable
from typing import Any

from django.db import connection

from telemetry.models import Partition
from telemetry.stream import Progress

Id = tuple[int, int]  # of a stream entry: ms, number


class Tails:
    """The ends of owned streams. `saw` and `remember` as it goes; `lost` when the stores may have changed."""

    def __init__(self) -> None:
        self._known: dict[int, Id] = {}
        self._kept: dict[int, tuple[Id, str]] = {}  # what PostgreSQL has: end, and the server's replication id
        self._server = ""

    def take(self, partitions: Iterable[int]) -> None:
        """These are ours from now on: what did their former owner know?"""
        for p, end, server in Partition.objects.filter(pk__in=list(partitions)).values_list(
            "pk", "last_entry", "server"
        ):
            ms, _, number = end.partition("-")
            self._known[p] = (int(ms or 0), int(number or 0))
            self._kept[p] = (self._known[p], server)

    def saw(self, partition: int, entry_id: str) -> None:
        """The stream has this entry."""
        ms, _, number = entry_id.partition("-")
        self._known[partition] = max(self._known.get(partition, (0, 0)), (int(ms), int(number)))

    def lost(self, progress: dict[int, Progress], replication: dict[str, Any]) -> set[int]:
        """Partitions that may have lost their newest entries. `replication`: INFO of the server that answers now."""
        self._server = str(replication.get("master_replid", ""))
        before = str(replication.get("master_replid2", ""))
        found = set()
        for p, stand in progress.items():
            promoted = bool(before) and self._kept.get(p, ((0, 0), ""))[1] == before != self._server
            if promoted or stand.last < self._known.get(p, (0, 0)):
                found.add(p)
        return found

    def forget(self, progress: dict[int, Progress], partitions: Iterable[int]) -> None:
        """What was lost is dealt with: these begin where the streams end now."""
        for p in partitions:
            self._known[p] = progress[p].last if p in progress else (0, 0)

    def remember(self, progress: dict[int, Progress], fences: dict[int, int]) -> None:
        """Keep how far the streams have come, if that is news. Once a second: what is lost after that, the next owner
        cannot see; the one that lives has seen it."""
        news = {}
        for p, stand in progress.items():
            self._known[p] = max(self._known.get(p, (0, 0)), stand.last)
            if p in fences and self._kept.get(p) != (self._known[p], self._server):
                news[p] = (self._known[p], self._server)
        if not news:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE telemetry_partition p SET last_entry = n.entry, server = %s"
                " FROM unnest(%s::int[], %s::bigint[], %s::text[]) AS n(id, fence, entry)"
                " WHERE p.id = n.id AND p.fence = n.fence",
                [self._server, list(news), [fences[p] for p in news], [f"{ms}-{n}" for (ms, n), _ in news.values()]],
            )
        self._kept |= news
