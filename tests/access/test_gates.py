"""Sockets and what stands beside Django: who gets in (I11), what they are shown, and what happens when access is taken away."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import Client
from psycopg.conninfo import make_conninfo

from fleet.asgi import application
from fleet.models import Membership
from fleet.people.actions import grant_access
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from telemetry import snapshots
from telemetry.gateways import knocks
from telemetry.gateways.http import requests
from telemetry.gateways.http.callers import Callers
from telemetry.live import hub, revocation
from tests.access import table
from tests.access.world import World
from tests.actors import SYSTEM

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def nothing_left_behind():
    """The thread that Channels uses for the database keeps a connection; the next test must not meet it."""
    yield
    await Callers.leave()
    await database_sync_to_async(connections.close_all)()


@pytest.fixture
def doors(world: World) -> dict[str, list[tuple[bytes, bytes]]]:
    """What each one sends along."""
    origin = [(b"origin", b"http://localhost"), (b"host", b"localhost")]
    found = {name: list(origin) for name in table.PEOPLE}
    for name, person in world.people.items():
        client = Client()
        client.force_login(person)
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        found[name].append((b"cookie", cookie.encode()))
    for name, token in {"robot": world.token, **world.programs}.items():
        found[name].append((b"authorization", f"Bearer {token}".encode()))
    return found


async def opens(address: str, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a socket is taken and stays."""
    page = WebsocketCommunicator(application, f"/{address}", headers=headers)
    try:
        taken, _ = await page.connect(timeout=5)
        if not taken:
            return False
        return (await page.receive_output(timeout=3))["type"] != "websocket.close"
    except TimeoutError:
        return True  # a robot is waited for
    finally:
        with suppress(asyncio.CancelledError):  # it was waited for too long already
            await page.disconnect(timeout=5)


async def test_everybody_meets_the_sockets_of_the_table(doors, monkeypatch):
    monkeypatch.setattr(knocks, "WHO_S", 0.1)  # a stranger who says nothing is waited for so long
    wrong = []
    for address, allowed in table.SOCKETS.items():
        for name, headers in doors.items():
            found = await opens(address or "nowhere/ws", headers)
            if found is not (name in allowed):
                wrong.append(f"{name} at {address or 'another address'}: {'open' if found else 'refused'}")
    assert not wrong, "SOCKETS of tests/access/table.py: " + "; ".join(wrong)


async def test_everybody_meets_the_robots_addresses_of_the_table(doors):
    assert {path: next(iter(methods)) for path, methods in requests.ROUTES.items()} == table.ROBOT_HTTP
    wrong = []
    for path, method in table.ROBOT_HTTP.items():
        for name, headers in doors.items():
            for asked in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                status = await status_of(asked, path, headers)
                expected = {405} if asked != method else {401} if name != "robot" else {200, 400, 409, 422}
                if status not in expected:
                    wrong.append(f"{asked} {path} as {name}: {status}, not {expected}")
    assert not wrong, "ROBOT_HTTP of tests/access/table.py:\n" + "\n".join(wrong)


async def status_of(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> int:
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "scheme": "http", "http_version": "1.1",
        "headers": [*headers, (b"content-type", b"application/json"), (b"content-length", b"2")],
    }  # fmt: skip
    call = ApplicationCommunicator(application, scope)
    await call.send_input({"type": "http.request", "body": b"{}", "more_body": False})
    status = (await call.receive_output(timeout=5))["status"]
    await call.receive_output(timeout=5)
    await call.wait(timeout=5)
    return int(status)


# --- what the live page shows


async def frames(page: WebsocketCommunicator, until_whole: bool = True) -> list[str]:
    """Everything that comes, up to a whole frame, as raw text; each is confirmed."""
    found: list[str] = []
    async with asyncio.timeout(25):
        while True:
            message = await page.receive_output(timeout=25)
            assert message["type"] == "websocket.send", message
            found.append(message["text"])
            frame = msgspec.json.decode(message["text"])
            if "n" in frame:
                await page.send_to(msgspec.json.encode({"ack": frame["n"]}).decode())
            if frame.get("whole") or not until_whole:
                return found


@pytest.mark.parametrize("query", ["", "?site={0}", "?site=0", "?site=x"])
async def test_a_socket_carries_the_own_sites_only(world, doors, query, monkeypatch):
    monkeypatch.setattr(hub, "CHECK_S", 0.2)
    monkeypatch.setattr(hub, "BEAT_S", 0.3)
    address = "/live/ws" + query.format(world.site.pk)
    page = WebsocketCommunicator(application, address, headers=doors["other_supervisor"])
    await page.connect()
    raw = "".join(await frames(page))
    assert not any(mark in raw for mark in world.marks)
    assert ("RB-OWN" in raw) is (query in ("", "?site=x"))  # a site that is not theirs is as one that is not there
    await asyncio.to_thread(something_happens, world)
    for _ in range(3):  # what changes at Hall 1 is no news here; the hub looks once between two beats
        raw = "".join(await frames(page, until_whole=False))
        assert not any(mark in raw for mark in world.marks)
    await page.disconnect()


