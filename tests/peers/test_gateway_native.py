"""Native robots over a real broker: hello, words stored before they are acknowledged, commands, and what is retained."""

import json

import pytest

from fleet.models import Alert
from fleet.robots import stopping
from telemetry import protocol, snapshots, stream
from tests.actors import SYSTEM
from tests.eventually import eventually_async
from tests.peers.gateways import Device, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("streams")]


def stored(durable, robot="RB-001"):
    entries = durable.xrange(stream.key(stream.partition_of(robot)))
    return [json.loads(fields[b"raw"]) for _, fields in entries if fields[b"robot"] == robot.encode()]


async def test_a_robot_says_hello_and_its_words_are_stored(broker, token, streams, ask):
    async with running(broker.url), Device(broker.url, "RB-001") as robot:
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


async def test_a_robot_whose_token_is_wrong_is_told_so(broker, robot):
    async with running(broker.url), Device(broker.url, "RB-001") as device:
        device.publish("events", {"type": "hello", "v": 1, "robot": "RB-001", "data": {"token": "drover_wrong"}})
        told = await device.hear(lambda frame: frame["type"] == "close")
        assert told["code"] == protocol.UNAUTHORISED


async def test_a_command_that_was_left_on_the_broker_raises_an_alarm(broker, robot, ask):
    async with Device(broker.url, "RB-001") as somebody:
        somebody.broker._client.publish("drover/v1/RB-001/commands", b'{"type": "robot.release"}', 1, retain=True)
        async with running(broker.url):
            found = await eventually_async(lambda: ask(lambda: list(Alert.objects.values_list("cause", flat=True))))
            assert found == ["retained_command:robot:RB-001"]
