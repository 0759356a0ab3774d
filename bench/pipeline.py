"""Receipts through the worker: how many a second in batches, how long one alone takes, against plain Django.

Every receipt causes a transition. Triggers on, everything durable, the event table already large. Drover and the
baseline take turns on the same kind of work, read from the same streams; medians of several rounds are shown.
"""

import asyncio
import cProfile
import json
import os
import pstats
import statistics
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis.asyncio
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from bench import plain
from bench.report import Row, machine, row
from fleet import actions as fleet_actions
from fleet import triggers
from fleet.history import Origin
from fleet.models import Brand, Event, Place, Site
from missions import actions
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import snapshots, stream, translate
from telemetry.models import ProcessedMessage
from telemetry.worker import BATCH, Worker, prepare

STEPS, PLACE = 5, "Dock A"
BY = Origin("system", actor_name="bench")


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own."""
    preloaded, robot_count, rounds, singles = (2_000, 200, 3, 60) if quick else (1_000_000, 200, 9, 600)
    about = machine(Path(settings.VAR), **_stores())
    call_command("migrate", verbosity=0)
    plain.create_tables()
    connection.close()
    prepare_connection()
    _preload(preloaded)
    site, robots = _fleet(robot_count)
    worker = Worker(name="bench")
    worker.step(timezone.now(), time.monotonic())
    drover = Drover(worker, site, robots)
    baseline = Plain(worker.streams, robots)

    batch_rates: dict[str, list[float]] = {"drover": [], "plain": []}
    cpu_us: dict[str, list[tuple[float, ...]]] = {"drover": [], "plain": []}
    server = _server_pid()
    profiler = cProfile.Profile() if profile else None
    for number in range(rounds + 1):
        for name, side in (("drover", drover), ("plain", baseline)):
            count = side.feed()
            _analyse()  # as autovacuum does in time; these tables have grown from nothing within seconds
            with profiler if profiler and name == "drover" and number else nullcontext():
                cpu, began = (time.process_time(), cpu_s(server)), time.perf_counter()
                side.apply_all(count, BATCH)
                took = time.perf_counter() - began
            if number:  # the first round warms up
                batch_rates[name].append(count / took)
                cpu_us[name].append(
                    tuple(
                        (after - before) / count * 1e6
                        for before, after in zip(cpu, (time.process_time(), cpu_s(server)), strict=True)
                    )
                )
    _analyse()
    drover_ms, plain_ms = drover.singly(singles), baseline.singly(singles)
    drover.check()
    worker.close()
    if profiler:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45).sort_stats("tottime").print_stats(45)

    per_receipt = Event.objects.filter(kind__startswith="mission.step").count() / max(
        1, ProcessedMessage.objects.count() - preloaded
    )
    about |= {
        "preloaded_events": preloaded,
        "robots": robot_count,
        "rounds": rounds,
        "step_events_per_receipt": round(per_receipt, 2),
    }
    return about, [
        row("receipts applied, batches of 100", statistics.median(batch_rates["drover"]), "1/s",
            baseline=statistics.median(batch_rates["plain"]), at_least=5000),
        row("receipts applied, worst round", min(batch_rates["drover"]), "1/s", baseline=min(batch_rates["plain"])),
        *(
            row(f"CPU per receipt, {what}", _median(cpu_us["drover"], n), "µs", baseline=_median(cpu_us["plain"], n))
            for n, what in enumerate(("worker", "PostgreSQL"))
        ),
        row("one at a time, p50", statistics.median(drover_ms), "ms", baseline=statistics.median(plain_ms), below=5),
        row("one at a time, p99", _p99(drover_ms), "ms", baseline=_p99(plain_ms)),
    ]  # fmt: skip


class Drover:
    """Our own side: missions made by actions, receipts applied by `Worker.step`."""

    def __init__(self, worker: Worker, site: Site, robots: list[str]) -> None:
        self.worker, self.site, self.robots = worker, site, robots
        self.seqs = dict.fromkeys(robots, 0)
        self.told = ProcessedMessage.objects.count()

    def feed(self) -> int:
        """A mission for every robot, its whole life in the streams; how many receipts that is."""
        missions = {}
        for robot in self.robots:
            steps = [{"command": "navigate", "params": {"place": PLACE}, "timeout_s": 600}] * STEPS
            pk = actions.draft_mission(title="Round", site=self.site, robot=robot, steps=steps, by=BY)
            actions.dispatch_mission(pk, by=BY)
            missions[robot] = pk
        while self.worker.relay.step(time.monotonic()):  # what dispatching left is not the receipts' work
            pass
        return _store(lambda robot, n: self._line(robot, missions[robot], n), self.robots)

    def _line(self, robot: str, mission: uuid.UUID, n: int) -> tuple[uuid.UUID, bytes]:
        self.seqs[robot] += 1
        return _receipt(robot, mission, n, self.seqs[robot])

    def apply_all(self, count: int, limit: int) -> None:
        """Step until that many more receipts are applied and passed on."""
        self.worker.limit = limit
        while self.worker.step(timezone.now(), time.monotonic()):
            pass

    def singly(self, count: int) -> list[float]:
        """Milliseconds per receipt when each is alone: read, decide, commit, acknowledge, pass on."""
        self.worker.limit = 1
        took: list[float] = []
        while len(took) < count:
            for store in _one_by_one(self._missions(), self._line):
                asyncio.run(store)
                began = time.perf_counter()
                self.worker.step(timezone.now(), time.monotonic())
                took.append((time.perf_counter() - began) * 1000)
        return took[:count]

    def _missions(self) -> dict[str, uuid.UUID]:
        some = {}
        for robot in self.robots[:20]:
            steps = [{"command": "navigate", "params": {"place": PLACE}, "timeout_s": 600}] * STEPS
            pk = actions.draft_mission(title="Alone", site=self.site, robot=robot, steps=steps, by=BY)
            actions.dispatch_mission(pk, by=BY)
            some[robot] = pk
        while self.worker.relay.step(time.monotonic()):
            pass
        return some

    def check(self) -> None:
        """A figure counts only if the work was done."""
        states = set(Mission.objects.values_list("state", flat=True))
        if states != {"success"}:
            raise RuntimeError(f"missions ended as {states}: the bench does not measure what it says")


class Plain:
    """The baseline's side, on the same streams."""

    def __init__(self, streams: stream.Streams, robots: list[str]) -> None:
        self.streams, self.robots = streams, robots
        self.partitions = list(range(settings.PARTITIONS))

    def feed(self) -> int:
        missions = self._missions(self.robots)
        return _store(lambda robot, n: _receipt(robot, missions[robot], n, 1), self.robots)

    def _missions(self, robots: list[str]) -> dict[str, uuid.UUID]:
        made = [plain.PlainMission(robot_id=robot, steps=STEPS) for robot in robots]
        plain.PlainMission.objects.bulk_create(made)
        plain.PlainStep.objects.bulk_create(
            plain.PlainStep(mission=m, number=n) for m in made for n in range(1, STEPS + 1)
        )
        return {m.robot_id: m.pk for m in made}

    def apply_all(self, count: int, limit: int) -> None:
        while count > 0:
            for p, entries in self.streams.read_new(self.partitions, limit, None).items():
                plain.many(entries, timezone.now())
                self.streams.ack(p, [entry.id for entry in entries])
                count -= len(entries)

    def singly(self, count: int) -> list[float]:
        took: list[float] = []
        while len(took) < count:
            missions = self._missions(self.robots[:20])
            for store in _one_by_one(missions, lambda robot, pk, n: _receipt(robot, pk, n, 1)):
                asyncio.run(store)
                began = time.perf_counter()
                for p, entries in self.streams.read_new(self.partitions, 1, None).items():
                    plain.one(entries[0], timezone.now())
                    self.streams.ack(p, [entries[0].id])
                took.append((time.perf_counter() - began) * 1000)
        return took[:count]


