"""A flood reaches its robots as back-pressure before it reaches memory: frozen Redis, no worker, little room. Nothing is lost.

Prints what it measured.
"""

import asyncio
import json
import os
import signal
import time
import uuid
from pathlib import Path

import pytest
import redis
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fleet.robots import actions, credentials
from telemetry import stream
from telemetry.stream import Streams
from tests.actors import SYSTEM
from tests.telemetry.served import served

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]
ROBOTS = 5
PADDING = "x" * 3000
AHEAD = 200  # messages that a flooding robot sends without waiting for their acknowledgement
RESEND_S = 2.0  # as the simulated robots


class Flooder:
    """Sends as fast as its link takes it, again and again what was not acknowledged, in order."""

    def __init__(self, name: str, token: str, total: int, ahead: int = AHEAD) -> None:
        self.name, self.token, self.total, self.ahead = name, token, total, ahead
        self.unacked: dict[str, str] = {}  # msg_id → frame, in order
        self.made, self.session = 0, 0
        self.slowest_s = 0.0

    async def run(self, port: int) -> None:
        while self.unacked or self.made < self.total:
            try:
                headers = {"Authorization": f"Bearer {self.token}"}
                async with connect(f"ws://127.0.0.1:{port}/robot/v1/ws", additional_headers=headers) as link:
                    await self._talk(link)
            except (ConnectionClosed, OSError):
                await asyncio.sleep(0.3)

    async def say_hello(self, port: int) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with connect(f"ws://127.0.0.1:{port}/robot/v1/ws", additional_headers=headers, open_timeout=30) as link:
            await self._greet(link)

    async def _greet(self, link) -> None:
        await link.send(json.dumps({"type": "hello", "v": 1, "robot": self.name, "data": {}}))
        self.session = json.loads(await link.recv())["session"]

    async def _talk(self, link) -> None:
        await self._greet(link)
        hearing = asyncio.create_task(self._hear(link))
        try:
            while self.unacked or self.made < self.total:
                for frame in list(self.unacked.values()):
                    await link.send(frame)
                again_at = time.monotonic() + RESEND_S
                while time.monotonic() < again_at and (self.unacked or self.made < self.total):
                    if self.made < self.total and len(self.unacked) < self.ahead:
                        await link.send(self._make())
                    else:
                        await asyncio.sleep(0.01)
                    if hearing.done():
                        hearing.result()
                    if not self.unacked:
                        again_at = time.monotonic() + RESEND_S
        finally:
            hearing.cancel()

    def _make(self) -> str:
        self.made += 1
        msg_id = str(uuid.uuid4())
        self.unacked[msg_id] = json.dumps({
            "v": 1, "msg_id": msg_id, "robot": self.name, "session": self.session, "channel": "critical", "seq": self.made,
            "type": "robot.fault", "occurred_at": "2026-11-29T10:00:00Z", "data": {"code": "E", "text": PADDING},
        })  # fmt: skip
        self.sent_at = time.monotonic()
        return self.unacked[msg_id]

    async def _hear(self, link) -> None:
        async for frame in link:
            told = json.loads(frame)
            if self.unacked.pop(told.get("msg_id"), None) is not None and self.ahead == 1:
                self.slowest_s = max(self.slowest_s, time.monotonic() - self.sent_at)


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Memory:
    """The most that a process held above what it began with."""

    def __init__(self, pid: int) -> None:
        self.pid, self.began, self.most = pid, rss_mb(pid), 0.0

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, rss_mb(self.pid) - self.began)
            await asyncio.sleep(0.05)


@pytest.fixture
def durable(own_valkey, environment, settings, monkeypatch):
    """This test's own durable Redis, with streams."""
    monkeypatch.setenv("REDIS_URL", own_valkey.url)
    settings.REDIS_URL = own_valkey.url
    streams = Streams(own_valkey.url)
    streams.ensure_groups(range(settings.PARTITIONS))
    streams.close()
    with redis.from_url(own_valkey.url) as client:
        yield client


@pytest.fixture
def tokens(site, brand):
    found = {}
    for n in range(ROBOTS):
        name = f"RB-{n:03}"
        actions.enrol_robot(id=name, name=name, site=site, brand=brand, by=SYSTEM)
        found[name] = credentials.issue_credential(name, by=SYSTEM)
    return found


