"""Snapshots in the live Redis: newer wins, the last known is kept, a restart is noticed."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import redis
import redis.asyncio
from django.conf import settings

from fleet.ports import live
from telemetry import protocol, snapshots
from telemetry.drivers import native
from tests.telemetry.robots_talk import message

T0 = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


@pytest.fixture
async def client():
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as connection:
        await connection.flushdb()
        yield connection


async def test_what_was_put_is_read(client):
    assert await snapshots.put(client, "RB-001", 7, 1, T0, {"x": 1.5, "y": -2.0, "battery": 80, "place": "Dock Ä"})
    found = (await snapshots.read(client, ["RB-001", "RB-404"]))["RB-001"]
    assert (found.x, found.y, found.battery, found.place) == (1.5, -2.0, 80.0, "Dock Ä")
    assert found.at == found.posed_at == snapshots.milliseconds(T0)
    assert list(await snapshots.read(client, ["RB-404"])) == []


@pytest.mark.parametrize(
    ("session", "seq", "wins"),
    [(7, 11, True), (8, 1, True), (10, 0, True), (7, 10, False), (7, 9, False), (6, 99, False)],
)
async def test_newer_session_and_seq_wins(client, session, seq, wins):
    await snapshots.put(client, "RB-001", 7, 10, T0, {"battery": 50.0})
    assert await snapshots.put(client, "RB-001", session, seq, T0, {"battery": 40.0}) is wins
    assert (await snapshots.read(client, ["RB-001"]))["RB-001"].battery == (40.0 if wins else 50.0)


async def test_a_refused_write_is_no_sign_of_life(client):
    await snapshots.put(client, "RB-001", 7, 10, T0, {"battery": 50.0})
    await snapshots.put(client, "RB-001", 7, 9, T0 + timedelta(minutes=1), {"battery": 40.0})
    assert await client.zscore("seen", "RB-001") == snapshots.milliseconds(T0)


async def test_the_last_known_is_kept_however_old_it_is(client):
    await snapshots.put(client, "RB-001", 7, 10, T0, {"battery": 50.0})
    assert await client.ttl("last:RB-001") == -1


async def test_a_heartbeat_keeps_the_pose_and_its_age(client):
    await snapshots.put(client, "RB-001", 7, 1, T0, {"x": 0.1, "y": 3.0, "theta": 1.0, "place": "A" * 300})
    later = T0 + timedelta(seconds=30)
    await snapshots.put(client, "RB-001", 7, 2, later, {"battery": 49.7, "x": None})
    found = (await snapshots.read(client, ["RB-001"]))["RB-001"]
    assert (found.x, found.y, found.theta, found.battery, found.place) == (0.1, 3.0, 1.0, 49.7, "A" * 300)
    assert (found.at, found.posed_at) == (snapshots.milliseconds(later), snapshots.milliseconds(T0))


async def test_dirty_is_announced_with_the_write_and_only_with_it(client):
    async with client.pubsub() as listener:
        await listener.subscribe(snapshots.DIRTY)
        await listener.get_message(timeout=5)
        await snapshots.put(client, "RB-001", 7, 2, T0, {"x": 1.0})
        await snapshots.put(client, "RB-001", 7, 1, T0, {"x": 2.0})
        await snapshots.put(client, "RB-002", 1, 1, T0, {"x": 3.0})
        heard = [msgspec.json.decode((await listener.get_message(timeout=5))["data"]) for _ in range(2)]
    at = snapshots.milliseconds(T0)
    assert heard == [[["robot", "RB-001", "live", at]], [["robot", "RB-002", "live", at]]]


JSON = b'7 1 J{"v":1,"at":5,"battery":12.5,"colour":"red"}'


@pytest.mark.parametrize(
    ("stored", "battery"),
    [
        (JSON, 12.5),
        (b"7 1 M" + msgspec.msgpack.encode({"v": 1, "at": 5, "battery": 9, "new_field": [1]}), 9.0),
        (b"7 1 M" + msgspec.msgpack.encode({"v": 1, "at": 5}), None),
        (JSON.replace(b'"v":1', b'"v":2'), "absent"),
        (b"7 1 Z\x81", "absent"),
        (b"7 1 M\xff", "absent"),
        (b"7 1 ", "absent"),
        (b"nonsense", "absent"),
    ],
)
async def test_readers_are_tolerant(client, stored, battery):
    await client.set("last:RB-001", stored)
    found = await snapshots.read(client, ["RB-001"])
    assert (found["RB-001"].battery if found else "absent") == battery


@pytest.mark.parametrize("stored", [JSON, b"7 1 M\xff", b"nonsense", JSON.replace(b'"v":1', b'"v":2')])
async def test_a_writer_gets_over_what_it_cannot_read(client, stored):
    await client.set("last:RB-001", stored)
    assert await snapshots.put(client, "RB-001", 7, 2, T0, {"battery": 3.0})
    assert (await snapshots.read(client, ["RB-001"]))["RB-001"].battery == 3.0


async def test_the_port_gives_facts_with_units_and_time(client):
    await snapshots.put(client, "RB-001", 7, 1, T0, {"x": 1.0, "y": 2.0, "speed": 0.5, "place": "Dock A"})
    assert live.source is snapshots.facts
    assert live.facts(["RB-001", "RB-404"]) == {"RB-001": live.Facts(T0, 1.0, 2.0, None, 0.5, None, "Dock A")}


async def test_the_port_is_empty_when_the_live_redis_is_down(settings, unused_tcp_port):
    settings.LIVE_REDIS_URL = f"redis://127.0.0.1:{unused_tcp_port}/0"
    assert live.facts(["RB-001"]) == {}
    assert snapshots.last_received(["RB-001"]) is None


async def test_a_gateway_whose_clock_is_behind_makes_no_robot_older(client):
    await snapshots.put(client, "RB-001", 7, 1, T0 + timedelta(seconds=5), {"battery": 50.0})
    await snapshots.put(client, "RB-001", 7, 2, T0, {"battery": 49.0})
    assert snapshots.last_received(["RB-001"]).at == {"RB-001": T0 + timedelta(seconds=5)}


async def test_last_received_knows_every_sign_of_life_and_the_newest_counts(client):
    await snapshots.put(client, "RB-001", 7, 1, T0, {})
    await snapshots.touch(client, "RB-001", T0 + timedelta(seconds=2))
    await snapshots.touch(client, "RB-001", T0 + timedelta(seconds=1))
    await snapshots.touch(client, "RB-002", T0)
    await client.set("born", 0)
    await client.zadd("gateways", {"here:1": snapshots.milliseconds(T0)})
    await client.zadd("deaf", {"there": snapshots.milliseconds(T0)})
    assert snapshots.last_received(["RB-001", "RB-002", "RB-404"]) == (
        {"RB-001": T0 + timedelta(seconds=2), "RB-002": T0},
        True,
        {"here:1": T0},
        {"there": T0},
        {},
        {},
    )
    assert snapshots.last_received([])[:2] == ({}, True)


async def test_what_somebody_witnessed_of_links_is_known_for_a_day(client):
    now = datetime.fromtimestamp(snapshots.now_ms() // 1000, UTC)
    old = now - timedelta(seconds=snapshots.HINTS_S + 1)
    hints = {"gone": {"RB-001": now, "RB-002": old}, "unanswered": {"RB-002": now}}
    await snapshots.write(client, [], {}, hints)
    await snapshots.write(client, [], {}, {"gone": {"RB-001": old}})  # an older word changes nothing
    heard = snapshots.last_received(["RB-001", "RB-002"])
    assert (heard.gone, heard.unanswered) == ({"RB-001": now}, {"RB-002": now})


async def test_silence_proves_nothing_until_the_grace_after_the_live_redis_lost_its_data(client):
    await snapshots.touch(client, "RB-001", T0)
    assert snapshots.last_received(["RB-001"])[:2] == ({"RB-001": T0}, False)  # it has just been born
    born = int(await client.get("born"))
    await client.set("born", born - int(snapshots.GRACE_S * 1000) - 1)
    assert snapshots.last_received(["RB-001"])[:2] == ({"RB-001": T0}, True)
    await client.flushdb()
    assert snapshots.last_received(["RB-001"])[:2] == ({}, False)


def test_a_live_redis_that_hangs_is_left_alone_for_a_while(monkeypatch):
    clock, asked = [100.0], []

    def slow(ids):
        asked.append(ids)
        clock[0] += 0.5
        return {}

    monkeypatch.setattr(snapshots.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(snapshots, "last_known", slow)
    monkeypatch.setattr(snapshots, "_rests_until", 0.0)
    for _ in range(5):
        snapshots.facts(["RB-001"])
    assert len(asked) == 1
    clock[0] += snapshots.REST_S
    snapshots.facts(["RB-001"])
    assert len(asked) == 2


def test_of_a_lossy_message_only_live_facts_are_kept():
    said = message(
        "RB-001", "robot.telemetry", 1, channel="lossy", data={"x": 1.0, "y": 2.0, "theta": 0.0, "log": "x" * 1000}
    )
    up = protocol.decode_up(json.dumps(said).encode())
    facts = native.facts(up, up.occurred_at - timedelta(seconds=90))
    assert facts.keys() <= set(live.Facts._fields) and facts["x"] == 1.0
    assert facts["skew_s"] == 90.0


async def test_what_was_noted_before_the_clock_was_put_back_outranks_nothing_that_follows(client):
    """A robot that had not answered an hour "ahead" would be offline for an hour, whatever it says; a silent one online."""
    now = datetime.now(UTC).replace(microsecond=0)  # witnesses of yesterday are forgotten
    ahead = now + timedelta(hours=1)
    await snapshots.write(
        client, [], {"RB-001": ahead, "RB-002": now}, {"gone": {"RB-001": ahead}, "unanswered": {"RB-001": ahead}}
    )
    await client.set("born", snapshots.milliseconds(ahead))
    snapshots.put_back(now + timedelta(seconds=9))
    heard = snapshots.last_received(["RB-001", "RB-002"])
    assert int(await client.get("born")) == snapshots.milliseconds(now + timedelta(seconds=9))
    assert heard.at == {"RB-001": now + timedelta(seconds=9), "RB-002": now}
    assert heard.gone == heard.unanswered == {"RB-001": now + timedelta(seconds=9)}


async def test_nine_thousand_robots_of_one_worker_are_asked_about(client):
    """Lua unpacks no more than 8,000 values, and to the sweep it was as if the live Redis were away."""
    robots = [f"RB-{n:04}" for n in range(9000)]
    await snapshots.write(client, [], dict.fromkeys(robots[::2], T0))
    assert snapshots.last_received(robots).at == dict.fromkeys(robots[::2], T0)