def _receipt(robot: str, mission: uuid.UUID, n: int, seq: int) -> tuple[uuid.UUID, bytes]:
    """The n-th word about a mission: accepted, completed 1 … STEPS, finished."""
    kind = "accepted" if n == 0 else "finished" if n > STEPS else "step_completed"
    step = {"step": n, "attempt": 1, "data": {"result": "done"}} if kind == "step_completed" else {"data": {}}
    msg_id = uuid.uuid4()
    line = {
        "v": 1, "msg_id": str(msg_id), "robot": robot, "session": 1, "channel": "critical", "seq": seq,
        "type": f"mission.{kind}", "occurred_at": datetime.now(UTC).isoformat(), "mission": str(mission),
        "dispatch_no": 1, **step,
    }  # fmt: skip
    return msg_id, json.dumps(line).encode()


def _store(line: Callable[[str, int], tuple[uuid.UUID, bytes]], robots: list[str]) -> int:
    """Every robot's receipts into the streams, interleaved as robots are."""

    async def work() -> int:
        intake, count = stream.Intake(settings.REDIS_URL), 0
        for n in range(STEPS + 2):
            lines = [(robot, *line(robot, n)) for robot in robots]
            await asyncio.gather(*(intake.store(robot, msg, raw, datetime.now(UTC)) for robot, msg, raw in lines))
            count += len(lines)
        await intake.aclose()
        return count

    return asyncio.run(work())


