"""A site that was down while its robots worked on: what they said is waiting, and every deadline has passed meanwhile."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings

from fleet.models import Event
from missions import invariants, locked
from missions.models import Mission
from telemetry.gateways.intake import Intake
from telemetry.models import ProcessedMessage, Watermark
from tests.chaos.machine import is_busy
from tests.chaos.person import Person
from tests.chaos.scripted_robots import fleet_of
from tests.telemetry.robots_talk import whole_life

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

ROBOTS, STEPS, DOWN_S = 200, 48, 1200  # 200 of (accepted, 48 steps, finished) = 10,000 messages
OVERDUE = ("undelivered", "accept_timeout", "step_timeout", "finish_timeout", "timeout", "stop_requested", "aborted")
GROWS_MB, LONGEST_S, PAGE_S = 50, 0.25, 1.0


def test_ten_thousand_buffered_messages_drain_in_bounds_and_no_deadline_fires_that_one_of_them_answers(
    site, brand, supervisor, start_worker, web, tmp_path, monkeypatch, capsys
):
    left = datetime.now(UTC) - timedelta(seconds=DOWN_S)
    with monkeypatch.context() as past:
        past.setattr(locked, "now", lambda: left)
        missions = fleet_of(site, brand, ROBOTS, STEPS)
    lives = [whole_life(mission, STEPS) for mission in missions]
    asyncio.run(store(lives, left))
    total = sum(map(len, lives))
    assert total == 10_000

    figures = tmp_path / "figures"
    person, took = Person(supervisor, web), []
    assert person.ask("/fleet/")[0] == 200  # warm
    busy = is_busy()
    began = time.monotonic()
    worker = start_worker(figures=str(figures))
    while ProcessedMessage.objects.count() < total and time.monotonic() - began < 240:
        took.append(person.ask("/fleet/")[2])
    drained_s = time.monotonic() - began
    assert ProcessedMessage.objects.count() == total
    memory = Path(f"/proc/{worker.pid}/status").read_text()
    at_start, longest_s, cpu_s = json.loads(figures.read_text()).values()
    grew_mb = (int(memory.split("VmHWM:")[1].split()[0]) - at_start) / 1024
    page_p99 = sorted(took)[int(len(took) * 0.99)]
    with capsys.disabled():
        print(
            f"\n  {total} messages of {ROBOTS} robots applied {drained_s:.1f} s after the worker's start: it grew by"
            f" {grew_mb:.0f} MB, longest transaction {longest_s * 1000:.0f} ms ({cpu_s * 1000:.0f} ms CPU), page p99 {page_p99 * 1000:.0f} ms"
            f" of {len(took)}"
        )
    assert set(Mission.objects.values_list("state", flat=True)) == {"success"}
    assert not Event.objects.filter(kind__in=[f"mission.{kind}" for kind in OVERDUE]).exists()
    assert set(Watermark.objects.values_list("applied_seq", flat=True)) == {STEPS + 2}
    assert invariants.check() == []
    assert grew_mb < GROWS_MB
    assert cpu_s < LONGEST_S
    if not busy:
        assert longest_s < LONGEST_S
        assert page_p99 < PAGE_S


async def store(lives: list[list[dict]], since: datetime) -> None:
    """What was received in time: a line of each robot every few seconds, all before the site went down for good."""
    intake = Intake(settings.REDIS_URL)
    for n, act in enumerate(zip(*lives, strict=True), 1):
        at = since + timedelta(seconds=5 * n)
        await asyncio.gather(
            *(intake.store(line["robot"], UUID(line["msg_id"]), json.dumps(line).encode(), at) for line in act)
        )
    await intake.aclose()
