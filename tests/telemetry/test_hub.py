"""The hub between a real Valkey, a real PostgreSQL and sockets that a test reads; whatever fails, it comes right (I7)."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
import redis
import redis.asyncio
from django.conf import settings
from django.db import OperationalError, connections

from fleet.models import Robot
from fleet.robots import actions
from telemetry import snapshots
from telemetry.live import dirty, hub, loading
from telemetry.live.board import Dirty

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db(transaction=True)


class Browser(hub.Socket):
    """What a browser would see: frames, acknowledged as they are read, and beats."""

    def __init__(self, view: int | None = None) -> None:
        self.frames: asyncio.Queue[dict] = asyncio.Queue()
        self.beats: asyncio.Queue[dict] = asyncio.Queue()
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        super().__init__(self._receive, self._closed, "session", view)

    async def _receive(self, text: str) -> None:
        message = msgspec.json.decode(text)
        (self.beats if "beat" in message else self.frames).put_nowait(message)

    async def _closed(self, code: int) -> None:
        self.closed.set_result(code)

    async def until(self, text: str, home: hub.Hub, timeout_s: float = 60.0) -> dict:
        """The first frame that holds the text."""
        async with asyncio.timeout(timeout_s):
            while True:
                frame = await self.frames.get()
                home.acked(self, frame["n"])
                if text in frame["content"]:
                    return frame

    async def beat(self, timeout_s: float = 60.0, **wanted: object) -> dict:
        async with asyncio.timeout(timeout_s):
            while True:
                beat = await self.beats.get()
                if wanted.items() <= beat.items():
                    return beat


async def linked(home: hub.Hub) -> None:
    """The hub listens to the live Redis."""
    async with asyncio.timeout(60):
        while not home.linked:
            await asyncio.sleep(0)


async def elsewhere(work) -> None:
    """Another process's work: its own connection, closed afterwards."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    await asyncio.to_thread(run)


def rename(robot: Robot, name: str):
    from tests.actors import SYSTEM

    return elsewhere(
        lambda: actions.edit_robot(robot.pk, name=name, site=robot.site_id, brand=robot.brand_id, by=SYSTEM)
    )


@pytest.fixture
async def home():
    home = hub.Hub()
    yield home
    await home.stop()


@pytest.fixture
def deaf(monkeypatch):
    """Announcements go nowhere."""
    monkeypatch.setattr(dirty.announcer, "rests_until", float("inf"))


async def test_a_commit_elsewhere_reaches_the_browser(robot, home):
    browser = Browser()
    home.join(browser)
    first = await browser.until("Ella", home)
    assert first["whole"] and "robot-RB-001" in first["put"]
    await rename(robot, "Renamed")
    assert not (await browser.until("Renamed", home))["whole"]


async def test_live_facts_reach_the_browser(robot, home):
    browser = Browser()
    home.join(browser)
    await linked(home)
    await browser.until("Ella", home)
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as client:
        await client.delete("last:RB-001")
        await snapshots.put(client, "RB-001", 1, 1, NOW, {"x": 1.0, "y": 2.5, "battery": 77})
    assert "1.0, 2.5 m" in (await browser.until("77 %", home))["content"]


async def test_live_facts_need_no_sql(robot, home, monkeypatch):
    def no_sql(*_):
        raise AssertionError("SQL for live facts")

    browser = Browser()
    home.join(browser)
    await browser.until("Ella", home)
    with monkeypatch.context() as context:
        context.setattr(loading, "load", no_sql)
        await home._load(Dirty(False, set(), set(), {"RB-001"}))


async def test_lost_signals_are_found_by_the_check(robot, home, deaf, monkeypatch):
    monkeypatch.setattr(hub, "CHECK_S", 0.05)
    browser = Browser()
    home.join(browser)
    await linked(home)
    await browser.until("Ella", home)
    await rename(robot, "Found anyway")
    await browser.until("Found anyway", home)


async def test_without_the_live_redis_it_goes_on_slowly_and_says_so(robot, deaf, monkeypatch, unused_tcp_port):
    monkeypatch.setattr(hub, "CHECK_S", 0.05)
    home, browser = hub.Hub(f"redis://127.0.0.1:{unused_tcp_port}/0"), Browser()
    try:
        home.join(browser)
        await browser.until("Ella", home)
        await browser.beat(slow=True)
        await rename(robot, "From the database")
        await browser.until("From the database", home)
    finally:
        await home.stop()


async def test_a_link_that_was_re_made_makes_everything_dirty(robot, home, deaf, monkeypatch):
    monkeypatch.setattr(hub, "CHECK_S", 3600)  # it is the link that tells, not the check
    monkeypatch.setattr(hub, "RETRY_S", 0.05)
    browser = Browser()
    home.join(browser)
    await linked(home)
    await browser.until("Ella", home)
    await rename(robot, "Changed in the gap")
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as client:
        mine = str(client.connection_pool.connection_kwargs["db"])
        for link in await client.client_list(_type="pubsub"):
            if link["db"] == mine:  # others' tests share the server
                await client.client_kill_filter(_id=link["id"])
    await browser.until("Changed in the gap", home)
    await browser.beat(slow=False)


