"""Robots over HTTP: commands by long poll, again until they are acknowledged."""

import asyncio
import uuid

import pytest

from fleet.models import Command
from fleet.robots import stopping
from telemetry.gateways import link, links
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.links import Links
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.telemetry.post import Post, begun
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}


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
    await begun()
    assert not poll.done()
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    async with asyncio.timeout(5):
        assert [c["type"] for c in (await poll).body["commands"]] == ["robot.stop"]


async def test_without_the_live_redis_a_stop_is_there_within_the_second(robot, token, ask, settings):
    settings.LIVE_REDIS_URL = "redis://127.0.0.1:1/0"
    post = Post(token)
    await post.hello()
    poll = asyncio.create_task(post.poll(wait=25))
    await begun()
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
    async with asyncio.timeout(links.LOOK_S + 1):
        assert [c["type"] for c in (await poll).body["commands"]] == ["robot.stop"]


async def test_a_poll_without_anything_to_say_ends_in_time(post, soon):
    reply = await post.poll(wait=0.1)
    assert (reply.status, reply.body) == (200, {"session": 1, "commands": [], "reason": "", "applied": {}})


async def test_the_newer_of_two_polls_answers_and_the_older_returns_at_once(post, ask):
    older = asyncio.create_task(post.poll(wait=25))
    await begun()
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
    await begun()
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
