"""Worlds on this test's database and emptied streams, with time that only they move."""

import asyncio

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from telemetry import snapshots
from telemetry.gateways.intake import Intake
from telemetry.worker import loop as worker
from tests.chaos.schedules.world import World

EVERY = {"TEND_S": 3, "QUEUE_S": 2, "SWEEP_S": 2, "LOOK_S": 2}  # seconds between looks: nobody waits here


@pytest.fixture(scope="module")
def gateway_loop():
    loop = asyncio.new_event_loop()
    intake = Intake(settings.REDIS_URL)
    yield loop, intake
    loop.run_until_complete(intake.aclose())
    loop.close()


@pytest.fixture
def new_world(db, gateway_loop, monkeypatch):
    """new_world(seed) → a world that has not begun; its clock is the site's from now on."""
    with redis.from_url(settings.REDIS_URL) as durable:
        durable.flushdb()
    worlds = []

    def make(seed: int) -> World:
        world = World(seed, *gateway_loop)
        worlds.append(world)
        monkeypatch.setattr(timezone, "now", lambda: world.now)
        monkeypatch.setattr(snapshots, "last_received", world.heard)
        for name, seconds in EVERY.items():
            monkeypatch.setattr(worker, name, seconds)
        return world

    yield make
    for world in worlds:
        world.close()
