"""Telemetry on its way to the live Redis: many in one round trip, none of it in a robot's way."""

from datetime import UTC, datetime, timedelta

import redis.asyncio

from telemetry import metrics, snapshots
from telemetry.gateways import vitals
from telemetry.gateways.vitals import Vitals
from telemetry.snapshots import Put

T0 = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def put(number, robot="RB-001"):
    return Put(robot, 1, number, T0 + timedelta(seconds=number), {"battery": float(number)})


async def test_a_round_writes_every_message_and_every_sign_of_life(live):
    queue = Vitals(live)
    await live.script_flush()
    async with live.pubsub() as dirty:
        await dirty.subscribe("dirty")
        for message in (put(1), put(3), put(2), put(7, "RB-002")):
            queue.put(message)
        queue.touch("RB-003", T0)
        queue.touch("RB-001", T0 + timedelta(seconds=9))
        assert await queue.step()
        announced = 0
        while await dirty.get_message(timeout=0.05):
            announced += 1
    found = await snapshots.read(live, ["RB-001", "RB-002", "RB-003"])
    assert {robot: s.battery for robot, s in found.items()} == {"RB-001": 3.0, "RB-002": 7.0}
    seen = {robot.decode(): score for robot, score in await live.zrange("seen", 0, -1, withscores=True)}
    at = snapshots.milliseconds(T0)
    assert seen == {"RB-001": at + 9000, "RB-002": at + 7000, "RB-003": at}
    assert announced == 1 + 3  # the subscription; RB-001 twice, RB-002


async def test_what_waits_too_long_makes_room_for_what_is_new(live, monkeypatch):
    monkeypatch.setattr(vitals, "LIMIT", 20)
    monkeypatch.setattr(vitals, "AT_ONCE", 7)
    queue, before = Vitals(live), metrics.DROPPED._value.get()
    for number in range(1, vitals.LIMIT + 10):
        queue.put(put(number, f"RB-{number}"))
    assert metrics.DROPPED._value.get() - before == 9
    while queue._puts:
        assert await queue.step()
    names = [f"RB-{n}" for n in (1, 9, 10, vitals.LIMIT + 9)]
    assert list(await snapshots.read(live, names)) == names[2:]


async def test_under_load_what_a_robot_has_superseded_goes_first_and_no_fact_of_it_is_lost(live, monkeypatch):
    monkeypatch.setattr(vitals, "LIMIT", 20)
    monkeypatch.setattr(vitals, "AT_ONCE", 7)
    queue, before = Vitals(live), metrics.DROPPED._value.get()
    queue.put(Put("RB-1", 1, 1, T0, {"place": "Dock A", "battery": 50.0}))
    queue.put(Put("RB-1", 1, 3, T0, {"battery": 49.0}))
    queue.put(Put("RB-1", 1, 2, T0, {"battery": 49.5, "speed": 1.0}))  # overtaken
    for number in range(2, 40):
        queue.put(put(number, "RB-2"))
    while queue._puts:
        assert await queue.step()
    found = await snapshots.read(live, ["RB-1", "RB-2"])
    assert (found["RB-1"].place, found["RB-1"].battery, found["RB-1"].speed) == ("Dock A", 49.0, 1.0)
    assert found["RB-2"].battery == 39.0
    assert metrics.DROPPED._value.get() == before


async def test_a_live_redis_that_is_away_is_said_once_and_the_next_round_goes_on(live, caplog):
    async with redis.asyncio.Redis.from_url("redis://127.0.0.1:1/0") as nobody:
        queue = Vitals(nobody)
        for number in (1, 2):
            queue.put(put(number))
            assert not await queue.step()
    assert caplog.text.count("live Redis takes no telemetry") == 1
    queue._live = live
    queue.put(put(3))
    assert await queue.step()
    assert (await snapshots.read(live, ["RB-001"]))["RB-001"].battery == 3.0