async def test_a_database_that_does_not_answer_is_said_and_got_over(robot, home, monkeypatch):
    monkeypatch.setattr(hub, "CHECK_S", 0.05)
    monkeypatch.setattr(hub, "RETRY_S", 0.05)
    browser = Browser()
    home.join(browser)
    await browser.until("Ella", home)

    def down(*_):
        raise OperationalError("down")

    with monkeypatch.context() as broken:
        broken.setattr(loading, "versions", down)
        broken.setattr(loading, "load", down)
        await rename(robot, "Not lost")
        assert (
            "does not answer"
            in (await browser.beat(trouble="The database does not answer (OperationalError)"))["trouble"]
        )
    await browser.until("Not lost", home)
    await browser.beat(trouble="")


async def test_a_burst_of_signals_costs_few_loads(robot, home, monkeypatch):
    browser, loads, load = Browser(), [], loading.load
    monkeypatch.setattr(loading, "load", lambda *ids: loads.append(ids) or load(*ids))
    home.join(browser)
    await linked(home)
    await browser.until("Ella", home)
    loads.clear()
    signals = snapshots.encode_signals([snapshots.signal("robot", "RB-001", "row", 1)])
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as client:
        for _ in range(300):
            await client.publish("dirty", signals)
    await rename(robot, "After the burst")
    await browser.until("After the burst", home)
    assert len(loads) < 30


async def test_a_reader_that_stopped_gets_two_frames_and_then_the_newest(robot, home):
    slow, other = Browser(), Browser()
    home.join(slow)
    home.join(other)
    await other.until("Ella", home)
    for name in ("One", "Two", "Three", "Four"):
        await rename(robot, name)
        await other.until(name, home)
    assert slow.frames.qsize() == 2
    last = [await slow.frames.get() for _ in range(2)][-1]
    home.acked(slow, last["n"])
    newest = await slow.until("Four", home)
    assert newest["n"] == 3 and "Three" not in newest["content"]


async def test_a_reader_that_stays_behind_is_asked_to_come_back(robot, home, monkeypatch):
    monkeypatch.setattr(hub, "CHECK_S", 0.05)
    monkeypatch.setattr(hub, "STUCK_S", 0.2)
    stuck, idle = Browser(), Browser()
    home.join(stuck)
    home.join(idle)
    for name in ("One", "Two", "Three"):
        await rename(robot, name)
        await idle.until(name, home)
    async with asyncio.timeout(60):
        assert await stuck.closed == 4012
    assert home.board.viewers == {idle} and not idle.closed.done()


async def test_nonsense_on_the_channel_is_skipped(robot, home, caplog):
    browser = Browser()
    home.join(browser)
    await linked(home)
    await browser.until("Ella", home)
    async with redis.asyncio.Redis.from_url(settings.LIVE_REDIS_URL) as client:
        for nonsense in (b"{", b"7", b"[[]]", b"[1]", b'[["robot",null,"row",1]]', b'[["robot","<b>","live",1]]'):
            await client.publish("dirty", nonsense)
    await rename(robot, "Still here")
    await browser.until("Still here", home)
    assert "not a dirty signal" in caplog.text


async def test_it_lives_from_the_first_socket_to_the_last(robot):
    one, two = Browser(), Browser()
    home = hub.join(one)
    assert hub.join(two) is home
    await one.until("Ella", home)
    await hub.leave(home, one)
    assert asyncio.get_running_loop() in hub._hubs
    await hub.leave(home, two)
    assert asyncio.get_running_loop() not in hub._hubs
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("live hub")]


async def test_a_cancel_at_the_worst_moment_ends_it(robot):
    home, browser = hub.Hub(), Browser()
    for _ in range(20):  # signals and the cancel in the same turn of the loop
        home.join(browser)
        await asyncio.sleep(0)
        tasks = list(home._tasks)
        home._beat_now.set()
        home._wake.set()
        await home.stop()
        assert all(task.done() for task in tasks)
        home = hub.Hub()


def test_the_check_agrees_with_the_load(robot, other_robot, mission):
    found, versions = loading.load(None), loading.versions()
    assert {k: r.version for k, r in found.robots.items()} == versions.robots
    assert {k: m.version for k, m in found.missions.items()} == versions.missions
    assert loading.load([robot.pk], []).missions.keys() == {str(mission.pk)}  # why it waits depends on its robot
    assert loading.load([other_robot.pk], []) == ({"RB-002": found.robots["RB-002"]}, {})
