"""What a robot carries: a live fact like its place, told by its driver, shown as text and gone when it has put it down."""

import asyncio
import json
from datetime import timedelta

import pytest
import redis.asyncio
from django.conf import settings

from fleet.ports import live
from telemetry import snapshots
from telemetry.drivers.contract import Heard, Spec, Tell, Wanted
from telemetry.drivers.vda5050 import driver
from telemetry.drivers.vda5050.profile import Profile
from telemetry.gateways.mqtt.soundness import sound
from tests.actors import START

STATE = {
    "headerId": 1, "timestamp": "2026-11-29T10:00:00Z", "version": "2.1.0", "manufacturer": "KIT", "serialNumber": "1",
    "orderId": "", "orderUpdateId": 0, "lastNodeId": "", "lastNodeSequenceId": 0, "nodeStates": [], "edgeStates": [],
    "driving": False, "actionStates": [], "batteryState": {"batteryCharge": 80, "charging": False},
    "operatingMode": "AUTOMATIC", "errors": [], "safetyState": {"eStop": "NONE", "fieldViolation": False},
}  # fmt: skip


def told(*loads):
    talk = driver.converse(Spec(id="F-7", address="KIT/1", profile=Profile()))
    for n, load in enumerate(loads):
        payload = json.dumps(STATE | {"headerId": n + 1} | ({} if load is None else {"loads": load})).encode()
        heard = Heard(part="state", payload=payload, at=START + timedelta(seconds=2 * n))
        found = [e.facts["carries"] for e in talk.hear(heard, Wanted()) if isinstance(e, Tell) and "carries" in e.facts]
    return found[-1]


@pytest.mark.parametrize(("loads", "says"), [
    ([[{"loadId": "pallet 7"}]], "pallet 7"), ([[{"loadType": "EPAL"}]], "EPAL"), ([[{}]], "something"), ([[]], ""), ([None], ""),
    ([[{"loadId": "a"}, {"loadId": "b\nc"}]], "a, b c"), ([[{"loadId": "a"}], []], ""), ([[{"loadId": "x" * 900}]], "x" * 199 + "…"),
])  # fmt: skip
def test_what_a_state_says_of_loads(loads, says):
    assert told(*loads) == says


def test_only_text_that_can_be_shown_is_kept():
    assert sound({"carries": "pallet 7"}) == {"carries": "pallet 7"}
    assert sound({"carries": ""}) == {"carries": ""}
    for bad in (7, None, "x" * 201, "a\0", ["a"]):
        assert sound({"carries": bad}) == {}


def put(seq, carries):
    async def work():
        async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as client:
            if seq == 1:
                await client.flushdb()
            await snapshots.put(client, "RB-001", 1, seq, START, {"carries": carries})

    asyncio.run(work())


def test_it_is_on_the_robots_page_until_it_is_put_down(client, admin_person, robot):
    put(1, "<b>pallet 7")
    assert live.facts(["RB-001"])["RB-001"].carries == "<b>pallet 7"
    client.force_login(admin_person)
    page = client.get("/admin/fleet/robot/RB-001/change/").content.decode()
    assert "Carries" in page and "&lt;b&gt;pallet 7" in page
    put(2, "")
    assert live.facts(["RB-001"])["RB-001"].carries == ""
    assert "Carries" not in client.get("/admin/fleet/robot/RB-001/change/").content.decode()
