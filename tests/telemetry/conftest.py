"""A worker, its clock, and the streams it reads, empty."""

import pytest
import redis
from django.conf import settings

from telemetry import snapshots
from telemetry.worker import Worker
from tests.telemetry.robots_talk import Clock


@pytest.fixture
def durable():
    client = redis.from_url(settings.REDIS_URL)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(durable, db, monkeypatch):
    """No verdict on links, whatever an earlier test left in the live Redis and however long ago; presence has its own tests."""
    monkeypatch.setattr(snapshots, "last_received", lambda robot_ids: None)
    worker = Worker(name="one")
    worker.partitions.lease_s = 600
    yield worker
    worker.streams.close()
