"""deploy/mosquitto: the gateway hears and commands all, a robot writes its own topics and hears its own commands only."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests.eventually import eventually_async
from tests.peers.brokers import Mosquitto
from tests.peers.test_gateway_broker import Ear
from tests.tools import tool

FOLDER = Path(settings.BASE_DIR) / "deploy" / "mosquitto"


@pytest.fixture
def mosquitto(tmp_path):
    passwords = tmp_path / "passwords"
    passwords.touch()
    for user in ("drover", "RB-001", "RB-002", "0001"):
        command = [tool("mosquitto_passwd"), "-b", str(passwords), user, "pw"]
        subprocess.run(command, check=True)
    broker = Mosquitto(tmp_path / "broker")
    ours = (FOLDER / "mosquitto.conf").read_text().replace("/mosquitto/config", str(FOLDER))
    ours = ours.replace("/mosquitto/data/passwords", str(passwords)).replace("/mosquitto/data/", f"{tmp_path}/broker/")
    ours = ours.replace("listener 1883", f"listener {broker.port} 127.0.0.1\nuser root")
    (tmp_path / "broker" / "mosquitto.conf").write_text(ours)
    with broker:
        yield broker


async def test_each_may_what_is_its_own(mosquitto):
    def user(name: str) -> Ear:
        return Ear(mosquitto.url.replace("//", f"//{name}:pw@"), f"client-{name}")

    async with user("drover") as gateway, user("RB-001") as robot, user("RB-002") as other, user("0001") as vda:
        gateway.broker.want({"drover/v1/+/events": 1, "uagv/v2/+/+/state": 0})
        robot.broker.want({"drover/v1/RB-001/commands": 1, "drover/v1/+/commands": 0, "drover/v1/RB-002/commands": 1})
        for ear in (gateway, robot, other, vda):
            await ear.up()
        other.broker.publish("drover/v1/RB-001/events", b"forged", 1)
        vda.broker.publish("uagv/v2/ACME/0002/state", b"forged", 0)
        robot.broker.publish("drover/v1/RB-001/commands", b"forged", 1)
        robot.broker.publish("drover/v1/RB-001/events", b"own", 1)
        vda.broker.publish("uagv/v2/ACME/0001/state", b"own state", 0)
        await eventually_async(
            lambda: len(gateway.heard) == 2, what=lambda: f"two words; it heard {gateway.payloads()}"
        )
        gateway.broker.publish("drover/v1/RB-002/commands", b"of another", 1)
        gateway.broker.publish("drover/v1/RB-001/commands", b"mine", 1)
        await eventually_async(lambda: b"mine" in robot.payloads())
        await asyncio.sleep(0.3)
        assert sorted(gateway.payloads()) == [b"own", b"own state"]
        assert set(robot.payloads()) == {b"mine"}
    said = (mosquitto.folder / "log").read_text()
    assert "recommended" not in said and "deprecated" not in said, said
