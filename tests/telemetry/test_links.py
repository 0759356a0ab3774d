"""The links that a process owns: one per robot, commands in order, access that ends."""

import asyncio
import json
import uuid

import msgspec
import pytest
import redis
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Command
from fleet.robots import actions, credentials, stopping
from fleet.robots.facts import StoodStill
from missions import actions as mission_actions
from missions.ledger import Ledger
from telemetry import protocol
from telemetry.gateways import link as one_link
from telemetry.gateways import links
from telemetry.gateways.intake import Intake, Unavailable
from telemetry.gateways.links import Links
from telemetry.gateways.rows import Asked, look, open_session, send_back
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import stored
from tests.telemetry.wire import Wire


@pytest.fixture
def token(transactional_db, streams, soon, robot):
    return credentials.issue_credential("RB-001", by=SYSTEM)


async def until(durable, count):
    async with asyncio.timeout(5):
        while len(found := stored(durable)) < count:
            await asyncio.sleep(0)
    return found


async def test_the_newer_link_wins_and_the_older_is_closed(token):
    async with Wire(token) as old:
        await old.hello()
        async with Wire(token) as new:
            assert (await new.hello())["session"] == 2
            assert await old.closed() == protocol.REPLACED
            await new.say("robot.state", {"mode": "idle"})
            assert (await new.hear())["verdict"] == "stored"


async def test_a_link_is_closed_when_another_process_has_the_newer_one(token, ask):
    def elsewhere():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE telemetry_link SET session = session + 1")

    async with Wire(token) as robot:
        await robot.hello()
        await ask(elsewhere)
        assert await robot.closed() == protocol.REPLACED


async def test_a_robot_that_is_sent_back_comes_again_and_hears_what_is_applied(token, ask):
    async with Wire(token) as robot:
        await robot.hello()
        await ask(send_back, ["RB-001"])
        assert await robot.closed() == protocol.COME_BACK
    async with Wire(token) as robot:
        assert (await robot.hello())["session"] == 2
        await robot.say("robot.state", {"mode": "idle"})
        assert (await robot.hear())["verdict"] == "stored"


def revoke():
    credentials.revoke_credential("RB-001", actions.Robot(pk="RB-001").credentials.get(label="").number, by=SYSTEM)


def retire():
    actions.retire_robot("RB-001", by=SYSTEM)


@pytest.mark.parametrize("take_away", [revoke, retire])
async def test_a_link_is_closed_when_its_credential_or_robot_is_no_longer_valid(token, ask, take_away):
    async with Wire(token) as robot:
        await robot.hello()
        await ask(take_away)
        assert await robot.closed() == protocol.UNAUTHORISED


async def test_another_credential_of_the_robot_may_be_revoked_without_harm(token, ask):
    await ask(lambda: credentials.issue_credential("RB-001", label="spare", by=SYSTEM))
    spare = await ask(lambda: actions.Robot(pk="RB-001").credentials.get(label="spare").number)
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: credentials.revoke_credential("RB-001", spare, by=SYSTEM))
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        assert (await robot.hear())["type"] == "robot.stop"


async def test_a_command_is_marked_as_sent_then_sent_as_written_and_delivery_goes_on_the_stream(token, streams, ask):
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
        frame = await robot.hear()
        command = await ask(Command.objects.get)
        assert frame == json.loads(command.body)
        assert command.sent_at is not None
        await robot.send({"type": "ack", "msg_id": frame["msg_id"]})
        await robot.send({"type": "ack", "msg_id": frame["msg_id"]})
        await robot.send({"type": "ack", "msg_id": str(uuid.uuid4())})
        await robot.say("robot.stopped", {"reply_to": frame["msg_id"]})
        assert (await robot.hear())["verdict"] == "stored"
        told = [protocol.decode_up(json.dumps(entry)) for entry in await until(streams, 2)]
    assert [(up.type, up.session) for up in told] == [("command.delivered", 0), ("robot.stopped", 1)]
    assert told[0].data == {"command": command.id}


async def test_commands_wait_for_a_link_and_come_in_order(token, ask, dispatched, supervisor):
    await ask(lambda: mission_actions.pause_mission(dispatched.pk, by=by_user(supervisor)))
    assert not await ask(lambda: Command.objects.exclude(sent_at=None).exists())
    async with Wire(token) as robot:
        await robot.hello()
        assert [(await robot.hear())["type"] for _ in range(2)] == ["mission.assign", "mission.pause"]


