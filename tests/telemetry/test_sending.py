"""Delivery records: tries that are written down, and what left is told from what never did."""

import asyncio
import threading
import uuid
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Command, Delivery
from fleet.robots import credentials, sending, stopping
from missions import actions as mission_actions
from missions.facts import Cancelled, Delivered
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import translate
from telemetry.gateways import tries
from telemetry.gateways.links import Links
from telemetry.gateways.rows import Asked, look, open_session
from telemetry.gateways.tries import Tries
from tests.actors import SYSTEM, tell
from tests.telemetry.wire import Wire
from tests.together import together

ONE, TWO = (uuid.UUID(int=n) for n in (1, 2))
NOW = timezone.now()


class Database:
    """Stands for the thread that asks PostgreSQL."""

    def __init__(self):
        self.down, self.written = False, []

    async def ask(self, question, gateway, noted):
        if self.down:
            raise OperationalError("gone")
        self.written.append({id: (t.tries, t.first_at, t.last_at, t.error) for id, t in noted.items()})


async def test_many_tries_are_one_statement_and_none_is_lost_while_the_database_is_away(link):
    database = Database()
    kept = Tries(database, "here:1")
    kept.note(link, [ONE, TWO], [], "", NOW)
    database.down = True
    await kept.step()
    later = NOW + timedelta(seconds=1)
    kept.note(link, [ONE], [TWO], "broken pipe", later)
    await kept.step()
    database.down = False
    await kept.step()
    await kept.step()
    assert database.written == [{ONE: (2, NOW, later, ""), TWO: (1, NOW, NOW, "broken pipe")}]


async def test_what_is_tried_while_a_write_is_under_way_and_fails_is_added_to_it(link):
    database, later = Database(), NOW + timedelta(seconds=1)
    kept = Tries(database, "here:1")
    kept.note(link, [ONE, TWO], [], "", NOW)

    async def fails(*_):
        kept.note(link, [ONE], [TWO], "broken pipe", later)
        raise OperationalError("gone")

    database.ask, asks = fails, database.ask
    await kept.step()
    database.ask = asks
    await kept.step()
    assert database.written == [{ONE: (2, NOW, later, ""), TWO: (1, NOW, NOW, "broken pipe")}]


async def test_memory_for_tries_is_bounded_while_the_database_is_away(link, monkeypatch):
    monkeypatch.setattr(tries, "KEPT", 10)
    kept = Tries(Database(), "here:1")
    kept.note(link, [uuid.uuid4() for _ in range(50)], [], "", NOW)
    await kept.step()
    assert len(kept._rows.written[0]) == 10


@pytest.mark.django_db
def test_a_record_adds_up_over_links_and_keeps_the_first_moment(dispatched):
    command = Command.objects.get(kind="mission.assign").pk
    later = NOW + timedelta(seconds=9)
    gone = uuid.uuid4()
    tries.record(
        "here:1", {command: tries.Tried(2, NOW, NOW, "HTTP", 3, ""), gone: tries.Tried(1, NOW, NOW, "HTTP", 3, "")}
    )
    tries.record("there:2", {command: tries.Tried(1, later, later, "WebSocket", 4, "")})
    tries.record("there:2", {command: tries.Tried(0, None, None, "WebSocket", 4, "broken pipe")})
    row = Delivery.objects.get()
    assert (row.tries, row.first_at, row.last_at) == (3, NOW, later)
    assert (row.over, row.session, row.gateway, row.error) == ("WebSocket", 4, "there:2", "broken pipe")


@pytest.fixture
def token(transactional_db, robot, soon, monkeypatch):
    monkeypatch.setattr("telemetry.gateways.link.RETRY_S", (0.05,))
    return credentials.issue_credential("RB-001", by=SYSTEM)


async def _recorded(ask):
    await Links._here.tries.step()
    return await ask(lambda: Delivery.objects.values("tries", "over", "session", "error").get())


async def test_a_command_over_a_real_socket_leaves_its_record(token, ask):
    async with Wire(token) as robot:
        welcome = await robot.hello()
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        first = await robot.hear()
        while (await robot.hear()) != first:  # the same message, with the same msg_id
            pass
        found = await _recorded(ask)
        assert found["tries"] >= 2
        assert (found["over"], found["session"], found["error"]) == ("WebSocket", welcome["session"], "")


async def test_what_is_sent_to_a_robot_that_has_hung_up_is_no_try(token):
    async with Wire(token) as robot:
        await robot.hello()
        link = Links._here.of("RB-001")
    with pytest.raises(ConnectionResetError, match="hung up"):
        await link.send("{}")


async def test_offline_nothing_is_tried_and_nothing_counts(token, ask):
    """The robot hangs up: its command stays open, and no try is counted until it is back."""
    async with Wire(token) as robot:
        await robot.hello()
        link = Links._here.of("RB-001")

        async def fail(frame):
            raise ConnectionResetError("the robot has hung up")

        link.send = fail
        await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM))
        async with asyncio.timeout(5):
            while not Links._here.tries._noted:
                await asyncio.sleep(0)
        found = await _recorded(ask)
    assert (found["tries"], found["error"]) == (0, "ConnectionResetError: the robot has hung up")
    async with Wire(token) as robot:
        await robot.hello()
        assert (await robot.hear())["type"] == "robot.stop"
        found = await _recorded(ask)
        assert found["tries"] >= 1 and found["error"] == ""


# --- what left and what did not


def _asked(robot="RB-001"):
    credential = credentials.credential_of_token(credentials.issue_credential(robot, by=SYSTEM)).pk
    return [Asked(robot, open_session(robot, "here").session, credential, [])]


