"""Robots over HTTP: verdicts per event in order, limits that name what is wrong, commands by long poll."""

import asyncio
import gzip
import json
import uuid

import pytest
import redis
from django.db import OperationalError
from django.test import Client

from fleet.models import Command, Hold
from fleet.robots import credentials, stopping
from telemetry import protocol, snapshots, stream
from telemetry.gateways import limits, link, links, vitals
from telemetry.gateways.http import bodies, callers, requests
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.intake import Intake, Unavailable
from telemetry.gateways.links import Links
from telemetry.gateways.rows import send_back
from telemetry.models import Link, Watermark
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.telemetry.post import Post
from tests.telemetry.wire import Wire

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}
POSE = {"x": 1.0, "y": 2.0, "theta": 0.0}


@pytest.fixture(autouse=True)
async def streams(settings):
    """Empty streams, nothing known of any robot, and nothing left behind."""
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live, redis.Redis.from_url(settings.REDIS_URL) as durable:
        live.flushdb()
        durable.flushdb()
        yield durable
        await Callers.leave()
        assert Links._here is None


@pytest.fixture
async def ask():
    rows = OneConnection("test")
    yield rows.ask
    rows.close()


@pytest.fixture
def token(robot):
    return credentials.issue_credential("RB-001", by=SYSTEM)


@pytest.fixture
def other_token(other_robot):
    return credentials.issue_credential("RB-002", by=SYSTEM)


@pytest.fixture
async def post(token):
    robot = Post(token)
    await robot.hello()
    return robot


@pytest.fixture
def soon(monkeypatch):
    """The database is looked at often."""
    monkeypatch.setattr(links, "LOOK_S", 0.03)


def stored(durable, robot="RB-001"):
    entries = durable.xrange(stream.key(stream.partition_of(robot)))
    return [json.loads(fields[b"raw"]) for _, fields in entries if fields[b"robot"] == robot.encode()]


# --- who gets in


async def test_hello_opens_a_session_and_tells_what_is_applied(token, ask):
    robot = Post(token)
    welcome = await robot.hello()
    assert (welcome["type"], welcome["session"], welcome["applied"], welcome["heartbeat_s"]) == ("welcome", 1, {}, 3)
    await ask(lambda: Watermark.objects.create(robot_id="RB-001", session=1, applied_seq=12))
    welcome = await robot.hello()
    assert (welcome["session"], welcome["applied"]) == (2, {"1": 12})
    assert await ask(lambda: Link.objects.get().gateway) == "http"


@pytest.mark.parametrize("path", ["events", "commands", "commands/ack"])
@pytest.mark.parametrize("wrong", [None, "drover_wrong", "drover_\n<b>"])
async def test_without_a_valid_token_nothing_is_answered(robot, wrong, path):
    method = "GET" if path == "commands" else "POST"
    reply = await Post(wrong).request(method, f"/robot/v1/{path}", b"{}")
    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["title"] == "Not authorised"


@pytest.mark.parametrize("path", requests.ROUTES)
async def test_a_persons_session_opens_nothing_here(robot, admin_person, path, ask, settings):
    def sign_in():
        browser = Client()
        browser.force_login(admin_person)
        return browser.cookies[settings.SESSION_COOKIE_NAME].value

    cookie = f"{settings.SESSION_COOKIE_NAME}={await ask(sign_in)}"
    [method] = requests.ROUTES[path]
    assert (await Post(None).request(method, path, b"{}", cookie=cookie)).status == 401


async def test_a_token_that_is_revoked_ends_within_a_second_also_a_poll_under_way(post, token, ask, soon):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    number = await ask(lambda: credentials.credential_of_token(token).number)
    await ask(lambda: credentials.revoke_credential("RB-001", number, by=SYSTEM))
    async with asyncio.timeout(5):
        assert (await poll).status == 401
    assert (await post.post(post.message("robot.state", STATE))).status == 401


async def test_a_token_of_a_robot_without_a_link_is_looked_up_anew_after_a_while(post, token, ask):
    Callers._here._callers.clear()
    number = await ask(lambda: credentials.credential_of_token(token).number)
    await ask(lambda: credentials.revoke_credential("RB-001", number, by=SYSTEM))
    now = Links._here.clock() + callers.AUTH_S
    Links._here.clock = lambda: now
    assert (await post.post(post.message("robot.state", STATE))).status == 401


