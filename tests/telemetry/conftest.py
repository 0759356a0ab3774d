"""A worker, its clock, and the streams it reads, empty; tokens, the database from beside a loop; a real server."""

import pytest
import redis
import redis.asyncio
from django.conf import settings

from fleet.robots import credentials
from telemetry.drivers import registry
from telemetry.gateways import links
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.link import Link
from telemetry.one_connection import OneConnection
from telemetry.worker.loop import Worker
from tests.actors import SYSTEM
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
async def live():
    """The live Redis, empty."""
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as connection:
        await connection.flushdb()
        yield connection


@pytest.fixture
def drivers_anew():
    """Nothing is remembered of which drivers are here, before and after."""
    registry.forget()
    yield
    registry.forget()


@pytest.fixture
def streams(settings):
    """Empty streams, and nothing known of any robot."""
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live, redis.Redis.from_url(settings.REDIS_URL) as durable:
        live.flushdb()
        durable.flushdb()
        yield durable


@pytest.fixture
def link() -> Link:
    """In memory, with its own clock."""
    return Link("RB-001", 7, 1, send=None, close=None, spread=lambda command, sent: 1.0)


@pytest.fixture
def soon(monkeypatch):
    """The database is looked at often."""
    monkeypatch.setattr(links, "LOOK_S", 0.03)


@pytest.fixture
def token(robot):
    return credentials.issue_credential("RB-001", by=SYSTEM)


@pytest.fixture
def other_token(other_robot):
    return credentials.issue_credential("RB-002", by=SYSTEM)


@pytest.fixture
async def ask():
    """Look into the database from beside the loop; robots over HTTP are forgotten at the end."""
    rows = OneConnection("test")
    yield rows.ask
    await Callers.leave()
    rows.close()


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
