"""A gateway is seen as long as it is there, and is not missed when it ends in order."""

import redis.asyncio

from telemetry import snapshots
from telemetry.gateways.beats import Beats


async def test_its_last_sign_of_life_is_known_until_it_ends_in_order(live):
    beats = Beats(live, "here:1")
    before = snapshots.now_ms()
    await beats.step()
    at = snapshots.last_received([]).gateways["here:1"]
    assert before <= snapshots.milliseconds(at) <= snapshots.now_ms()
    await beats.end()
    assert snapshots.last_received([]).gateways == {}


async def test_those_that_died_long_ago_are_forgotten(live):
    await live.zadd("gateways", {"old:1": snapshots.now_ms() - 4_000_000, "dead:2": snapshots.now_ms() - 10_000})
    await Beats(live, "here:1").step()
    assert snapshots.last_received([]).gateways.keys() == {"dead:2", "here:1"}


async def test_a_live_redis_that_is_away_is_no_trouble(unused_tcp_port):
    client = redis.asyncio.from_url(f"redis://127.0.0.1:{unused_tcp_port}/0")
    await Beats(client, "here:1").step()
    await Beats(client, "here:1").end()
    await client.aclose()