async def test_without_the_database_known_robots_go_on_and_others_are_asked_to_wait(
    post, other_token, streams, monkeypatch
):
    def broken(*_):
        raise OperationalError("gone")

    monkeypatch.setattr(callers, "holder_of", broken)
    monkeypatch.setattr(callers, "standing_of", broken)
    monkeypatch.setattr(callers, "open_session", broken)
    now = Links._here.clock() + callers.AUTH_S
    Links._here.clock = lambda: now
    assert (await post.post(post.message("robot.state", STATE))).verdicts == ["stored"]
    reply = await Post(other_token, "RB-002").post({"type": "hello", "v": 1, "robot": "RB-002"})
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
    reply = await post.post({"type": "hello", "v": 1, "robot": "RB-001"})
    assert (reply.status, reply.verdicts) == (503, ["retry"])


# --- events


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


# --- go back n, and the stores that are away


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


# --- requests that are wrong as a whole


@pytest.mark.parametrize(
    ("status", "field", "body", "headers"),
    [
        (400, "body", b"{", {}),
        (400, "body", b"[1, 2", {}),
        (400, "body", b"", {}),
        (400, "body", b'{"a": "\xff"}', {}),
        (413, "body", b"[" + b"{}," * 500 + b"{}]", {}),
        (413, None, b"", {"content_length": str(bodies.MAX_BODY + 1)}),
        (413, None, b"", {"content_length": "9" * 5000}),
        (400, "Content-Length", b"", {"content_length": "-1"}),
        (413, None, [b" " * bodies.MAX_BODY, b" "], {}),
        (415, "Content-Type", b"{}", {"content_type": "text/html"}),
        (415, "Content-Type", b"{}", {"content_type": ""}),
        (415, "Content-Encoding", b"{}", {"content_encoding": "br"}),
        (400, "Content-Encoding", b"{}", {"content_encoding": "gzip"}),
        (400, "Content-Encoding", gzip.compress(b"[]", mtime=0)[:-9], {"content_encoding": "gzip"}),
        (413, None, gzip.compress(b" " * (bodies.MAX_BODY + 1)), {"content_encoding": "gzip"}),
    ],
)
async def test_a_wrong_request_is_refused_with_a_problem_that_names_what_is_wrong(
    post, streams, status, field, body, headers
):
    reply = await post.request("POST", "/robot/v1/events", body, **headers)
    assert (reply.status, reply.body["status"], reply.body.get("field")) == (status, status, field)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body["detail"]
    assert stored(streams) == []
    assert Callers._here.flight.bytes == 0


async def test_a_deeply_nested_body_is_refused(post):
    assert (await post.post("[" * 200_000)).body["field"] == "body"
    assert (await post.post("[" + "[" * 60_000 + "]" * 60_000 + "]")).status in (200, 400)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "events", 405),
        ("PUT", "events", 405),
        ("POST", "commands", 405),
        ("GET", "commands/ack", 405),
        ("GET", "", 404),
        ("GET", "ws", 404),
        ("POST", "events/", 404),
    ],
)
async def test_other_methods_and_addresses(post, method, path, status):
    reply = await post.request(method, f"/robot/v1/{path}")
    assert reply.status == status
    assert ("allow" in reply.headers) == (status == 405)


@pytest.mark.parametrize("query", ["wait=-1", "wait=25.1", "wait=nan", "wait=soon", "session=x", "session=-1"])
async def test_a_poll_with_a_wrong_parameter_names_it(post, query):
    reply = await post.request("GET", "/robot/v1/commands", query=query)
    assert (reply.status, reply.body["field"]) == (400, query.split("=")[0])


@pytest.mark.parametrize("body", ["[]", "{}", '{"msg_ids": ["x"]}', '{"msg_id": "x"}', "{"])
async def test_a_wrong_acknowledgement_names_what_is_wrong(post, body):
    reply = await post.request("POST", "/robot/v1/commands/ack", body.encode())
    assert reply.status == 400
    assert reply.body["field"] in ("msg_ids", "body")


