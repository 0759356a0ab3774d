"""The live page's socket: who gets in, how it ends, and what it takes from browsers."""

import asyncio

import msgspec
import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connections
from django.test import Client

from fleet.asgi import application
from telemetry import snapshots
from telemetry.live import hub, revocation

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def thread_of_channels(monkeypatch):
    """The thread that Channels uses for the database keeps a connection; the next test must not meet it."""
    monkeypatch.setattr(hub, "BEAT_S", 0.2)  # so that nobody waits for one
    yield
    await database_sync_to_async(connections.close_all)()


def signed_in(user) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def socket(key: str = "", origin: bytes | None = b"http://localhost") -> WebsocketCommunicator:
    headers = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode())] if key else []
    return WebsocketCommunicator(application, "/live/ws", headers=headers + ([(b"origin", origin)] if origin else []))


async def said(page: WebsocketCommunicator, part: str) -> dict:
    async with asyncio.timeout(60):
        while True:
            message = msgspec.json.decode(await page.receive_from(timeout=60))
            if part in message:
                return message


@pytest.fixture
def session_of(supervisor, auditor, outsider, admin_person):
    people = {"supervisor": supervisor, "auditor": auditor, "outsider": outsider, "admin": admin_person}
    return {name: signed_in(user) for name, user in people.items()} | {"nobody": "", "forged": "x" * 32}


@pytest.mark.parametrize("who", ["supervisor", "auditor", "admin"])
async def test_who_may_view_gets_the_board(robot, session_of, who):
    page = socket(session_of[who])
    assert (await page.connect())[0]
    frame = await said(page, "n")
    assert frame["whole"] and "Ella" in frame["content"]
    await page.disconnect()


@pytest.mark.parametrize(("who", "code"), [("nobody", 4401), ("forged", 4401), ("outsider", 4403)])
async def test_others_are_told_and_closed(robot, session_of, who, code):
    page = socket(session_of[who])
    assert (await page.connect())[0]  # a browser sees a close code only of an accepted socket
    assert await page.receive_output(timeout=60) == {"type": "websocket.close", "code": code}
    assert not hub._hubs


@pytest.mark.parametrize("origin", [b"http://evil.example", None])
async def test_other_origins_are_refused(session_of, origin):
    page = socket(session_of["supervisor"], origin)
    assert not (await page.connect())[0]
    await page.disconnect()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ack":"1"}', '{"n":1}', '{"ack":1,"x":"' + "y" * 300 + '"}'])
async def test_nonsense_closes_the_socket(robot, session_of, text):
    page = socket(session_of["supervisor"])
    await page.connect()
    await page.send_input({"type": "websocket.receive", "text": text})
    async with asyncio.timeout(60):
        while (message := await page.receive_output(timeout=60))["type"] != "websocket.close":
            pass
    assert message["code"] == 4400
    await page.wait()
    assert not hub._hubs


async def test_an_ack_lets_the_next_frame_come_and_again_asks_for_a_whole_one(robot, session_of):
    page = socket(session_of["supervisor"])
    await page.connect()
    first = await said(page, "n")
    await page.send_to(msgspec.json.encode({"ack": first["n"], "again": True}).decode())
    second = await said(page, "n")
    while not second["whole"]:
        second = await said(page, "n")
    assert second["n"] > first["n"]
    await page.disconnect()


async def test_a_server_that_goes_down_says_come_back(robot, session_of):
    page = socket(session_of["supervisor"])
    await page.connect()
    await said(page, "n")
    page.future.cancel()
    async with asyncio.timeout(60):
        while (message := await page.output_queue.get())["type"] != "websocket.close":
            pass
    assert message["code"] == 4012
    with pytest.raises(asyncio.CancelledError):
        await page.future


async def told_at_once() -> None:
    """The hub has joined the group that hears of access taken away."""
    async with asyncio.timeout(60):
        while not snapshots.client().exists(f"asgi:group:{revocation.GROUP}"):
            await asyncio.sleep(0)


@pytest.mark.tampers
@pytest.mark.parametrize("way", ["told over the channel layer", "found in the database"])
async def test_who_is_signed_out_or_loses_the_permission_is_shown_out(
    robot, session_of, supervisor, auditor, monkeypatch, way
):
    told = way.startswith("told")
    snapshots.client().delete(f"asgi:group:{revocation.GROUP}")
    monkeypatch.setattr(hub, "ACCESS_S", 3600 if told else 0.05)
    if not told:
        monkeypatch.setattr(revocation, "tell", lambda: None)
    pages = {name: socket(session_of[name]) for name in ("supervisor", "auditor", "admin")}
    for page in pages.values():
        await page.connect()
        await said(page, "n")
    if told:
        await told_at_once()

    def take_away() -> None:
        supervisor.set_password("another one, so every session ends")
        supervisor.save()
        auditor.groups.clear()
        connections.close_all()

    await asyncio.to_thread(take_away)
    for name, code in (("supervisor", 4401), ("auditor", 4403)):
        async with asyncio.timeout(60):
            while (message := await pages[name].receive_output(timeout=60))["type"] != "websocket.close":
                pass
        assert message["code"] == code
        await pages[name].disconnect()
    await said(pages["admin"], "beat")
    await pages["admin"].disconnect()


async def test_a_dead_live_redis_does_not_hold_up_a_sign_out(supervisor, unused_tcp_port, settings, caplog):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [f"redis://127.0.0.1:{unused_tcp_port}/0"]},
        }
    }

    def sign_out() -> None:
        client = Client()
        client.force_login(supervisor)
        client.logout()
        connections.close_all()

    async with asyncio.timeout(60):
        await asyncio.to_thread(sign_out)
        await asyncio.wrap_future(revocation.sender.submit(lambda: None))  # what was given before is done
    assert "the channel layer does not take a message" in caplog.text
