"""The robots' WebSocket: who gets in, what is acknowledged, and that bad input costs nothing else."""

import asyncio
import uuid

import pytest
from django.db import OperationalError

from fleet.models import Event, Hold
from fleet.robots import actions, credentials, stopping
from telemetry import protocol, snapshots
from telemetry.gateways import limits, links, vitals, ws
from telemetry.gateways.intake import Intake, Unavailable
from telemetry.gateways.links import Links
from telemetry.models import Link, Watermark
from tests.actors import SYSTEM
from tests.eventually import eventually_async
from tests.telemetry.robots_talk import stored
from tests.telemetry.wire import Wire

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("streams")]
STATE = {"mode": "idle"}


# --- who gets in


async def test_hello_is_welcomed_with_a_new_session_each_time_and_what_is_applied(token, ask):
    async with Wire(token) as robot:
        welcome = await robot.hello()
        assert (welcome["session"], welcome["applied"], welcome["heartbeat_s"]) == (1, {}, 3)
    await ask(lambda: Watermark.objects.create(robot_id="RB-001", session=1, applied_seq=12))
    async with Wire(token) as robot:
        welcome = await robot.hello()
    assert (welcome["session"], welcome["applied"]) == (2, {"1": 12})
    assert await ask(lambda: Link.objects.get().session) == 2


def revoke(token):
    credentials.revoke_credential("RB-001", credentials.credential_of_token(token).number, by=SYSTEM)


UNDONE = {
    "none": lambda token: None,
    "unknown": lambda token: None,
    "revoked": revoke,
    "retired": lambda token: actions.retire_robot("RB-001", by=SYSTEM),
}


@pytest.mark.parametrize("how", UNDONE)
async def test_without_a_valid_token_the_link_is_accepted_and_closed_for_good(token, how, ask):
    await ask(UNDONE[how], token)
    async with Wire({"none": None, "unknown": "drover_x"}.get(how, token)) as robot:
        assert await robot.closed() == protocol.UNAUTHORISED
    assert not await ask(Link.objects.exists)


async def test_without_the_database_robots_are_asked_to_come_back(token, monkeypatch):
    def broken(*_):
        raise OperationalError("gone")

    monkeypatch.setattr(ws, "holder_of", broken)
    async with Wire(token) as robot:
        assert await robot.closed() == protocol.COME_BACK
    monkeypatch.undo()
    monkeypatch.setattr(ws, "open_session", broken)
    async with Wire(token) as robot:
        await robot.send({"type": "hello", "v": 1, "robot": "RB-001"})
        assert await robot.closed() == protocol.COME_BACK


async def test_hello_comes_first_and_once(token):
    async with Wire(token) as robot:
        early = await robot.say("robot.state", STATE, session=1)
        assert await robot.hear() == {
            "type": "ack", "msg_id": early["msg_id"], "verdict": "invalid", "field": "type",
            "reason": "hello comes first, and once",
        }  # fmt: skip
        await robot.hello()
        await robot.send({"type": "hello", "v": 1, "robot": "RB-001", "msg_id": early["msg_id"]})
        assert (await robot.hear())["field"] == "type"


async def test_who_never_says_hello_is_not_kept(token, monkeypatch):
    monkeypatch.setattr(ws, "HELLO_S", 0.05)
    async with Wire(token) as robot:
        assert await robot.closed() == protocol.NO_HELLO


async def test_when_the_server_stops_robots_are_asked_to_come_back(token):
    robot = Wire(token)
    async with robot:
        await robot.hello()
        robot.socket.future.cancel()
        assert await robot.closed() == protocol.COME_BACK
    assert Links._here is None


async def test_what_links_share_ends_with_the_last_of_them(token, other_token):
    async with Wire(token) as robot:
        await robot.hello()
        shared = Links._here
        async with Wire(other_token, "RB-002") as other:
            await other.hello()
            assert Links._here is shared
        assert Links._here is shared
    assert Links._here is None


# --- critical messages