def _one_by_one(missions: dict[str, uuid.UUID], line: Callable[..., tuple[uuid.UUID, bytes]]) -> Any:
    """Coroutines that store one receipt each."""

    async def store(robot: str, msg_id: uuid.UUID, raw: bytes) -> None:
        intake = stream.Intake(settings.REDIS_URL)
        await intake.store(robot, msg_id, raw, datetime.now(UTC))
        await intake.aclose()

    for n in range(STEPS + 2):
        for robot, mission in missions.items():
            yield store(robot, *line(robot, mission, n))


def _fleet(count: int) -> tuple[Site, list[str]]:
    site = Site.objects.create(name="Bench hall")
    Place.objects.create(site=site, name=PLACE, x=1, y=2)
    brand = Brand.objects.create(name="Bench", capabilities=["navigate"], offline_after_s=86_400)
    robots = [f"B-{n:03}" for n in range(count)]
    for robot in robots:
        fleet_actions.enrol_robot(id=robot, name=robot, site=site, brand=brand, by=BY)
    now = timezone.now()
    with transaction.atomic():
        ledger = Ledger.open(robots, now=now)
        for robot in robots:
            translate.presence(ledger, robot, "online", now, now)
        ledger.commit()
    asyncio.run(_alive(robots))
    return site, robots


async def _alive(robots: list[str]) -> None:
    client = redis.asyncio.from_url(settings.LIVE_REDIS_URL)
    for robot in robots:
        await snapshots.touch(client, robot, datetime.now(UTC))
    await client.aclose()


def _preload(count: int) -> None:
    """History of missions long past, and their messages, so that indexes are as deep as in earnest."""
    triggers.drop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fleet_event (aggregate, seq, kind, schema, data, state_from, state_to, actor_kind, actor_id,"
            " actor_name, cause, trace_id, span_id, occurred_at, recorded_at, prev_hash, hash)"
            " SELECT 'mission:' || md5((n / 20)::text)::uuid, n %% 20 + 1, 'mission.late_receipt', 1,"
            " '{\"says\": \"' || repeat('x', 100) || '\"}', 'success', 'success', 'robot', 'B-' || n %% 200, 'Robot',"
            " 'message:' || md5(n::text), '', '', now(), now(), sha256(n::text::bytea), sha256(n::text::bytea)"
            " FROM generate_series(0, %s) AS n",
            [count - 1],
        )
        cursor.execute(
            "INSERT INTO telemetry_processedmessage (robot_id, msg_id, session, seq, verdict, received_at, applied_at)"
            " SELECT 'B-' || n %% 200, md5('m' || n)::uuid, 0, n, 'applied', now(), now() FROM generate_series(1, %s) AS n",
            [count],
        )
        cursor.execute(
            "INSERT INTO bench_plainevent (mission, seq, kind, data, state_from, state_to, actor, cause, occurred_at, recorded_at)"
            " SELECT md5((n / 20)::text)::uuid, n %% 20 + 1, 'x', '{}', 'success', 'success', 'robot', md5(n::text), now(), now()"
            " FROM generate_series(0, %s) AS n",
            [count - 1],
        )
        cursor.execute(
            "INSERT INTO bench_plainmessage (robot_id, msg_id) SELECT 'B-' || n %% 200, md5('m' || n)::uuid"
            " FROM generate_series(1, %s) AS n",
            [count],
        )
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    triggers.create()


def prepare_connection() -> None:
    """The worker's own settings of its connection."""
    connection.ensure_connection()
    prepare(connection)


def _stores() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
        )
        version, fsync, commit = cursor.fetchone()
    streams = stream.Streams(settings.REDIS_URL)
    info = streams.redis.info("server")
    append = streams.redis.config_get("appendfsync")["appendfsync"]
    streams.close()
    redis_version = info.get("valkey_version") or info["redis_version"]
    return {
        "postgresql": f"{version} fsync {fsync} synchronous_commit {commit}",
        "valkey": f"{redis_version} appendfsync {append}",
    }


def _analyse() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _median(pairs: list[tuple[float, ...]], n: int) -> float:
    return statistics.median(pair[n] for pair in pairs)


def _server_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used; 0 where the system does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
