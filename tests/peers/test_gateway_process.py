"""`manage.py gateway` as a process: refusals, the end in order, kill -9 and another one in its place."""

import asyncio
import json
import signal
import subprocess
import sys
import time

import pytest
import redis
from django.conf import settings

from fleet.robots import credentials
from fleet.running.tether import tied
from telemetry import stream
from telemetry.models import GatewayPartition, GatewayProcess
from tests.actors import SYSTEM
from tests.chaos.conftest import environment  # noqa: F401
from tests.eventually import eventually, eventually_async
from tests.peers.brokers import Mosquitto
from tests.peers.gateways import Device

ENDS_S = 3.0  # a second of its own, and the interpreter's end
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mosquitto(tmp_path):
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def start(environment, mosquitto, tmp_path):  # noqa: F811
    """start("hall") → a gateway of this name."""
    started = []

    def start(name: str = "hall", **more: str) -> subprocess.Popen[bytes]:
        env = {
            **environment,
            "MQTT_URL": mosquitto.url,
            "DROVER_GATEWAY": name,
            "DROVER_VAR": str(tmp_path / "var"),
            **more,
        }
        log = tmp_path / f"{name}-{len(started)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "gateway"], cwd=settings.BASE_DIR, env=env, stderr=out, preexec_fn=tied()
            )
        process.log = log  # type: ignore[attr-defined]
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert "Traceback" not in process.log.read_text(), process.log.read_text()


def hears(name: str = "drover-hall") -> bool:
    return GatewayProcess.objects.filter(name=name, trouble="").exists()


def last_line(process) -> str:
    return process.log.read_text().strip().splitlines()[-1]


def test_without_a_broker_it_says_what_is_missing(start):
    process = start(MQTT_URL="")
    assert process.wait(120) == 1
    assert "MQTT_URL is not set" in last_line(process)


@pytest.mark.quiet
def test_it_ends_in_order_within_a_second(start):
    process = start()
    eventually(hears)
    assert GatewayPartition.objects.filter(owner="drover-hall").count() == settings.PARTITIONS
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert time.monotonic() - began < ENDS_S
    assert not GatewayProcess.objects.exists()
    assert not GatewayPartition.objects.exclude(owner="").exists()


@pytest.mark.quiet
def test_it_ends_as_quickly_while_the_broker_does_not_answer(start, mosquitto):
    process = start()
    eventually(hears)
    mosquitto.signal(signal.SIGSTOP)
    eventually(lambda: GatewayProcess.objects.filter(trouble__contains="does not answer").exists())
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert time.monotonic() - began < ENDS_S


def test_a_second_one_of_the_same_name_does_not_start(start):
    start()
    eventually(hears)
    second = start()
    assert second.wait(120) == 1
    assert "drover-hall runs already" in last_line(second)
    assert hears()


async def test_after_a_kill_another_goes_on_and_the_robot_repeats_what_is_not_applied(start, mosquitto, robot, ask):
    token = await ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))

    def words() -> list[str]:
        with redis.from_url(settings.REDIS_URL) as client:
            entries = client.xrange(stream.key(stream.partition_of("RB-001")))
            return [json.loads(fields[b"raw"])["msg_id"] for _, fields in entries]

    first = start()
    await eventually_async(lambda: ask(hears))
    async with Device(mosquitto.url, "RB-001") as device:
        await device.hello(token)
        one = device.say("robot.state", {"mode": "idle"})
        await device.hear(lambda frame: frame.get("msg_id") == one["msg_id"])
        first.kill()
        first.wait()
        two = device.say("robot.state", {"mode": "charging"})  # the broker keeps it
        start()
        await eventually_async(
            lambda: [f for f in device.frames if f["type"] == "close"] or device.say("robot.heartbeat"), 30, "told to begin anew"
        )  # fmt: skip
        welcome = await device.hello(token)
        assert welcome["session"] == 2
        device.publish("events", two)
        await device.hear(lambda frame: frame.get("msg_id") == two["msg_id"])
        await asyncio.sleep(0.1)
        assert words() == [one["msg_id"], two["msg_id"]]
