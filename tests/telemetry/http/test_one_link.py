"""Robots over HTTP: one link per robot, whatever it goes over and whichever process it met."""

import asyncio

import pytest

from telemetry import protocol
from telemetry.gateways.rows import send_back
from tests.telemetry.post import Post, begun
from tests.telemetry.wire import Wire

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}


async def test_a_newer_hello_ends_the_poll_of_the_older_session(post, token):
    poll = asyncio.create_task(post.poll(wait=25))
    await begun()
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
    await begun()
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
    await begun()
    assert await ask(send_back, ["RB-001"]) == 1
    async with asyncio.timeout(5):
        reply = await poll
    assert (reply.status, reply.body["title"]) == (409, "Say hello")
    message = post.message("robot.state", STATE)
    assert (await post.post(message)).verdicts == ["retry"]
    await post.hello()
    assert (await post.post(message)).verdicts == ["stored"]