async def test_a_critical_message_is_acknowledged_once_it_is_stored_as_it_came(token, streams):
    async with Wire(token) as robot:
        await robot.hello()
        message = await robot.say("robot.state", STATE)
        assert await robot.hear() == {"type": "ack", "msg_id": message["msg_id"], "verdict": "stored"}
        assert stored(streams) == [message]
        await robot.send(message)
        assert (await robot.hear())["verdict"] == "duplicate"
        assert stored(streams) == [message]


async def test_a_resend_keeps_its_old_session(token, streams):
    async with Wire(token) as robot:
        await robot.hello()
    async with Wire(token) as robot:
        await robot.hello()
        message = await robot.say("robot.state", STATE, session=1, seq=1)
        assert (await robot.hear())["verdict"] == "stored"
        assert stored(streams) == [message]


async def test_what_is_lossy_belongs_to_the_session_of_its_link(token):
    async with Wire(token) as robot:
        await robot.hello()
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say("robot.heartbeat", {"battery": 5}, session=1, seq=99)
        assert (await robot.hear())["field"] == "session"


async def test_a_heartbeats_answer_tells_of_the_sessions_that_this_link_has_used(token, ask):
    await ask(lambda: Watermark.objects.create(robot_id="RB-001", session=1, applied_seq=12))
    async with Wire(token) as robot:
        await robot.hello()
    async with Wire(token) as robot:
        assert (await robot.hello())["applied"] == {"1": 12}
        await robot.say("robot.heartbeat", {"battery": 5})
        assert (await robot.hear())["applied"] == {}
        await robot.say("robot.state", STATE, session=1, seq=12)
        assert (await robot.hear())["verdict"] == "stored"
        await robot.say("robot.heartbeat", {"battery": 5})
        assert (await robot.hear())["applied"] == {"1": 12}


async def test_many_are_under_way_at_once_and_stored_in_order(token, streams):
    async with Wire(token) as robot:
        await robot.hello()
        sent = [await robot.say("robot.state", STATE) for _ in range(200)]
        heard = [await robot.hear() for _ in sent]
    assert [h["msg_id"] for h in heard] == [m["msg_id"] for m in sent]
    assert [m["seq"] for m in stored(streams)] == list(range(1, 201))


BAD = [
    ("message", "{"),
    ("message", " " * (protocol.MAX_BYTES + 1)),
    ("message", "[" * 40_000),
    ("robot", {"robot": "RB-002"}),
    ("robot", {"robot": "no id"}),
    ("session", {"session": 0}),
    ("session", {"session": 99}),
    ("robot", {"robot": "RB-002", "data": {"mode": "asleep"}}),  # its envelope is good, but it is not this robot's
    ("session", {"session": 99, "data": {"mode": "asleep"}}),
    ("v", {"v": 2}),
    ("seq", {"seq": "one"}),
    ("type", {"type": ""}),
    ("session", {"type": "robot.heartbeat", "channel": "lossy", "session": 0, "data": {}}),
    ("session", {"type": "command.delivered", "session": 0, "data": {"command": str(uuid.uuid4())}}),
]


async def test_bad_input_gets_a_verdict_that_names_the_field_and_costs_nothing_else(token, other_token, streams):
    async with Wire(token) as robot, Wire(other_token, "RB-002") as other:
        await robot.hello()
        await other.hello()
        for number, (field, wrong) in enumerate(BAD, 1):
            frame = wrong if isinstance(wrong, str) else robot.message("robot.state", STATE, seq=number) | wrong
            counted = Links._here.counts[f"bad {field}"]
            await robot.send(frame)
            verdict = await robot.hear()
            assert (verdict["verdict"], verdict["field"]) == ("invalid", field), wrong
            assert verdict["reason"]
            assert verdict["msg_id"] == (None if isinstance(frame, str) else frame["msg_id"])
            assert Links._here.counts[f"bad {field}"] == counted + 1
            for wire in (robot, other):
                await wire.say("robot.state", STATE)
                assert (await wire.hear())["verdict"] == "stored"
        assert await other.silent()
    assert [len(stored(streams, r)) for r in ("RB-001", "RB-002")] == [len(BAD)] * 2


