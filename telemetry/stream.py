"""The streams `in:{p}` on the durable Redis, one per partition: their names, and how a worker reads them.

Gateways append to them (telemetry/gateways/intake.py); one worker at a time reads each.
"""

import logging
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

GROUP = "worker"
CONSUMER = "owner"  # one name for every owner, so that the next one finds what the last one left pending

log = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    """Since 1970, as entries carry it."""
    return (at - _EPOCH) // _MICROSECOND


def partition_of(robot_id: str) -> int:
    """The partition of a robot: stable over processes and time, as long as PARTITIONS stays."""
    return zlib.crc32(robot_id.encode()) % int(settings.PARTITIONS)


def key(partition: int) -> str:
    """Name of the stream; the braces keep it and its marks on one node of a cluster."""
    return f"in:{{{partition}}}"


def mark(partition: int, robot_id: str, msg_id: str) -> str:
    """Name of the key that says that this message was stored already."""
    return f"seen:{{{partition}}}:{robot_id}:{msg_id}"


class Entry(NamedTuple):
    """One message as it was stored."""

    id: str
    robot_id: str
    msg_id: UUID
    raw: bytes
    received_at: datetime
    letter: int = 0  # the dead letter that it is, requeued


class Progress(NamedTuple):
    """How far a partition is: ids as (ms, number)."""

    last: tuple[int, int]  # newest entry ever appended
    read: tuple[int, int]  # handed to a worker up to here
    unacked: tuple[int, int] | None  # oldest entry that was handed out and not acknowledged

    def applied(self, target: tuple[int, int]) -> bool:
        """Is everything up to the target applied (or a dead letter)?"""
        return self.read >= target and (self.unacked is None or self.unacked > target)


