"""Receipts through the worker: how many a second in batches, how long one alone takes, what a second worker brings.

Every receipt causes a transition. Triggers on, everything durable, the event table already large. Drover, the baseline
(plain Django) and the limit (bare SQL of as many rows) take turns; medians of several rounds are shown.
"""

import asyncio
import cProfile
import pstats
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db.backends.signals import connection_created
from django.utils import timezone

from bench import plain, workers
from bench.bare import Bare
from bench.ground import BY, PLACE, analyse, fleet_of, preload, stores_in_words
from bench.meter import Meter, server_pid
from bench.receipts import STEPS, one_by_one, receipt, store_all
from bench.report import Row, machine, row
from fleet.models import Event, Site
from missions import actions, drawing_up
from missions.models import Mission
from telemetry import stream
from telemetry.models import ProcessedMessage
from telemetry.worker.loop import Worker
from telemetry.worker.messages import BATCH
from telemetry.worker.process import prepare, settle


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own."""
    preloaded, robot_count, rounds, singles = (1_000, 28, 1, 5) if quick else (1_000_000, 200, 9, 600)
    connection_created.connect(prepare, dispatch_uid="worker.prepare")  # as in a worker's process
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    plain.create_tables()
    preload(preloaded)
    site, robots = fleet_of(robot_count)
    worker = Worker(name="bench")
    worker.step(timezone.now(), time.monotonic())
    drover, baseline = Drover(worker, site, robots), Plain(worker.streams, robots)
    settle()  # as in a worker's process; for the baseline as well

    batches, plain_batches, bare_batches = Meter(), Meter(), Meter()
    bare = Bare(robot_count)
    profiler = cProfile.Profile() if profile else None
    for number in range(rounds + 1):
        for side, meter in ((drover, batches), (baseline, plain_batches)):
            count = side.feed()
            analyse()
            into = meter if number else Meter()  # the first round warms up
            watch = profiler if profiler and side is drover and number else nullcontext()
            with watch, into.measured(count, server=server_pid()):
                side.apply_all(count, BATCH)
        with (bare_batches if number else Meter()).measured(count, server=server_pid()):
            bare.apply_all(count, BATCH)
    analyse()
    ours, theirs = drover.singly(singles), baseline.singly(singles)
    worker.close()
    few = rounds // 2 + 1
    one, two = (workers.rate(drover.feed, n, few) for n in (1, 2))
    slow_one, slow_two = (workers.rate(drover.feed, n, few, options=workers.SLOW_COMMIT) for n in (1, 2))
    drover.check()
    receipts = ProcessedMessage.objects.count() - preloaded
    about |= {"preloaded_events": preloaded, "robots": robot_count, "rounds": rounds, "receipts": receipts}
    about |= {"events_per_receipt": round(drover.events_made() / receipts, 2)}
    if profiler:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45).sort_stats("tottime").print_stats(45)
    return about, [
        row("receipts applied, batches of 100", median(batches.rates), "1/s",
            baseline=median(plain_batches.rates), at_least=5000),
        row("… bare SQL of as many rows, nothing decided", median(bare_batches.rates), "1/s",
            baseline=median(plain_batches.rates)),
        row("receipts applied, worst round", min(batches.rates), "1/s", baseline=min(plain_batches.rates)),
        row("CPU per receipt, worker", median(batches.worker_us), "µs", baseline=median(plain_batches.worker_us)),
        row("CPU per receipt, PostgreSQL", median(batches.postgres_us), "µs", baseline=median(plain_batches.postgres_us)),
        row("one at a time, p50", median(ours.took_ms), "ms", baseline=median(theirs.took_ms), below=5),
        row("one at a time, p99", ours.p99_ms(), "ms", baseline=theirs.p99_ms()),
        row("one at a time, CPU of the worker", median(ours.worker_us) / 1e3, "ms",
            baseline=median(theirs.worker_us) / 1e3),
        row("two workers, against one", two, "1/s", baseline=one, times=None if quick else 1.3),
        row("… with 2 ms more for each commit", slow_two, "1/s", baseline=slow_one, times=None if quick else 1.7),
    ]  # fmt: skip


class Drover:
    """Our own side: missions made by actions, receipts applied by `Worker.step`."""

    def __init__(self, worker: Worker, site: Site, robots: list[str]) -> None:
        self.worker, self.site, self.robots = worker, site, robots
        self.seqs = dict.fromkeys(robots, 0)
        self.first_event = Event.objects.latest("id").pk

    def feed(self) -> int:
        """A mission for every robot, its whole life in the streams; how many receipts that is."""
        missions = self._missions(self.robots)
        return store_all(lambda robot, n: self._line(robot, missions[robot], n), self.robots)

    def _missions(self, robots: list[str]) -> dict[str, uuid.UUID]:
        """One for each, dispatched; the relay is done with what that left behind."""
        work = [{"command": "navigate", "params": {"place": PLACE}, "timeout_s": 600}] * STEPS
        missions = {}
        for robot in robots:
            pk = drawing_up.draft_mission(title="Round", site=self.site, robot=robot, steps=work, by=BY)
            actions.dispatch_mission(pk, by=BY)
            missions[robot] = pk
        while self.worker.relay.step(time.monotonic()):
            pass
        return missions

    def _line(self, robot: str, mission: uuid.UUID, n: int) -> tuple[uuid.UUID, bytes]:
        self.seqs[robot] += 1
        return receipt(robot, mission, n, self.seqs[robot])

    def apply_all(self, count: int, limit: int) -> None:
        """Step until that many more receipts are applied and passed on."""
        self.worker.messages.limit = limit
        while self.worker.step(timezone.now(), time.monotonic()):
            pass

    def singly(self, count: int) -> Meter:
        """Milliseconds per receipt when each is alone: read, decide, commit, acknowledge, pass on."""
        self.worker.messages.limit = 1
        alone = Meter()
        while len(alone.took_ms) < count:
            for store in one_by_one(self._missions(self.robots[:20]), self._line):
                asyncio.run(store)
                with alone.measured():
                    self.worker.step(timezone.now(), time.monotonic())
        return alone

    def events_made(self) -> int:
        """By receipts: not those of drawing up and dispatching."""
        by_people = ("mission.drafted", "mission.dispatched")
        return Event.objects.filter(pk__gt=self.first_event).exclude(kind__in=by_people).count()

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
        return store_all(lambda robot, n: receipt(robot, missions[robot], n, 1), self.robots)

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

    def singly(self, count: int) -> Meter:
        alone = Meter()
        while len(alone.took_ms) < count:
            missions = self._missions(self.robots[:20])
            for store in one_by_one(missions, lambda robot, pk, n: receipt(robot, pk, n, 1)):
                asyncio.run(store)
                with alone.measured():
                    for p, entries in self.streams.read_new(self.partitions, 1, None).items():
                        plain.one(entries[0], timezone.now())
                        self.streams.ack(p, [entries[0].id])
        return alone
