"""What a robot-day costs in bytes: in PostgreSQL by table, in the durable Redis, before and after tidying; and what tidying costs.

A robot-day: missions of five steps, their receipts and acknowledgements, two changes of mode a mission. Telemetry is
not stored: it is one snapshot per robot in the live Redis.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from bench.ground import alive, analyse, fleet_of, stores_in_words
from bench.pipeline import Drover
from bench.receipts import message
from bench.report import Row, machine, row
from fleet.models import Command
from telemetry import frames
from telemetry.gateways.intake import Intake
from telemetry.keeping.tidying import MESSAGES, Tidying
from telemetry.models import ProcessedMessage, Watermark
from telemetry.worker.loop import Worker

TOP = 6  # tables that have a line of their own
LATER = timedelta(days=400)  # everything that has an age is old by then


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own. `profile` is not looked at."""
    robot_count, missions, old = (2, 2, 2_000) if quick else (10, 40, 200_000)
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    site, robots = fleet_of(robot_count)
    worker = Worker(name="bench")
    worker.step(timezone.now(), time.monotonic())
    drover = Drover(worker, site, robots)
    _day(worker, drover, robots, 1)  # pages and connections that only the first one makes
    _let_marks_expire(worker)
    before, redis_before = _sizes(), _redis_bytes(worker)
    said = ProcessedMessage.objects.count()
    redis_most = _day(worker, drover, robots, missions)
    after = _sizes()
    said = ProcessedMessage.objects.count() - said
    _let_marks_expire(worker)
    redis_after = _redis_bytes(worker)
    grown = {table: (after[table] - before.get(table, 0)) / robot_count for table in after}

    Tidying().whole_round(timezone.now() + LATER)
    left = sum(_sizes().values()) - sum(before.values())
    alone, beside, tidying = _beside(worker, drover, robots, old)
    worker.close()
    about |= {"robots": robot_count, "missions_a_day": missions, "messages_a_day": said // robot_count, "old_rows": old}
    rows = [row("PostgreSQL, a robot-day", sum(grown.values()) / 1024, "kB")]
    rows += [
        row(f"… {table}", grown[table] / 1024, "kB") for table in sorted(grown, key=grown.__getitem__)[: -TOP - 1 : -1]
    ]
    rows += [
        row("… a message", sum(grown.values()) * robot_count / said, "B"),
        row("… kept for ever, after tidying", left / robot_count / 1024, "kB"),
        row("durable Redis, a message not applied", max(0, redis_most) / said, "B"),
        row("durable Redis, a robot-day once applied (stream out)", max(0, redis_after - redis_before) / robot_count / 1024, "kB"),
        row("rows tidied", tidying.rate, "1/s"),
        row("longest transaction of tidying", max(tidying.took_ms), "ms", below=None if quick else 250),
        row("receipts applied beside tidying", median(beside), "1/s", baseline=median(alone)),
    ]  # fmt: skip
    return about, rows


class Timed(Tidying):
    """Tidying that notes how long its transactions take."""

    def __init__(self) -> None:
        super().__init__()
        self.took_ms = [0.0]
        self.rate = 0.0

    def _slice(self, work: Any, now: datetime) -> bool:
        began = time.perf_counter()
        more = super()._slice(work, now)
        self.took_ms.append(1000 * (time.perf_counter() - began))
        return more


def _day(worker: Worker, drover: Drover, robots: list[str], missions: int) -> int:
    """Missions of every robot from beginning to end. By how many bytes the durable Redis grew with their messages."""
    grown = 0
    for _ in range(missions):
        empty = _redis_bytes(worker)
        asyncio.run(alive(robots))
        drover.feed()
        _store(_beginnings(drover, robots))
        grown += _redis_bytes(worker) - empty
        _apply(worker)
        worker.streams.trim(range(settings.PARTITIONS))
    return grown


def _let_marks_expire(worker: Worker) -> None:
    """As after 15 minutes."""
    for name in worker.streams.redis.scan_iter("seen:*", count=1000):
        worker.streams.redis.unlink(name)


def _beginnings(drover: Drover, robots: list[str]) -> Iterable[tuple[str, uuid.UUID, bytes]]:
    """Assignments are acknowledged; the mode changes twice."""
    now = datetime.now(UTC)
    for pk, robot in Command.objects.filter(state="open").values_list("pk", "robot_id"):
        yield (robot, *frames.delivered(pk, robot, now))
    for robot in robots:
        for mode in ("running", "idle"):
            drover.seqs[robot] += 1
            yield (robot, *message(robot, drover.seqs[robot], "robot.state", {"mode": mode}))


def _store(lines: Iterable[tuple[str, uuid.UUID, bytes]]) -> None:
    lines = list(lines)

    async def work() -> None:
        intake = Intake(settings.REDIS_URL)
        await asyncio.gather(*(intake.store(robot, msg, raw, datetime.now(UTC)) for robot, msg, raw in lines))
        await intake.aclose()

    asyncio.run(work())


def _apply(worker: Worker) -> None:
    """Step until nothing is left to apply and to pass on."""
    idle = 0
    while idle < 3:
        idle = 0 if worker.step(timezone.now(), time.monotonic()) else idle + 1


def _beside(worker: Worker, drover: Drover, robots: list[str], old: int) -> tuple[list[float], list[float], Timed]:
    """Receipts a second alone and while many old messages are deleted; the tidying."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {MESSAGES} (robot_id, msg_id, session, seq, verdict, received_at, applied_at)"
            " SELECT %s || lpad((n %% %s)::text, 3, '0'), md5('o' || n)::uuid, 2, n, 'applied', t, t"
            " FROM generate_series(1, %s) AS n, (SELECT now() - interval '300 days' AS t) AS old",
            ["B-", len(robots), old],
        )
    Watermark.objects.bulk_create([Watermark(robot_id=robot, session=2, applied_seq=old) for robot in robots])
    analyse()
    alone = [_rate(worker, drover) for _ in range(5)]
    tidying, over = Timed(), threading.Event()

    def tidy() -> None:
        began = time.perf_counter()
        tidying.whole_round(timezone.now() + LATER)
        tidying.rate = tidying.deleted[MESSAGES] / (time.perf_counter() - began)
        over.set()
        connection.close()

    thread = threading.Thread(target=tidy)
    thread.start()
    beside = [_rate(worker, drover)]
    while not over.is_set():
        beside.append(_rate(worker, drover))
    thread.join()
    return alone, beside, tidying


def _rate(worker: Worker, drover: Drover) -> float:
    asyncio.run(alive(drover.robots))
    count = drover.feed()
    began = time.perf_counter()
    _apply(worker)
    return count / (time.perf_counter() - began)


def _sizes() -> dict[str, int]:
    """Bytes by table, with its indexes, packed: a table in use is up to a third larger."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM FULL")
        cursor.execute("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables")
        return dict(cursor.fetchall())


def _redis_bytes(worker: Worker) -> int:
    return int(worker.streams.redis.info("memory")["used_memory_dataset"])
