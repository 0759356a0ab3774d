"""Back-pressure reaches robots before memory does: per robot, per process, and by the durable Redis's own fullness."""

import asyncio

import pytest
import redis

from telemetry import protocol
from telemetry.gateways import inbox, limits
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.intake import Intake
from telemetry.gateways.limits import Backlog, Bucket, Room, critical_bucket
from telemetry.gateways.links import Links
from tests.telemetry.post import Post
from tests.telemetry.wire import Wire

STATE = {"mode": "idle"}


def test_a_bucket_gives_all_or_none_and_fills_with_time():
    bucket = Bucket(per_s=10, burst=20, level=20)
    assert bucket.take(0.0, 15)
    assert not bucket.take(0.0, 6)
    assert bucket.take(0.0, 5)
    assert not bucket.take(0.0)
    assert bucket.take(0.1)
    assert not bucket.take(0.1)
    assert bucket.take(1000.0, 20)
    assert not bucket.take(1000.0)


def test_a_robot_that_comes_back_may_say_25_seconds_worth_at_once(settings):
    settings.ROBOT_EVENTS_PER_S = 200
    bucket = critical_bucket()
    assert bucket.take(0.0, 5000)
    assert not bucket.take(0.0)
    assert bucket.take(1.0, 200)


def test_room_is_taken_and_given_back_and_crowded_at_half():
    room = Room(limit=10_000)
    assert room.take(4000)
    assert not room.is_crowded
    assert room.take(1000)
    assert room.is_crowded
    assert not room.take(4000)
    room.give(4000)
    assert not room.is_crowded
    room.give(1000)
    assert room.used == 0


class Store:
    """An intake whose Redis is as full as it is told to be."""

    def __init__(self) -> None:
        self.full, self.limit, self.waiting = 0.0, 1_000_000, {0: 0}

    async def backlog(self):
        return self.waiting

    async def memory(self):
        if self.full is None:
            raise redis.ConnectionError
        return round(self.full * 1_000_000), self.limit


async def test_robots_wait_before_the_durable_redis_is_full_and_until_there_is_room_again(caplog):
    store = Store()
    backlog = Backlog(store)
    for full, held in ((0.89, False), (0.91, True), (0.87, True), (0.84, False), (0.87, False), (None, False)):
        store.full = full
        await backlog.step()
        assert backlog.too_long("RB-001") is held, full
    assert caplog.text.count("91 % full; robots are asked to wait") == 1


async def test_a_limit_that_is_taken_away_holds_nobody_back():
    store = Store()
    backlog = Backlog(store)
    store.full = 0.95
    await backlog.step()
    assert backlog.too_long("RB-001")
    store.limit = 0
    await backlog.step()
    assert not backlog.too_long("RB-001")


async def test_what_was_appended_since_the_last_measurement_counts():
    store = Store()
    backlog = Backlog(store)
    store.full = 0.8
    await backlog.step()
    for _ in range(9):
        backlog.appending(10_000)
        assert not backlog.too_long("RB-001")
    backlog.appending(10_000)
    assert backlog.too_long("RB-001")
    await backlog.step()  # it was less than feared: the worker has worked meanwhile
    assert not backlog.too_long("RB-001")


async def test_how_full_the_store_is(settings):
    intake = Intake(settings.REDIS_URL)
    with redis.from_url(settings.REDIS_URL) as client:
        used = client.info("memory")["used_memory"]
        assert (await intake.memory())[1] == 0  # no limit
        client.config_set("maxmemory", used * 2)
        try:
            measured, limit = await intake.memory()
            assert limit == used * 2
            assert 0.3 < measured / limit < 0.7
        finally:
            client.config_set("maxmemory", 0)
    await intake.aclose()


# --- at the gateways


@pytest.fixture
def tokens(streams, token, other_token, settings):
    settings.ROBOT_EVENTS_PER_S = 1
    return [token, other_token]


@pytest.mark.django_db(transaction=True)
async def test_over_http_a_flood_of_one_robot_is_told_to_slow_down_and_another_is_served(tokens):
    flood, other = Post(tokens[0]), Post(tokens[1], "RB-002")
    await flood.hello()
    await other.hello()
    Links._here.clock = lambda: 100.0
    said = [flood.message("robot.state", STATE) for _ in range(30)]
    assert (await flood.post(*said[:25])).verdicts == ["stored"] * 25
    reply = await flood.post(*said[25:], flood.message("robot.heartbeat", {}))
    assert (reply.status, reply.headers["retry-after"]) == (429, "5")
    assert reply.verdicts == ["retry"] * 5 + ["seen"]
    assert "more than 1 critical messages a second" in reply.body["detail"].lower()
    assert (await other.post(other.message("robot.state", STATE))).verdicts == ["stored"]
    Links._here.clock = lambda: 105.0
    assert (await flood.post(*said[25:])).verdicts == ["stored"] * 5
    await Callers.leave()


