"""Robots over HTTP: nothing later is stored than what could not be; a flood and stores that are away."""

import pytest
import redis

from fleet.models import Hold
from fleet.robots import stopping
from telemetry.gateways import limits
from telemetry.gateways.intake import Intake, Unavailable
from telemetry.gateways.links import Links
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}
POSE = {"x": 1.0, "y": 2.0, "theta": 0.0}


async def test_when_one_cannot_be_stored_nothing_later_of_the_request_is(post, streams, monkeypatch):
    real = Intake._round_trip
    trips = 0

    async def flaky(self, batch):
        nonlocal trips
        trips += 1
        if trips == 2:
            raise redis.TimeoutError("slow")
        return await real(self, batch)

    monkeypatch.setattr(Intake, "_round_trip", flaky)
    batch = [post.message("robot.state", STATE) for _ in range(450)]
    reply = await post.post(*batch)
    assert (reply.status, reply.headers["retry-after"], reply.body["title"]) == (503, "2", "Not stored")
    assert reply.verdicts == ["stored"] * 200 + ["retry"] * 250
    assert stored(streams) == batch[:200]
    reply = await post.post(*batch)  # all of it again is as good as the rest
    assert reply.verdicts == ["duplicate"] * 200 + ["stored"] * 250
    assert stored(streams) == batch


async def test_while_nothing_can_be_stored_a_confirmed_stop_is_committed_all_the_same(post, ask, monkeypatch):
    async def refuse(self, *args):
        raise Unavailable("down")

    monkeypatch.setattr(Intake, "store", refuse)
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
    [stop] = (await post.poll()).body["commands"]
    reply = await post.ack(stop["msg_id"])
    assert (reply.status, reply.verdicts) == (503, ["retry"])
    before = post.message("robot.state", STATE)
    stopped = post.message("robot.stopped", {"reply_to": stop["msg_id"]})
    reply = await post.post(before, stopped)
    assert (reply.status, reply.verdicts) == (503, ["retry", "stored"])
    assert await ask(lambda: Hold.objects.get(robot="RB-001").confirmed_at)


async def test_when_the_worker_is_far_behind_robots_are_told_to_slow_down(post, streams, monkeypatch):
    await post.post(post.message("robot.state", STATE))
    monkeypatch.setattr(limits, "BACKLOG", 0)
    await Links._here.backlog.step()
    second = post.message("robot.state", STATE)
    reply = await post.post(second, post.message("robot.heartbeat", {}))
    assert (reply.status, reply.headers["retry-after"], reply.verdicts) == (429, "5", ["retry", "seen"])
    streams.flushdb()
    await Links._here.backlog.step()
    assert (await post.post(second)).verdicts == ["stored"]


async def test_in_a_flood_telemetry_is_dropped_counted_and_told_and_nothing_critical_is_lost(post, streams):
    Links._here.clock = lambda: 0.0
    kept, dropped = [], 0
    for _ in range(6):
        batch = [post.message("robot.telemetry", POSE) for _ in range(200)]
        batch[100] = post.message("robot.state", STATE)
        kept.append(batch[100])
        reply = await post.post(*batch)
        assert reply.status == 200
        assert reply.verdicts[100] == "stored"
        dropped += reply.verdicts.count("dropped")
    assert dropped == 6 * 199 - limits.LOSSY_BURST
    assert Links._here.counts["lossy dropped"] == dropped
    assert stored(streams) == kept
    await post.hello()
    assert (await post.post(post.message("robot.heartbeat", {}))).verdicts == ["dropped"]  # hello buys nothing
    Links._here.clock = lambda: 1.0
    assert (await post.post(post.message("robot.heartbeat", {}))).verdicts == ["seen"]
