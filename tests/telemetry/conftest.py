"""A worker, its clock, and the streams it reads, empty; a real server."""

import pytest
import redis
from django.conf import settings

from telemetry.worker.loop import Worker
from tests.telemetry.robots_talk import Clock
from tests.telemetry.served import served


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
    worker = Worker(name="one")
    monkeypatch.setattr(worker.sweep, "step", lambda *_: False)
    worker.partitions.lease_s = 600
    yield worker
    worker.streams.close()


@pytest.fixture
def server(durable, robot):
    """A real web process, and the address of its robots' socket."""
    with served() as (process, port):
        yield process, f"ws://127.0.0.1:{port}/robot/v1/ws"