@pytest.mark.django_db(transaction=True)
async def test_who_says_hello_again_and_again_is_told_to_wait_and_another_is_served(tokens, monkeypatch):
    monkeypatch.setattr(limits, "HELLOS", 3.0)
    flood, other = Post(tokens[0]), Post(tokens[1], "RB-002")
    await flood.hello()
    Links._here.clock = lambda: 100.0
    await flood.hello()
    await flood.hello()
    last = flood.session
    hello = {"type": "hello", "v": 1, "robot": "RB-001"}
    reply = await flood.post(hello)
    assert (reply.status, reply.headers["retry-after"], reply.verdicts) == (429, "5", ["retry"])
    assert (await flood.post(flood.message("robot.state", STATE))).verdicts == ["stored"], "its session goes on"
    async with Wire(tokens[0]) as flood_again, Wire(tokens[1], "RB-002") as other_socket:
        await flood_again.send(hello)
        assert await flood_again.closed() == protocol.COME_BACK
        await other_socket.hello()
    await other.hello()
    Links._here.clock = lambda: 101.0
    assert (await flood.hello())["session"] == last + 1
    await Callers.leave()


@pytest.mark.django_db(transaction=True)
async def test_over_a_socket_a_flood_is_not_acknowledged_until_its_time_has_come(tokens, monkeypatch):
    monkeypatch.setattr(limits, "CRITICAL_BURST_S", 2.0)
    async with Wire(tokens[0]) as flood, Wire(tokens[1], "RB-002") as other:
        await flood.hello()
        await other.hello()
        bucket = Links._here.allowance("RB-001")
        bucket.take(float("1e12"))  # time stands still from here: nothing fills up
        bucket.level = 2.0
        said = [await flood.say("robot.state", STATE) for _ in range(4)]
        assert [(await flood.hear())["msg_id"] for _ in range(2)] == [m["msg_id"] for m in said[:2]]
        assert await flood.silent()
        await other.say("robot.state", STATE)
        assert (await other.hear())["verdict"] == "stored"
        bucket.level = 2.0
        await flood.send(said[3])  # not before the one that was lost
        assert await flood.silent()
        await flood.send(said[2])
        await flood.send(said[3])
        assert [(await flood.hear())["msg_id"] for _ in range(2)] == [m["msg_id"] for m in said[2:]]


@pytest.mark.django_db(transaction=True)
async def test_what_waits_in_a_process_is_bounded_in_bytes_and_telemetry_goes_first(tokens, monkeypatch):
    stuck = asyncio.Event()
    settled = Intake.store

    async def slow(self, *args):
        await stuck.wait()
        return await settled(self, *args)

    monkeypatch.setattr(Intake, "store", slow)
    monkeypatch.setattr(inbox, "LATE_S", 60.0)
    async with Wire(tokens[0]) as robot:
        await robot.hello()
        room = Links._here.room
        room.limit = 8000
        said = [await robot.say("robot.state", STATE) for _ in range(4)]
        assert await robot.silent()
        assert 4000 < room.used <= 8000
        assert Links._here.counts["not stored"] == 0
        await robot.say("robot.telemetry", {"x": 1.0, "y": 1.0, "theta": 0.0})
        told = await robot.hear()
        assert (told["verdict"], told["reason"]) == ("dropped", "the site has no room for telemetry now")
        said += [await robot.say("robot.state", STATE) for _ in range(4)]
        assert await robot.silent()
        assert Links._here.counts["not stored"] >= 1
        assert room.used <= 8000
        stuck.set()
        heard = [(await robot.hear())["msg_id"] for _ in range(4)]
        assert heard == [m["msg_id"] for m in said[:4]]
        room.limit = limits.ROOM
        for message in said[4:]:
            await robot.send(message)
            while (await robot.hear())["msg_id"] != message["msg_id"]:
                pass
    assert room.used == 0


@pytest.mark.django_db(transaction=True)
async def test_what_waited_for_a_robot_that_hangs_up_takes_no_room(tokens, monkeypatch):
    async def stuck(self, *args):
        await asyncio.Event().wait()

    monkeypatch.setattr(Intake, "store", stuck)
    async with Wire(tokens[0]) as robot:
        await robot.hello()
        room = Links._here.room
        for _ in range(4):  # the first is on its way, the others wait for it
            await robot.say("robot.state", STATE)
            assert await robot.silent()
        assert room.used > 4000
    assert room.used == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("why", ["no room", "an old number"])
async def test_a_robot_lives_whatever_becomes_of_its_telemetry(tokens, monkeypatch, why):
    """Else a site that has no room takes its robots for offline, and gives their missions up."""
    monkeypatch.setattr("telemetry.gateways.vitals.TOUCH_S", 0.0)
    async with Wire(tokens[0]) as robot:
        await robot.hello()
        touched: list[str] = []
        monkeypatch.setattr(Links._here.vitals, "touch", lambda robot_id, at: touched.append(robot_id))
        if why == "no room":
            Links._here.room.limit = -2
        await robot.say("robot.heartbeat", {"battery": 50.0}, seq=1)
        assert (await robot.hear())["verdict"] == ("dropped" if why == "no room" else "seen")
        assert touched == ["RB-001"]