ODD = [
    ("type", {"type": "robot.danced"}),
    ("type", {"type": "command.delivered", "data": {"command": str(uuid.uuid4())}}),
    ("data.mode", {"data": {"mode": "asleep"}}),
    ("mission", {"type": "mission.accepted", "data": {}}),
    ("channel", {"type": "robot.heartbeat", "data": {}}),
]


async def test_a_message_with_a_good_envelope_is_kept_so_that_its_number_is_passed(token, streams):
    async with Wire(token) as robot:
        await robot.hello()
        sent = []
        for field, wrong in ODD:
            message = robot.message("robot.state", STATE) | wrong
            await robot.send(message)
            verdict = await robot.hear()
            assert (verdict["verdict"], verdict["field"], verdict["msg_id"]) == ("invalid", field, message["msg_id"])
            sent.append(message)
    assert stored(streams) == sent


async def test_markup_and_64_kb_of_text_pass_as_they_are(token, streams):
    text = "<img src=x onerror=alert(1)>\u202e🙂" + "x" * 60_000
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say("robot.fault", {"code": "E1", "text": text})
        assert (await robot.hear())["verdict"] == "stored"
    assert stored(streams)[0]["data"]["text"] == text


async def test_while_nothing_can_be_stored_nothing_is_acknowledged_and_nothing_overtakes(token, streams, monkeypatch):
    down = True
    store = Intake.store

    async def flaky(self, *args):
        if down:
            raise Unavailable("down")
        return await store(self, *args)

    monkeypatch.setattr(Intake, "store", flaky)
    async with Wire(token) as robot:
        await robot.hello()
        first = await robot.say("robot.state", STATE)
        assert await robot.silent()
        down = False
        second = await robot.say("robot.state", STATE)
        assert await robot.silent()
        for message in (first, second):
            await robot.send(message)
            assert (await robot.hear())["msg_id"] == message["msg_id"]
    assert stored(streams) == [first, second]


async def test_while_nothing_can_be_stored_a_confirmed_stop_is_committed_all_the_same_and_counts_once(
    token, streams, ask, monkeypatch
):
    async def refuse(self, *args):
        raise Unavailable("down")

    monkeypatch.setattr(Intake, "store", refuse)
    monkeypatch.setattr(links, "LOOK_S", 0.03)
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
        stop = await robot.hear()
        stopped = await robot.say("robot.stopped", {"reply_to": stop["msg_id"]})
        assert await robot.hear() == {"type": "ack", "msg_id": stopped["msg_id"], "verdict": "stored"}
        assert await ask(lambda: Hold.objects.get(robot="RB-001").confirmed_at)
        assert await ask(lambda: Watermark.objects.get().applied_seq) == 1
        await robot.send(stopped)
        assert (await robot.hear())["verdict"] == "stored"
        await robot.say("robot.stopped", {"reply_to": "no id"})
        assert await robot.silent()
        kinds = await ask(lambda: list(Event.objects.values_list("kind", flat=True)))
        assert kinds.count("robot.stop_confirmed") == 1
    assert stored(streams) == []


# --- lossy messages and signs of life


async def test_a_heartbeat_is_answered_with_what_is_applied(token, monkeypatch, ask):
    monkeypatch.setattr(links, "LOOK_S", 0.02)
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say("robot.state", STATE)
        await robot.hear()
        await ask(lambda: Watermark.objects.create(robot_id="RB-001", session=1, applied_seq=1))
        verdicts = set()

        async def told():
            beat = await robot.say("robot.heartbeat", {"battery": 71})
            answer = await robot.hear()
            verdicts.add((answer["verdict"], answer["msg_id"] == beat["msg_id"]))
            return answer["applied"]

        assert await eventually_async(told, what="the watermark is told") == {"1": 1}
        assert verdicts == {("seen", True)}