def _kinds(asked):
    return [command.kind for command in look(asked)[0].commands]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("_round", range(5))
def test_the_owners_claim_against_a_cancel(dispatched, supervisor, _round):
    """By the very statements of both: either it may have left, and a cancel follows it, or it never leaves."""
    asked = _asked()
    taken, said = together(
        lambda: _kinds(asked), lambda: mission_actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    )
    assign = Command.objects.get(kind="mission.assign")
    assert assign.state == "withdrawn"
    if said == "aborted":
        assert "mission.assign" not in taken and assign.sent_at is None
        assert not Command.objects.filter(kind="mission.cancel").exists()
        assert _kinds(asked) == []
    else:
        assert assign.sent_at is not None
        assert _kinds(asked) == ["mission.cancel"]


@pytest.mark.django_db(transaction=True)
def test_an_assignment_that_was_withdrawn_while_the_owner_looked_never_leaves(dispatched, supervisor):
    """The owner finds its row locked and passes on; when it looks again the row is no longer open."""
    asked = _asked()
    with transaction.atomic():
        mission_actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
        seen = []
        thread = threading.Thread(target=lambda: (seen.extend(_kinds(asked)), connection.close()))
        thread.start()
        thread.join(10)
        assert seen == []
    assert _kinds(asked) == []
    assert Command.objects.get(kind="mission.assign").sent_at is None


def test_the_page_words_of_a_command_follow_its_state(dispatched):
    commands = Command.objects.filter(mission=dispatched.pk)
    assert [s.said.word for s in sending.newest(commands)] == ["Waits for the robot's link"]
    commands.update(sent_at=NOW)
    tries.record("here:1", {commands.get().pk: tries.Tried(2, NOW, NOW, "HTTP", 3, "")})
    [shown] = sending.newest(commands)
    assert (shown.said.word, shown.delivery.tries) == ("Sent, not acknowledged", 2)
    commands.update(state="delivered", delivered_at=NOW)
    assert [s.said.word for s in sending.newest(commands)] == ["Delivered"]


def test_pages_of_mission_and_robot_show_how_commands_went_out(client, dispatched, supervisor):
    tries.record("h:1", {Command.objects.get().pk: tries.Tried(4, NOW, NOW, "HTTP", 3, "<b>broken</b>")})
    client.force_login(supervisor)
    for url in (f"/admin/missions/mission/{dispatched.pk}/change/", "/admin/fleet/robot/RB-001/change/"):
        page = client.get(url).content.decode()
        assert "Commands to the robot" in page and "mission.assign" in page
        assert "HTTP" in page and "&lt;b&gt;broken" in page and "<b>broken" not in page
    assert Mission.objects.get().dispatched_at


@pytest.mark.django_db(transaction=True)
def test_what_a_silent_robot_is_not_sent_is_not_marked_as_sent(dispatched, supervisor):
    """So a cancel still knows that its assignment never left. A stop is sent all the same."""
    [asked] = _asked()
    quiet = asked._replace(quiet=True)
    stopping.stop_robot("RB-001", by=SYSTEM)
    assert _kinds([quiet]) == ["robot.stop"]
    Command.objects.filter(kind="robot.stop").update(state="delivered")
    stopping.release_robot("RB-001", by=SYSTEM)
    assert _kinds([quiet]) == []
    assert Command.objects.get(kind="mission.assign").sent_at is None
    assert mission_actions.cancel_mission(dispatched.pk, by=by_user(supervisor)) == "aborted"


# --- the tombstone


def _run_out(mission_id):
    """Nothing is ever heard: deadline after deadline passes, until the mission has ended."""
    while (mission := Mission.objects.get(pk=mission_id)).state == "pending":
        with transaction.atomic():
            ledger = Ledger.open(mission_ids=[mission_id], now=mission.next_due_at)
            translate.due(ledger, mission_id, mission.next_due_at)
            ledger.commit()
    return mission


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("acknowledged", [False, True])
def test_an_assignment_given_up_after_it_may_have_left_is_followed_by_a_cancel_that_waits_for_ever(
    dispatched, acknowledged
):
    asked = _asked()
    assert _kinds(asked) == ["mission.assign"]  # it left; the robot may have it
    if acknowledged:
        Command.objects.filter(kind="mission.assign").update(state="delivered")
        tell(dispatched, Delivered())
    mission = _run_out(dispatched.pk)
    assert (mission.state, mission.abort_reason, mission.stop_confirmed) == ("aborted", "undeliverable", False)
    assert Command.objects.get(kind="mission.assign").state == "dead"
    weeks_later = _asked()  # another session
    for _ in range(3):  # again and again, until the robot takes it
        assert [kind for kind in _kinds(weeks_later) if kind.startswith("mission.")] == ["mission.cancel"]
    tell(mission, Cancelled(1), at=mission.ended_at + timedelta(weeks=3))
    assert [kind for kind in _kinds(weeks_later) if kind.startswith("mission.")] == []
    assert Mission.objects.get(pk=mission.pk).stop_confirmed is True


@pytest.mark.django_db(transaction=True)
def test_an_assignment_given_up_that_never_left_ends_at_once_and_is_never_sent(dispatched):
    asked = _asked()
    mission = _run_out(dispatched.pk)
    assert (mission.state, mission.abort_reason, mission.stop_confirmed) == ("aborted", "undeliverable", None)
    assert _kinds(asked) == []
    assert Command.objects.get(kind="mission.assign").sent_at is None
