"""Robots over HTTP: who gets in, and what a token that is revoked ends."""

import asyncio

import pytest
from django.db import OperationalError
from django.test import Client

from fleet.robots import credentials
from telemetry.gateways.http import callers, requests
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.links import Links
from telemetry.models import Link, Watermark
from tests.actors import SYSTEM
from tests.telemetry.post import Post, begun

pytestmark = pytest.mark.django_db(transaction=True)
STATE = {"mode": "idle"}


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
    await begun()
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