async def test_telemetry_becomes_the_snapshot_and_needs_no_acknowledgement(token):
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say(
            "robot.telemetry", {"x": 1.5, "y": 2, "theta": 0.1, "speed": 1, "battery": 71, "place": "Dock A"}
        )
        await robot.say("robot.heartbeat", {"battery": 70})
        assert (await robot.hear())["verdict"] == "seen"
        live = Links._here.live
        found = None
        async with asyncio.timeout(5):
            while found is None or found.battery != 70:
                found = (await snapshots.read(live, ["RB-001"])).get("RB-001")
        assert (found.x, found.battery, found.place) == (1.5, 70, "Dock A")


async def test_any_message_is_a_sign_of_life_even_a_bad_one(token):
    async with Wire(token) as robot:
        await robot.hello()
        live = Links._here.live
        async with asyncio.timeout(5):
            while not (hello_at := await live.zscore("seen", "RB-001")):
                pass
            later = Links._here.clock() + vitals.TOUCH_S
            Links._here.clock = lambda: later
            await robot.send("{")
            assert (await robot.hear())["verdict"] == "invalid"
            while await live.zscore("seen", "RB-001") == hello_at:
                pass


async def test_without_the_live_redis_critical_messages_go_on(token, settings, streams):
    settings.LIVE_REDIS_URL = "redis://127.0.0.1:1/0"
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say("robot.heartbeat", {"battery": 70})
        assert (await robot.hear())["verdict"] == "seen"
        await robot.say("robot.state", STATE)
        assert (await robot.hear())["verdict"] == "stored"
    assert len(stored(streams)) == 1


async def test_a_robot_that_sends_nothing_but_rubbish_does_not_bury_the_log(token, streams, caplog):
    caplog.set_level("INFO")
    async with Wire(token) as robot:
        await robot.hello()
        for _ in range(50):
            await robot.send("rubbish")
            assert (await robot.hear())["verdict"] == "invalid"
        assert Links._here.counts["bad message"] == 50
    assert len([r for r in caplog.records if "bad message from RB-001" in r.message]) == 1


# --- limits


async def test_a_flood_of_telemetry_is_dropped_counted_and_told_and_what_is_critical_goes_on(token, streams):
    pose = {"x": 1.0, "y": 2.0, "theta": 0.0}
    async with Wire(token) as robot:
        await robot.hello()
        Links._here.clock = lambda: 0.0
        for _ in range(int(limits.LOSSY_BURST) + 20):
            await robot.say("robot.telemetry", pose)
        told = await robot.hear()
        assert told["verdict"] == "dropped"
        assert "50 lossy messages a second" in told["reason"]
        assert await robot.silent()  # once is enough
        assert Links._here.counts["lossy dropped"] == 20
        message = await robot.say("robot.state", STATE)
        assert (await robot.hear())["verdict"] == "stored"
        Links._here.clock = lambda: 1.0
        await robot.say("robot.heartbeat", {"battery": 70})
        assert (await robot.hear())["verdict"] == "seen"
    assert stored(streams) == [message]


async def test_while_the_worker_is_far_behind_acknowledgements_are_delayed_and_nothing_is_lost(
    token, streams, monkeypatch
):
    async with Wire(token) as robot:
        await robot.hello()
        await Links._here.backlog.step()
        first = await robot.say("robot.state", STATE)
        assert (await robot.hear())["verdict"] == "stored"
        monkeypatch.setattr(limits, "BACKLOG", 0)
        await Links._here.backlog.step()
        second = await robot.say("robot.state", STATE)
        assert await robot.silent()
        streams.flushdb()
        await Links._here.backlog.step()
        await robot.send(second)
        assert (await robot.hear())["verdict"] == "stored"
    assert stored(streams) == [second]
    assert first != second


async def test_a_robot_cannot_forge_a_line_of_the_log(token, streams, caplog):
    caplog.set_level("INFO")
    async with Wire(token) as robot:
        await robot.hello()
        await robot.say("robot.state", {"mode": "x\nERROR forged"})
        assert (await robot.hear())["verdict"] == "invalid"
    [line] = [r.getMessage() for r in caplog.records if "bad message from RB-001" in r.getMessage()]
    assert "forged" in line
    assert "\n" not in line