async def test_a_mission_that_is_cancelled_before_its_assignment_left_is_never_sent(token, ask, dispatched, supervisor):
    await ask(lambda: mission_actions.cancel_mission(dispatched.pk, by=by_user(supervisor)))
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        assert (await robot.hear())["type"] == "robot.stop"
        assert not await ask(lambda: Command.objects.filter(kind="mission.assign").exclude(sent_at=None).exists())


async def test_a_command_that_somebody_is_changing_holds_up_no_stop_and_is_not_overtaken_by_others(
    token, ask, dispatched, supervisor
):
    await ask(lambda: mission_actions.pause_mission(dispatched.pk, by=by_user(supervisor)))
    holding = OneConnection("test")
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()
    released = asyncio.Event()

    def hold():
        with transaction.atomic():
            Command.objects.select_for_update().get(kind="mission.assign")
            loop.call_soon_threadsafe(entered.set)
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result(10)

    task = asyncio.create_task(holding.ask(hold))
    await entered.wait()
    try:
        async with Wire(token) as robot:
            await robot.hello()
            await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
            assert (await robot.hear())["type"] == "robot.stop"
            await robot.say("robot.heartbeat", {"battery": 50})
            assert (await robot.hear())["verdict"] == "seen"
            released.set()
            await ask(_stands)
            heard: list[str] = []
            while len(heard) < 2:  # the stop may have come again before it was answered
                heard += [kind for kind in [(await robot.hear())["type"]] if kind != "robot.stop"]
            assert heard == ["mission.assign", "mission.pause"]
    finally:
        released.set()
        await task
        holding.close()


async def test_delivery_that_could_not_be_stored_is_asked_for_again(token, streams, ask, monkeypatch):
    failures = [Unavailable("down")]
    store = Intake.store

    async def flaky(self, *args):
        if failures:
            raise failures.pop()
        return await store(self, *args)

    monkeypatch.setattr(Intake, "store", flaky)
    monkeypatch.setattr(one_link, "RETRY_S", (0.05,))
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        for _ in range(2):
            frame = await robot.hear()
            await robot.send({"type": "ack", "msg_id": frame["msg_id"]})
        assert (await until(streams, 1))[0]["type"] == "command.delivered"


async def test_a_hint_brings_a_command_at_once(token, ask, settings, monkeypatch):
    monkeypatch.setattr(links, "LOOK_S", 600)
    look, looked = links.look, asyncio.Queue()

    def counted(asked):
        seen = look(asked)
        loop.call_soon_threadsafe(looked.put_nowait, len(seen))
        return seen

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(links, "look", counted)
    async with Wire(token) as robot:
        await robot.hello()
        await looked.get()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        async with asyncio.timeout(5):
            with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live:
                live.publish("commands", "no list")
                while not live.publish("commands", msgspec.json.encode(["RB-777", "RB-001"])):
                    await asyncio.sleep(0)  # the subscription is on its way
        assert (await robot.hear())["type"] == "robot.stop"


async def test_a_look_is_about_some_links_and_within_its_time_about_all(monkeypatch):
    """A thousand in one go, and everybody's messages would wait for it."""
    robots, looks = {f"RB-{n:03}" for n in range(250)}, asyncio.Queue[set[str]]()
    monkeypatch.setattr(links, "LOOK_S", 0.03)
    monkeypatch.setattr(Links, "everybody", lambda self: robots)
    monkeypatch.setattr(Links, "step", lambda self, some: looks.put(set(some)))
    here = Links.enter()
    try:
        for _ in range(2):
            parts = [await looks.get() for _ in range(3)]
            assert [len(part) for part in parts] == [100, 100, 50]
            assert set[str]().union(*parts) == robots
    finally:
        await here.leave()


async def test_without_the_live_redis_a_stop_reaches_the_robot_all_the_same(token, ask, settings):
    settings.LIVE_REDIS_URL = "redis://127.0.0.1:1/0"
    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        assert (await robot.hear())["type"] == "robot.stop"