def something_happens(world: World) -> None:
    stopping.stop_robot("RB-ZEBRA", by=SYSTEM, why="Zebra-again")
    fleet_actions.enrol_robot(id="RB-ZEBRA-9", name="Zebra", site=world.site, brand=world.brand, by=SYSTEM)
    connections.close_all()


async def test_the_counters_are_those_of_the_own_sites(world, doors):
    counted = {}
    for name in ("supervisor", "other_supervisor", "admin"):
        page = WebsocketCommunicator(application, "/live/ws", headers=doors[name])
        await page.connect()
        counted[name] = "".join(await frames(page)).count("<article")
        await page.disconnect()
    assert counted == {"supervisor": 1, "other_supervisor": 1, "admin": 2}


# --- access taken away by another process

GRANT = """
from django.contrib.auth.models import User
from fleet.history import Origin
from fleet.people.actions import grant_access
grant_access(User.objects.get(username="Ana"), role="supervisor", sites={sites}, by=Origin("system"))
"""
BY_ORM = """
from fleet.models import Membership
Membership.objects.filter(person__user__username="Ana", site={gone}).delete()
"""
BY_SQL = """
from django.db import connection
connection.cursor().execute(
    "DELETE FROM fleet_membership m USING auth_user u WHERE u.id = m.person_id AND u.username = 'Ana' AND site_id = {gone}"
)
"""


def elsewhere(code: str) -> None:
    """Run it in a process of its own, against the database of this test."""
    start = "import django; django.setup()\n"
    known = connection.settings_dict
    url = make_conninfo(
        dbname=known["NAME"],
        user=known["USER"],
        host=known["HOST"],
        port=known["PORT"] or None,
        password=known["PASSWORD"] or None,
    )
    env = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "fleet.settings", "DEBUG": "1"}
    subprocess.run([sys.executable, "-c", start + code], check=True, env=env, timeout=60)


@pytest.mark.tampers
@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "at_once"), [(GRANT, True), (BY_ORM, True), (BY_SQL, False)], ids=["grant", "orm", "sql"]
)
async def test_a_site_that_another_process_takes_away_leaves_the_page(
    world, doors, other_site, monkeypatch, code, at_once
):
    ana = world.people["supervisor"]
    await asyncio.to_thread(widened, ana, [world.site.pk, other_site.pk])
    # what is told over the channel layer comes at once; what nobody tells is found by the look every 15 s
    monkeypatch.setattr(hub, "ACCESS_S", 20.0 if at_once else 0.5)
    snapshots.client().delete(f"asgi:group:{revocation.GROUP}")
    pages = {}
    for query in ("", f"?site={world.site.pk}"):
        pages[query] = WebsocketCommunicator(application, f"/live/ws{query}", headers=doors["supervisor"])
        await pages[query].connect()
        assert "RB-ZEBRA" in "".join(await frames(pages[query]))
    async with asyncio.timeout(5):
        while at_once and not snapshots.client().exists(f"asgi:group:{revocation.GROUP}"):
            await asyncio.sleep(0)  # the hub joins the group that is told
    await asyncio.to_thread(elsewhere, code.format(sites=[other_site.pk], gone=world.site.pk))
    last = (await frames(pages[""]))[-1]
    assert "RB-ZEBRA" not in last and "RB-OWN" in last
    assert "<article" not in (await frames(pages[f"?site={world.site.pk}"]))[-1]
    for page in pages.values():
        await page.disconnect()


def widened(person: User, sites: list[int]) -> None:
    grant_access(person, role="supervisor", sites=sites, by=SYSTEM)
    connections.close_all()


@pytest.mark.tampers
async def test_who_has_no_site_left_is_shown_out(world, doors, monkeypatch):
    monkeypatch.setattr(hub, "ACCESS_S", 0.05)
    page = WebsocketCommunicator(application, "/live/ws", headers=doors["supervisor"])
    await page.connect()
    await frames(page)

    def take_away() -> None:
        Membership.objects.filter(person=world.people["supervisor"].pk)._raw_delete("default")
        connections.close_all()

    await asyncio.to_thread(take_away)
    async with asyncio.timeout(10):
        while (message := await page.receive_output(timeout=10))["type"] != "websocket.close":
            pass
    assert message["code"] == 4403
    await page.disconnect()


def test_the_promise_is_kept_when_nothing_is_told():
    assert hub.ACCESS_S + hub.CHECK_S < 30
