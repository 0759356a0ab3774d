"""A fleet through a broker that is away for longer than silence may last: nobody is called offline, all are back soon."""

import asyncio
import contextlib

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from fleet.models import Event, Robot
from fleet.robots import actions, credentials
from telemetry import snapshots
from telemetry.one_connection import OneConnection
from telemetry.worker.loop import Worker
from tests.actors import SYSTEM
from tests.eventually import eventually_async
from tests.peers.brokers import Mosquitto
from tests.peers.gateways import Device, running

pytestmark = pytest.mark.django_db(transaction=True)
FLEET = 20
AWAY_S = 22.0  # longer than a robot of this brand may be silent


class Living(Device):
    """Says hello when it is asked to, and beats."""

    def _heard(self, message):
        super()._heard(message)
        frame = self.frames.pop()
        if frame["type"] == "welcome":
            self.session, self.seq = frame["session"], {"critical": 0, "lossy": 0}
        elif frame["type"] == "close":
            self.greet()

    def greet(self):
        self.publish("events", {"type": "hello", "v": 1, "robot": self.robot, "data": {"token": self.token}})

    async def live(self, token):
        self.token, self.session = token, 0
        while True:
            with contextlib.suppress(OSError):
                self.say("robot.heartbeat", {"battery": 80}) if self.session else self.greet()
            await asyncio.sleep(1.0)


@pytest.fixture
def mosquitto(tmp_path):
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live, redis.Redis.from_url(settings.REDIS_URL) as durable:
        live.flushdb()
        durable.flushdb()
        live.set("born", snapshots.now_ms() - 3_600_000)
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def fleet(site, brand):
    """Robot → token."""
    tokens = {}
    for n in range(FLEET):
        actions.enrol_robot(id=f"RB-{n:03}", name=f"Robot {n}", site=site, brand=brand, by=SYSTEM)
        tokens[f"RB-{n:03}"] = credentials.issue_credential(f"RB-{n:03}", by=SYSTEM)
    return tokens


async def test_nobody_is_called_offline_while_the_broker_is_away(mosquitto, fleet):
    rows, worker = OneConnection("test"), Worker(name="one", grace_s=0.5)

    async def work():
        while True:
            await rows.ask(lambda: worker.step(timezone.now(), now()))
            await asyncio.sleep(0.3)

    now = asyncio.get_running_loop().time

    def presences():
        return set(Robot.objects.values_list("presence", flat=True))

    async with contextlib.AsyncExitStack() as stack:
        stack.callback(rows.close)
        stack.push_async_callback(rows.ask, worker.close)
        await rows.ask(lambda: worker.step(timezone.now(), now()))  # streams are there before robots come
        await stack.enter_async_context(running(mosquitto.url))
        devices = [Living(mosquitto.url, robot) for robot in fleet]
        for device in devices:
            await stack.enter_async_context(device)
        tasks = [asyncio.create_task(device.live(fleet[device.robot])) for device in devices]
        tasks.append(asyncio.create_task(work()))
        try:
            await eventually_async(lambda: rows.ask(lambda: presences() == {"online"}), what="all are online")
            since = await rows.ask(lambda: Event.objects.latest("id").id)
            mosquitto.kill()
            await asyncio.sleep(AWAY_S)
            assert await rows.ask(presences) == {"unknown"}
            mosquitto.start()
            await eventually_async(lambda: rows.ask(lambda: presences() == {"online"}), what="all are back")
            told = await rows.ask(
                lambda: [e.data for e in Event.objects.filter(id__gt=since, kind="robot.presence_changed")]
            )
            assert not [data for data in told if "offline" in data]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