def stored(durable, name: str) -> list[int]:
    """Numbers of this robot's messages as they are in its stream."""
    entries = durable.xrange(stream.key(stream.partition_of(name)))
    return [json.loads(f[b"raw"])["seq"] for _, f in entries if f[b"robot"] == name.encode()]


async def flood(robots: list[Flooder], port: int, pid: int, meanwhile) -> Memory:
    await Flooder(robots[0].name, robots[0].token, 0).say_hello(port)  # by then all of it is loaded
    memory = Memory(pid)
    watching = asyncio.create_task(memory.watch())
    sending = [asyncio.create_task(robot.run(port)) for robot in robots]
    await meanwhile()
    async with asyncio.timeout(90):
        await asyncio.gather(*sending)
    watching.cancel()
    return memory


def test_a_frozen_durable_redis_costs_no_memory_and_no_message(durable, own_valkey, tokens, settings):
    robots = [Flooder(name, token, 800) for name, token in tokens.items()]

    async def freeze() -> None:
        while sum(robot.made for robot in robots) < 500:  # in the midst of it, however fast this machine is
            await asyncio.sleep(0.01)
        own_valkey.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(6)
        assert any(robot.unacked for robot in robots)
        own_valkey.process.send_signal(signal.SIGCONT)

    with served() as (process, port):
        memory = asyncio.run(flood(robots, port, process.pid, freeze))
    for robot in robots:
        assert stored(durable, robot.name) == list(range(1, 801)), robot.name
    print(f"\nfrozen durable Redis, {ROBOTS} flooding robots: web at most {memory.most:.0f} MB above its start")
    assert memory.most < 60


def test_without_a_worker_robots_wait_before_redis_is_full(durable, tokens, settings):
    """4 MB of room, 9 MB of messages. Then a worker's side makes room, and all the rest comes."""
    used = durable.info("memory")["used_memory"]
    limit = used + 4 * 2**20
    durable.config_set("maxmemory", limit)
    robots = [Flooder(name, token, 600) for name, token in tokens.items()]
    most = 0

    async def fill() -> None:
        nonlocal most
        until = time.monotonic() + 60
        while time.monotonic() < until and most <= 0.8 * limit:
            await asyncio.sleep(0.1)
            most = max(most, durable.info("memory")["used_memory"])
        for _ in range(30):  # and on: they send as before
            await asyncio.sleep(0.1)
            most = max(most, durable.info("memory")["used_memory"])
        assert sum(robot.made - len(robot.unacked) for robot in robots) < 600 * ROBOTS
        assert most > 0.8 * limit
        durable.config_set("maxmemory", used + 200 * 2**20)

    with served() as (process, port):
        memory = asyncio.run(flood(robots, port, process.pid, fill))
    for robot in robots:
        assert stored(durable, robot.name) == list(range(1, 601)), robot.name
    refused = durable.info("stats").get("total_error_replies", 0)
    oom = durable.info("errorstats").get("errorstat_OOM", {}).get("count", 0)
    print(
        f"\nno worker, {ROBOTS} flooding robots: durable Redis filled to {most / limit:.0%} of its limit, OOM errors {oom}"
        f" (of {refused} errors), web at most {memory.most:.0f} MB above its start"
    )
    assert oom == 0
    assert memory.most < 60


def test_one_flooding_robot_does_not_keep_another_waiting(durable, tokens, settings, monkeypatch):
    monkeypatch.setenv("DROVER_ROBOT_EVENTS_PER_S", "40")
    names = list(tokens)
    flooding = Flooder(names[0], tokens[names[0]], 1400)
    steady = Flooder(names[1], tokens[names[1]], 60, ahead=1)

    async def nothing() -> None:
        await asyncio.sleep(0)

    began = time.monotonic()
    with served() as (process, port):
        asyncio.run(flood([flooding, steady], port, process.pid, nothing))
    took = time.monotonic() - began
    assert stored(durable, flooding.name) == list(range(1, 1401))
    assert stored(durable, steady.name) == list(range(1, 61))
    print(f"\none robot floods, another speaks: slowest acknowledgement {1000 * steady.slowest_s:.0f} ms")
    assert took > 8  # 1,000 at once and 400 at 40 a second: it was slowed down
    assert steady.slowest_s < 1.0