async def test_a_body_that_does_not_come_is_not_waited_for(post, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    reply = await post.request("POST", "/robot/v1/events", [], content_length="100")
    assert reply.status == 408
    assert Callers._here.flight.bytes == 0


async def test_a_robot_that_hangs_up_in_the_middle_of_its_body_gets_no_answer(post):
    gone = asyncio.Event()
    gone.set()
    assert (await post.request("POST", "/robot/v1/events", [], gone=gone)).status == 0


async def test_there_is_room_for_so_many_bytes_at_a_time(post, monkeypatch):
    monkeypatch.setattr(bodies, "IN_FLIGHT", bodies.LEAST + 100)
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    reply = await post.post(post.message("robot.state", STATE))
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert (await post.post(post.message("robot.state", STATE))).verdicts == ["stored"]


async def test_a_robot_cannot_forge_a_line_of_the_log(post, caplog):
    caplog.set_level("INFO")
    await post.post(post.message("robot.state", {"mode": "x\nERROR forged"}))
    [line] = [r.getMessage() for r in caplog.records if "bad message from RB-001" in r.getMessage()]
    assert "forged" in line
    assert "\n" not in line


# --- commands


async def begun(post, robot="RB-001"):
    """Its poll waits, and the database has been asked."""
    async with asyncio.timeout(5):
        while not (
            (known := Callers._here._callers.get(robot))
            and known.link
            and known.link.poll
            and known.link.poll.asked
            and Links._here._hinted == set()
        ):
            await asyncio.sleep(0)


async def test_a_poll_tells_at_once_what_is_open_and_an_acknowledgement_reaches_the_worker(post, ask, streams):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
    assert await ask(lambda: Command.objects.get().sent_at) is None  # nobody can have heard of it
    reply = await post.poll()
    [stop] = reply.body["commands"]
    assert (stop["type"], stop["data"], reply.body["session"]) == ("robot.stop", {"why": "blocked aisle"}, 1)
    assert await ask(lambda: Command.objects.get().sent_at)
    assert (await post.ack(stop["msg_id"])).verdicts == ["stored"]
    [told] = stored(streams)
    assert (told["type"], told["data"]) == ("command.delivered", {"command": stop["msg_id"]})
    assert (await post.ack(stop["msg_id"])).verdicts == ["duplicate"]
    assert (await post.poll()).body["commands"] == []


async def test_an_acknowledgement_may_come_among_the_events_and_stays_before_them(post, ask, streams):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    [stop] = (await post.poll()).body["commands"]
    before, after = (post.message("robot.state", STATE) for _ in range(2))
    reply = await post.post(before, {"type": "ack", "msg_id": stop["msg_id"]}, after)
    assert reply.verdicts == ["stored"] * 3
    assert [m["type"] for m in stored(streams)] == ["robot.state", "command.delivered", "robot.state"]


async def test_a_command_that_another_process_has_handed_out_can_be_acknowledged_here_and_counts_once(
    post, ask, streams
):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    [stop] = (await post.poll()).body["commands"]
    Callers._here._callers["RB-001"].link.commands.clear()
    assert (await post.ack(stop["msg_id"], stop["msg_id"])).verdicts == ["stored", "duplicate"]
    assert len(stored(streams)) == 1


async def test_a_request_full_of_nonsense_asks_the_database_a_few_times_at_most(post, streams, monkeypatch):
    asked = []
    real = OneConnection.ask

    async def ask(self, question, *args):
        if question.__name__ != "look":
            asked.append(question.__name__)
        return await real(self, question, *args)

    monkeypatch.setattr(OneConnection, "ask", ask)
    acks = [{"type": "ack", "msg_id": str(uuid.uuid4())} for _ in range(100)]
    hellos = [{"type": "hello", "v": 1, "robot": "RB-001"} for _ in range(100)]
    future = [post.message("robot.state", STATE, session=99) for _ in range(100)]
    reply = await post.post(*acks, *future, *hellos)
    assert reply.verdicts == ["invalid"] * 200 + ["welcome"] + ["invalid"] * 99
    assert sorted(asked) == ["open_session", "sent_commands", "standing_of"]


async def test_a_command_of_another_robot_cannot_be_acknowledged(post, other_token, ask, streams):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    [stop] = (await post.poll()).body["commands"]
    other = Post(other_token, "RB-002")
    await other.hello()
    reply = await other.ack(stop["msg_id"], str(uuid.uuid4()))
    assert reply.verdicts == ["invalid", "invalid"]
    assert stored(streams) == []


async def test_a_command_comes_again_until_it_is_acknowledged_but_not_in_a_hot_loop(post, ask, monkeypatch, soon):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    now = 100.0
    Links._here.clock = lambda: now
    Callers._here._callers["RB-001"].link.clock = Links._here.clock
    assert len((await post.poll()).body["commands"]) == 1
    assert (await post.poll()).body["commands"] == []
    now += link.RETRY_S[0] * (1 + link.JITTER)
    assert len((await post.poll()).body["commands"]) == 1


async def test_a_waiting_poll_is_answered_as_soon_as_there_is_something(post, ask):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    assert not poll.done()
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    async with asyncio.timeout(5):
        assert [c["type"] for c in (await poll).body["commands"]] == ["robot.stop"]


async def test_without_the_live_redis_a_stop_is_there_within_the_second(robot, token, ask, settings):
    settings.LIVE_REDIS_URL = "redis://127.0.0.1:1/0"
    post = Post(token)
    await post.hello()
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    async with asyncio.timeout(links.LOOK_S + 1):
        assert [c["type"] for c in (await poll).body["commands"]] == ["robot.stop"]


async def test_a_poll_without_anything_to_say_ends_in_time(post, soon):
    reply = await post.poll(wait=0.1)
    assert (reply.status, reply.body) == (200, {"session": 1, "commands": [], "reason": "", "applied": {}})


async def test_the_newer_of_two_polls_answers_and_the_older_returns_at_once(post, ask):
    older = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    newer = asyncio.create_task(post.poll(wait=25))
    async with asyncio.timeout(5):
        reply = await older
        assert (reply.status, reply.body["commands"]) == (200, [])
        assert "newer poll" in reply.body["reason"]
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        assert len((await newer).body["commands"]) == 1


async def test_a_poll_whose_robot_has_hung_up_ends_and_what_it_did_not_hear_comes_again(post, ask):
    gone = asyncio.Event()
    poll = asyncio.create_task(post.poll(wait=25, gone=gone))
    await begun(post)
    gone.set()
    async with asyncio.timeout(5):
        assert (await poll).status == 0
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    assert await ask(lambda: Command.objects.get().sent_at) is None
    assert len((await post.poll()).body["commands"]) == 1


async def test_without_a_session_a_poll_is_of_the_newest(post, ask):
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    reply = await post.request("GET", "/robot/v1/commands", query="wait=0")
    assert len(reply.body["commands"]) == 1


# --- one link per robot


async def test_a_newer_hello_ends_the_poll_of_the_older_session(post, token):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    again = Post(token)
    assert (await again.hello())["session"] == 2
    async with asyncio.timeout(5):
        reply = await poll
    assert (reply.status, reply.body["title"]) == (409, "Replaced")
    assert (await post.poll()).status == 409
    assert (await again.poll()).status == 200


async def test_hello_over_http_closes_the_socket_and_hello_on_a_socket_ends_the_poll(token):
    async with Wire(token) as wire:
        await wire.hello()
        post = Post(token)
        assert (await post.hello())["session"] == 2
        assert await wire.closed() == protocol.REPLACED
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    async with Wire(token) as wire:
        assert (await wire.hello())["session"] == 3
        async with asyncio.timeout(5):
            assert (await poll).status == 409
        reply = await post.post(post.message("robot.state", STATE))
        assert (reply.status, reply.verdicts) == (409, ["retry"])
        await wire.say("robot.heartbeat", {"battery": 5})
        assert (await wire.hear())["verdict"] == "seen"  # and it is still there


async def test_a_session_that_another_process_opened_is_taken_up(post, ask, streams):
    """Hello went to another process: this one knows only the older session, and the database better."""
    from telemetry.gateways.rows import open_session

    await ask(open_session, "RB-001", "http")
    assert (await post.post(post.message("robot.state", STATE, session=2, seq=1))).verdicts == ["stored"]
    assert (await post.poll(session=2)).status == 200
    assert (await post.poll(session=1)).status == 409


async def test_a_robot_that_is_sent_back_is_told_to_say_hello(post, ask, soon):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    assert await ask(send_back, ["RB-001"]) == 1
    async with asyncio.timeout(5):
        reply = await poll
    assert (reply.status, reply.body["title"]) == (409, "Say hello")
    message = post.message("robot.state", STATE)
    assert (await post.post(message)).verdicts == ["retry"]
    await post.hello()
    assert (await post.post(message)).verdicts == ["stored"]


# --- presence, and what is forgotten


async def test_every_request_is_a_sign_of_life(post):
    async def seen_at():
        return await Links._here.live.zscore("seen", "RB-001")

    async with asyncio.timeout(5):
        while not (before := await seen_at()):
            pass
        for ask in (post.poll, lambda: post.ack(str(uuid.uuid4())), lambda: post.post("[1]")):
            later = Links._here.clock() + vitals.TOUCH_S
            Links._here.clock = lambda later=later: later
            await ask()
            while (now := await seen_at()) == before:
                pass
            before = now


async def test_robots_that_are_silent_are_forgotten_and_with_the_last_of_them_all_that_is_shared(post, monkeypatch):
    monkeypatch.setattr(callers, "REAP_S", 0)
    monkeypatch.setattr(callers, "KEEP_S", 0)
    Callers._here._reaper.cancel()
    here = Callers._here
    async with asyncio.timeout(5):
        await here._reap()
    assert Callers._here is None
    assert Links._here is None


async def test_what_waits_is_not_forgotten(post):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun(post)
    later = Links._here.clock() + callers.KEEP_S
    Links._here.clock = lambda: later
    Callers._here.forget()
    assert "RB-001" in Callers._here._callers
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    later += callers.KEEP_S
    Callers._here.forget()
    assert Callers._here._callers == {}
    assert Links._here.of("RB-001") is None
