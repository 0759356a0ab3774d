"""A worker, its clock, and the streams it reads, empty."""

import pytest
import redis
from django.conf import settings

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
def worker(durable, db):
    worker = Worker(name="one")
    worker.partitions.lease_s = 600
    yield worker
    worker.streams.close()