class Streams:
    """The worker's side. Raises redis errors; the caller decides what an outage means.

    `read_new` blocks far below the socket timeout (redis-py gives up on a socket that stays silent as long).
    """

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.from_url(
            url, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0), protocol=2
        )

    def close(self) -> None:
        self.redis.close()

    def ensure_groups(self, partitions: Iterable[int]) -> None:
        """Make stream and group where they are absent; the group starts with the oldest entry."""
        for p in partitions:
            try:
                self.redis.xgroup_create(key(p), GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def read_new(self, partitions: Iterable[int], count: int, block_ms: int | None) -> dict[int, list[Entry]]:
        """Up to `count` new entries of each partition; waits for the first if there are none. None: does not wait."""
        return self._read(dict.fromkeys(partitions, ">"), count, block_ms)

    def read_pending(self, partition: int, count: int) -> list[Entry]:
        """Entries that were handed out and never acknowledged, the oldest first."""
        return self._read({partition: "0"}, count, None).get(partition, [])

    def _read(self, positions: dict[int, str], count: int, block_ms: int | None) -> dict[int, list[Entry]]:
        by_key = {key(p).encode(): p for p in positions}
        names = {key(p): position for p, position in positions.items()}
        reply = self.redis.xreadgroup(GROUP, CONSUMER, names, count=count, block=block_ms)
        return {by_key[name]: self._entries(by_key[name], rows) for name, rows in reply or ()}

    def _entries(self, partition: int, rows: list[tuple[bytes, dict[bytes, bytes] | None]]) -> list[Entry]:
        found, useless = [], []
        for entry_id, fields in rows:
            try:
                found.append(_entry(entry_id.decode(), fields or {}))
            except (KeyError, ValueError):
                useless.append(entry_id.decode())
        if useless:  # trimmed by a hand while they were pending, or not written by an intake
            log.error("entries of %s hold no message: %s", key(partition), ", ".join(useless))
            self.ack(partition, useless)
        return found

    def ack(self, partition: int, entry_ids: list[str]) -> None:
        if entry_ids:
            self.redis.xack(key(partition), GROUP, *entry_ids)

    def requeue(self, letters: Iterable[tuple[int, str, UUID, bytes, datetime]]) -> None:
        """Append dead letters (id, robot, msg_id, message, when) behind all that waits. Twice does no harm."""
        with self.redis.pipeline(transaction=False) as pipe:
            for letter, robot_id, msg_id, raw, at in letters:
                fields = {"robot": robot_id, "msg_id": str(msg_id), "raw": raw, "at": microseconds(at)}
                pipe.xadd(key(partition_of(robot_id)), {**fields, "letter": letter})
            pipe.execute()

    def progress(self, partitions: Iterable[int]) -> dict[int, Progress]:
        """Where each partition stands, read at one moment per partition. Absent: no stream or no group (data loss)."""
        partitions = list(partitions)
        with self.redis.pipeline(transaction=True) as pipe:
            for p in partitions:
                pipe.xinfo_stream(key(p))
                pipe.xinfo_groups(key(p))
                pipe.xpending(key(p), GROUP)
            replies = pipe.execute(raise_on_error=False)
        found = {}
        for p, stream, groups, pending in zip(partitions, replies[::3], replies[1::3], replies[2::3], strict=True):
            for reply in (stream, groups, pending):
                if isinstance(reply, Exception) and not isinstance(reply, ResponseError):
                    raise reply
            if any(isinstance(reply, ResponseError) for reply in (stream, groups, pending)):
                continue
            read = next(g["last-delivered-id"] for g in groups if g["name"] == GROUP.encode())
            oldest = pending["min"]
            found[p] = Progress(
                _number(stream["last-generated-id"]), _number(read), _number(oldest) if oldest else None
            )
        return found

    def replication(self) -> dict[str, Any]:
        """INFO replication: which server this is, and whose replica it was before it was promoted."""
        return dict(self.redis.info("replication"))

    def forget_marks(self, partitions: Iterable[int]) -> None:
        """Of streams that are gone: what robots say again must not pass for a duplicate."""
        for p in (p for p in partitions if not self.redis.exists(key(p))):
            for name in self.redis.scan_iter(mark(p, "*", "*").replace("[", "\\["), count=1000):
                self.redis.unlink(name)

    def trim(self, partitions: Iterable[int]) -> None:
        """Drop what is acknowledged (never by length: that would drop what is not)."""
        for p, progress in self.progress(partitions).items():
            ms, number = progress.unacked or (progress.read[0], progress.read[1] + 1)
            self.redis.xtrim(key(p), minid=f"{ms}-{number}", approximate=True)

    def oldest_unapplied_s(self, partitions: Iterable[int], now: datetime) -> float:
        """Age in s of the oldest entry that is not applied yet; 0 when all are."""
        return max(self.ages_s(partitions, now).values(), default=0.0)

    def ages_s(self, partitions: Iterable[int], now: datetime) -> dict[int, float]:
        """The same of each partition in which something is not applied."""
        ages = {}
        for p, progress in self.progress(partitions).items():
            oldest = progress.unacked
            if oldest is None:
                after = self.redis.xrange(key(p), min=f"({progress.read[0]}-{progress.read[1]}", count=1)
                oldest = _number(after[0][0]) if after else None
            if oldest is not None:
                ages[p] = max(0.0, now.timestamp() - oldest[0] / 1000)
        return ages


def _entry(entry_id: str, fields: dict[bytes, bytes]) -> Entry:
    received_at = _EPOCH + timedelta(microseconds=int(fields[b"at"]))
    msg_id, letter = UUID(fields[b"msg_id"].decode()), int(fields.get(b"letter", 0))
    return Entry(entry_id, fields[b"robot"].decode(), msg_id, fields[b"raw"], received_at, letter)


def is_group_lost(error: Exception) -> bool:
    """NOGROUP: stream or group vanished (FLUSHALL, failover, new disk)."""
    return isinstance(error, ResponseError) and str(error).startswith("NOGROUP")


def _number(entry_id: bytes | str) -> tuple[int, int]:
    ms, _, number = (entry_id.decode() if isinstance(entry_id, bytes) else entry_id).partition("-")
    return int(ms), int(number or 0)
