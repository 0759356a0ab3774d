"""Robots over HTTP: a verdict for each event, in order; what is bad costs nothing else."""

import asyncio
import gzip
import json
import uuid

import pytest

from telemetry import protocol, snapshots
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.links import Links
from telemetry.models import Watermark
from tests.telemetry.post import Post
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}
POSE = {"x": 1.0, "y": 2.0, "theta": 0.0}


async def test_a_batch_is_stored_in_order_as_it_came_and_each_event_has_its_verdict(post, streams):
    batch = [post.message("robot.state", STATE) for _ in range(450)]
    reply = await post.post(*batch)
    assert (reply.status, reply.verdicts) == (200, ["stored"] * 450)
    assert [v["msg_id"] for v in reply.body["verdicts"]] == [m["msg_id"] for m in batch]
    assert stored(streams) == batch
    more = [batch[7], post.message("robot.state", STATE)]
    assert (await post.post(*more)).verdicts == ["duplicate", "stored"]
    assert stored(streams) == [*batch, more[1]]


async def test_one_event_and_one_on_each_line(post, streams):
    first, second, third = (post.message("robot.state", STATE) for _ in range(3))
    assert (await post.post(first)).verdicts == ["stored"]
    lines = "\n".join([json.dumps(second), "{broken", "", json.dumps(third)]) + "\n"
    reply = await post.post(lines, content_type="application/x-ndjson; charset=utf-8")
    assert reply.verdicts == ["stored", "invalid", "stored"]
    assert reply.body["verdicts"][1]["field"] == "message"
    assert stored(streams) == [first, second, third]


async def test_a_packed_body_and_one_that_comes_in_pieces(post, streams):
    first, second = (post.message("robot.state", STATE) for _ in range(2))
    packed = gzip.compress(json.dumps([first]).encode())
    reply = await post.request("POST", "/robot/v1/events", packed, content_encoding="gzip")
    assert reply.verdicts == ["stored"]
    raw = json.dumps(second).encode()
    reply = await post.request("POST", "/robot/v1/events", [raw[:10], raw[10:50], raw[50:]])
    assert reply.verdicts == ["stored"]
    assert stored(streams) == [first, second]


async def test_hello_and_events_of_the_session_before_may_come_in_one_request(post, streams):
    old = post.message("robot.state", STATE)
    hello = {"type": "hello", "v": 1, "robot": "RB-001"}
    reply = await post.post(hello, old)
    assert reply.verdicts == ["welcome", "stored"]
    assert stored(streams) == [old]
    link = Callers.here()._callers["RB-001"].link
    assert old["session"] in link.sessions, "it waits to hear how far that session is applied"
    assert old["session"] != link.session


BAD = [
    ("message", "rubbish"),
    ("robot", {"robot": "RB-002"}),
    ("robot", {"robot": "RB-002", "data": {"mode": "asleep"}}),
    ("session", {"session": 99}),
    ("session", {"session": 0}),
    ("v", {"v": 2}),
    ("seq", {"seq": "one"}),
    ("message", {"data": {"mode": "x" * protocol.MAX_BYTES}}),
    ("session", {"type": "robot.heartbeat", "channel": "lossy", "session": 99, "data": {}}),
    ("msg_id", {"type": "ack", "msg_id": str(uuid.uuid4())}),
]


@pytest.mark.parametrize(("field", "wrong"), BAD)
async def test_a_bad_event_gets_a_verdict_that_names_the_field_and_costs_nothing_else(post, streams, field, wrong):
    before, after = (post.message("robot.state", STATE) for _ in range(2))
    bad = wrong if isinstance(wrong, str) else post.message("robot.state", STATE, seq=1) | wrong
    reply = await post.post(before, bad, after)
    assert (reply.status, reply.verdicts) == (200, ["stored", "invalid", "stored"])
    assert reply.body["verdicts"][1]["field"] == field
    assert reply.body["verdicts"][1]["reason"]
    assert Links._here.counts[f"bad {field}"] == 1
    assert stored(streams) == [before, after]
    assert stored(streams, "RB-002") == []


async def test_a_message_with_a_good_envelope_is_kept_so_that_its_number_is_passed(post, streams):
    bad = post.message("robot.state", {"mode": "asleep"})
    reply = await post.post(bad)
    assert reply.body["verdicts"] == [
        {
            "type": "ack", "msg_id": bad["msg_id"], "verdict": "invalid", "field": "data.mode",
            "reason": "Invalid enum value 'asleep': it is one of idle, running, charging, paused, fault, manual",
        }
    ]  # fmt: skip
    assert stored(streams) == [bad]


async def test_before_hello_nothing_is_taken_and_the_answer_says_so(token, streams):
    robot = Post(token)
    reply = await robot.post(robot.message("robot.state", STATE, session=1))
    assert (reply.status, reply.body["title"], reply.verdicts) == (409, "Say hello", ["retry"])
    assert (await robot.poll(session=1)).status == 409
    assert stored(streams) == []


async def test_telemetry_becomes_the_snapshot_and_a_heartbeat_tells_what_is_applied(post, ask, soon):
    await ask(lambda: Watermark.objects.create(robot_id="RB-001", session=1, applied_seq=1))
    async with asyncio.timeout(5):
        while not Callers._here._callers["RB-001"].link.applied:
            await asyncio.sleep(0)
        pose, beat = post.message("robot.telemetry", POSE), post.message("robot.heartbeat", {"battery": 70})
        reply = await post.post(pose, beat)
        assert reply.verdicts == ["seen"] * 2
        assert reply.body["verdicts"][1]["applied"] == {"1": 1}
        live, found = Links._here.live, None
        while found is None or found.battery != 70:
            found = (await snapshots.read(live, ["RB-001"])).get("RB-001")
    assert found.x == 1.0


async def test_what_is_lossy_belongs_to_the_newest_session(post):
    await post.hello()
    reply = await post.post(post.message("robot.telemetry", POSE, session=1, seq=5))
    assert reply.body["verdicts"][0]["field"] == "session"