async def test_known_commands_are_still_sent_while_the_database_is_away_and_links_stay(token, ask, monkeypatch):
    monkeypatch.setattr(one_link, "RETRY_S", (0.05,))
    look, away = links.look, True

    def flaky(asked):
        if away:
            raise OperationalError("gone")
        return look(asked)

    async with Wire(token) as robot:
        await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        first = await robot.hear()
        monkeypatch.setattr(links, "look", flaky)
        assert await robot.hear() == first
        away = False
        await robot.send({"type": "ack", "msg_id": first["msg_id"]})
        await robot.say("robot.heartbeat", {"battery": 50})
        while (heard := await robot.hear()) == first:
            pass
        assert heard["verdict"] == "seen"


async def test_one_link_that_cannot_be_written_to_does_not_stop_the_others(token, ask, other_robot, monkeypatch):
    other_token = await ask(lambda: credentials.issue_credential("RB-002", by=SYSTEM))
    async with Wire(token) as broken, Wire(other_token, "RB-002") as robot:
        await broken.hello()
        await robot.hello()

        async def fail(text):
            raise RuntimeError("broken pipe")

        Links._here._by_robot["RB-001"].send = fail
        await ask(lambda: [stopping.stop_robot(r, by=SYSTEM) for r in ("RB-001", "RB-002")])
        assert (await robot.hear())["type"] == "robot.stop"


async def test_whatever_the_links_of_a_process_share_and_has_to_run_does_run():
    links = Links.enter()
    try:
        works = {task.get_coro().__qualname__ for task in links._tasks}
        parts = {f"{type(part).__name__}.run" for part in vars(links).values() if hasattr(part, "run")}
    finally:
        await links.leave()
    assert "Duplicates.run" in parts and parts <= works


@pytest.mark.django_db(transaction=True)
def test_a_link_that_cannot_send_now_marks_nothing_as_sent(robot):
    opened = open_session("RB-001", "http")
    credential = credentials.issue_credential("RB-001", by=SYSTEM)
    number = credentials.credential_of_token(credential).pk
    stopping.stop_robot("RB-001", by=SYSTEM)
    quiet = Asked("RB-001", opened.session, number, [], takes=False)
    [seen] = look([quiet])
    assert (seen.commands, Command.objects.get().sent_at) == ([], None)
    [seen] = look([quiet._replace(takes=True)])
    assert [c.kind for c in seen.commands] == ["robot.stop"]
    assert Command.objects.get().sent_at
    [seen] = look([quiet])  # it was sent, and the robot has not answered
    assert [c.kind for c in seen.commands] == ["robot.stop"]


def _stands() -> None:
    """The robot has heard the stop, and says that it stands."""
    stop, now = Command.objects.get(kind="robot.stop"), timezone.now()
    Command.objects.filter(pk=stop.pk).update(state="delivered")
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], now=now)
        ledger.tell_robot("RB-001", StoodStill(7, 1, stop.created_at), SYSTEM, now)
        ledger.commit()


def _credential() -> int:
    return credentials.credential_of_token(credentials.issue_credential("RB-001", by=SYSTEM)).pk


@pytest.mark.django_db(transaction=True)
def test_what_was_dispatched_before_a_stop_is_not_sent_until_the_robot_says_that_it_stands(dispatched):
    session = open_session("RB-001", "here").session
    asked = [Asked("RB-001", session, _credential(), [])]

    def kinds():
        return [command.kind for command in look(asked)[0].commands]

    stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle")
    assert kinds() == ["robot.stop"]
    Command.objects.filter(kind="robot.stop").update(state="delivered")  # heard, but not confirmed
    assert kinds() == []
    assert Command.objects.get(kind="mission.assign").sent_at is None
    _stands()
    assert kinds() == ["mission.assign"]


@pytest.mark.django_db(transaction=True)
def test_an_assignment_that_waits_for_a_stop_holds_up_nothing_that_ends_the_stop(dispatched):
    session = open_session("RB-001", "here").session
    asked = [Asked("RB-001", session, _credential(), [])]
    stopping.stop_robot("RB-001", by=SYSTEM)
    look(asked)
    Command.objects.filter(kind="robot.stop").update(state="delivered")
    mission_actions.pause_mission(dispatched.pk, by=SYSTEM)
    stopping.release_robot("RB-001", by=SYSTEM)
    kinds = [command.kind for command in look(asked)[0].commands]
    assert {kind.partition(".")[0] for kind in kinds} == {"robot"} and "robot.release" in kinds
