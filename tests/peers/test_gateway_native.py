"""Native robots over a real broker: hello, words stored before they are acknowledged, commands, and what is retained."""

import json

import pytest
import redis

from fleet.models import Alert
from fleet.robots import credentials, stopping
from telemetry import protocol, snapshots, stream
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.eventually import eventually_async
from tests.peers.brokers import Mosquitto
from tests.peers.gateways import Device, running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mosquitto(tmp_path):
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture(autouse=True)
def streams(settings):
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live, redis.Redis.from_url(settings.REDIS_URL) as durable:
        live.flushdb()
        durable.flushdb()
        yield durable


@pytest.fixture
def token(robot):
    return credentials.issue_credential("RB-001", by=SYSTEM)


@pytest.fixture
async def ask():
    rows = OneConnection("test")
    yield rows.ask
    rows.close()


def stored(durable, robot="RB-001"):
    entries = durable.xrange(stream.key(stream.partition_of(robot)))
    return [json.loads(fields[b"raw"]) for _, fields in entries if fields[b"robot"] == robot.encode()]


async def test_a_robot_says_hello_and_its_words_are_stored(mosquitto, token, streams, ask):
    async with running(mosquitto.url), Device(mosquitto.url, "RB-001") as robot:
        welcome = await robot.hello(token)
        assert welcome["session"] == 1
        said = robot.say("robot.state", {"mode": "idle"})
        ack = await robot.hear(lambda frame: frame.get("msg_id") == said["msg_id"])
        assert ack["verdict"] == "stored"
        assert stored(streams)[0]["msg_id"] == said["msg_id"]
        await ask(lambda: stopping.stop_robot("RB-001", why="test", by=SYSTEM))
        command = await robot.hear(lambda frame: frame["type"] == "robot.stop")
        robot.acknowledge(command["msg_id"])
        await eventually_async(lambda: [f for f in stored(streams) if f["type"] == "command.delivered"])
        assert snapshots.last_received(["RB-001"]).at


async def test_a_robot_whose_token_is_wrong_is_told_so(mosquitto, robot):
    async with running(mosquitto.url), Device(mosquitto.url, "RB-001") as device:
        device.publish("events", {"type": "hello", "v": 1, "robot": "RB-001", "data": {"token": "drover_wrong"}})
        told = await device.hear(lambda frame: frame["type"] == "close")
        assert told["code"] == protocol.UNAUTHORISED


async def test_a_command_that_was_left_on_the_broker_raises_an_alarm(mosquitto, robot, ask):
    async with Device(mosquitto.url, "RB-001") as somebody:
        somebody.broker._client.publish("drover/v1/RB-001/commands", b'{"type": "robot.release"}', 1, retain=True)
        async with running(mosquitto.url):
            found = await eventually_async(lambda: ask(lambda: list(Alert.objects.values_list("cause", flat=True))))
            assert found == ["retained_command:robot:RB-001"]
