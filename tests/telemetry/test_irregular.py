"""Duplicates, stale, late and dead messages are counted by robot and kind, and shown with what they may mean."""

import asyncio
import uuid

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from fleet.models import Event, Robot
from fleet.ports import irregular as port
from fleet.robots import credentials
from telemetry import irregular, stream
from telemetry.gateways import links
from telemetry.gateways.intake import Intake
from telemetry.irregular import Duplicates
from telemetry.models import Irregularity, ProcessedMessage
from telemetry.one_connection import OneConnection
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import NOW, message, say, whole_life, work
from tests.telemetry.wire import Wire


def counted():
    return {(i.robot_id, i.kind, i.verdict): i.count for i in Irregularity.objects.all()}


def test_what_is_applied_as_usual_costs_no_statement(worker, clock, dispatched):
    say(*whole_life(dispatched, 3))
    seen = []
    with connection.execute_wrapper(lambda run, sql, *rest: (seen.append(sql), run(sql, *rest))[1]):
        work(worker, clock)
    assert counted() == {} and not [sql for sql in seen if "irregularity" in sql]


def test_stale_late_and_dead_ones_are_counted_by_kind(worker, clock, dispatched):
    *life, finished = whole_life(dispatched, 3)
    say(
        message("RB-001", "mission.accepted", 20, mission=dispatched, dispatch_no=7),
        message("RB-001", "mission.step_completed", 21, mission=dispatched, dispatch_no=7, step=1, attempt=1),
        message("RB-001", "mission.step_completed", 22, mission=dispatched, dispatch_no=7, step=2, attempt=1),
        *life, finished,
        message("RB-001", "mission.step_failed", 23, mission=dispatched, step=1, attempt=1, data={"why": "x"}),
        message("RB-001", "robot.dance", 24),
        message("RB-001", "robot.waltz", 25),
    )  # fmt: skip
    work(worker, clock)
    assert counted() == {
        ("RB-001", "mission.accepted", "stale"): 1,
        ("RB-001", "mission.step_completed", "stale"): 2,
        ("RB-001", "mission.step_failed", "late"): 1,
        ("RB-001", "other", "dead"): 2,  # no robot makes up rows
    }


def test_what_a_robot_sends_again_is_counted_and_what_we_read_again_is_not(worker, clock, dispatched, durable):
    accepted = message("RB-001", "mission.accepted", 1, mission=dispatched)
    say(accepted)
    work(worker, clock)
    for name in durable.keys("seen:*"):
        durable.delete(name)  # later than the window of the gateway
    say(accepted)
    work(worker, clock)
    assert counted() == {("RB-001", "mission.accepted", "duplicate"): 1}
    worker.messages.hook = lambda where: (
        (_ for _ in ()).throw(RuntimeError("killed")) if where == "before_ack" else None
    )
    say(message("RB-001", "robot.fault_cleared", 2, data={"code": "E"}))
    worker.step(clock.now, clock.tick)  # committed, and killed before it could acknowledge
    worker.messages.hook = lambda where: None
    clock.advance(5)
    work(worker, clock)
    assert counted() == {("RB-001", "mission.accepted", "duplicate"): 1}


def test_a_name_that_is_no_robot_makes_no_row(worker, clock, robot):
    say(message("NOBODY", "robot.fault_cleared", data={"code": "E"}))
    work(worker, clock)
    assert counted() == {}


class Rows:
    def __init__(self):
        self.down, self.written = True, []

    async def ask(self, question, noted):
        if self.down:
            raise OperationalError("gone")
        self.written.append(dict(noted))


async def test_a_gateway_writes_its_duplicates_in_bundles_and_keeps_them_while_the_database_is_away(monkeypatch):
    monkeypatch.setattr(irregular, "KEPT", 2)
    rows = Rows()
    duplicates = Duplicates(rows)
    for robot in ("RB-001", "RB-001", "RB-002", "RB-003"):  # the third robot is one too many
        duplicates.note(robot, "robot.fault")
    await duplicates.step()
    duplicates.note("RB-001", "robot.fault")
    rows.down = False
    await duplicates.step()
    await duplicates.step()
    assert rows.written == [{("RB-001", "robot.fault", "duplicate"): 3, ("RB-002", "robot.fault", "duplicate"): 1}]


@pytest.mark.django_db(transaction=True)
async def test_duplicates_on_a_socket_reach_the_table(robot, durable):
    ask = OneConnection("test")
    token = await ask.ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))
    async with Wire(token) as wire:
        await wire.hello()
        said = await wire.say("robot.fault", {"code": "E", "text": "x"})
        assert (await wire.hear())["verdict"] == "stored"
        await wire.send(said)
        assert (await wire.hear())["verdict"] == "duplicate"
        await links.Links._here.duplicates.step()
    assert await ask.ask(counted) == {("RB-001", "robot.fault", "duplicate"): 1}
    ask.close()


def test_the_robots_page_says_what_it_may_mean(client, robot, supervisor):
    client.force_login(supervisor)
    url = "/admin/fleet/robot/RB-001/change/"
    assert "Messages out of the ordinary" not in client.get(url).content.decode()
    with connection.cursor() as cursor:
        for _ in range(2):
            irregular.write(
                cursor, {("RB-001", "robot.fault", "duplicate"): 6, ("RB-001", "other", "dead"): 1}, timezone.now()
            )
    page = client.get(url).content.decode()
    assert 'Sent again: <span class="num">12</span>' in page
    assert "resends before it sees our acknowledgements" in page
    assert [i.what for i in port.of_robot("RB-001")] == ["Sent again", "Not applied"]


# --- the rows that everything rests on: each of these is red when its line is taken out


def test_one_msg_id_of_one_robot_has_one_effect_even_past_the_window(worker, clock, dispatched, durable):
    """The unique row (robot, msg_id) is the truth; the window in Redis only saves work."""
    accepted = message("RB-001", "mission.accepted", 1, mission=dispatched)
    cleared = message("RB-001", "robot.fault", 2, data={"code": "E", "text": "hot"})
    for _ in range(3):
        for mark in durable.keys("seen:*"):
            durable.delete(mark)
        say(accepted, cleared)
        clock.advance(5)
        work(worker, clock)
    assert ProcessedMessage.objects.count() == 2
    assert Event.objects.filter(kind="mission.started").count() == 1
    assert Event.objects.filter(kind="robot.faulted").count() == 1
    assert counted()["RB-001", "robot.fault", "duplicate"] == 2


def test_two_robots_may_use_the_same_msg_id(worker, clock, robot, other_robot, durable):
    """Unique is (robot, msg_id), in the window of Redis, in the batch and in the table: not msg_id alone."""
    msg_id = str(uuid.uuid4())
    both = [message(r, "robot.fault", msg_id=msg_id, data={"code": "E", "text": r}) for r in ("RB-001", "RB-002")]
    assert say(*both) == ["stored", "stored"]
    work(worker, clock)
    assert dict(Robot.objects.values_list("pk", "fault")) == {"RB-001": "RB-001", "RB-002": "RB-002"}


def test_nothing_is_acknowledged_before_it_is_committed(worker, clock, robot, durable):
    """Killed between commit and acknowledgement or before: the entry is still pending, and comes again."""
    seen = []

    def hook(where):
        if where == "before_commit":
            pending = durable.xpending(stream.key(stream.partition_of("RB-001")), stream.GROUP)["pending"]
            seen.append(pending)

    worker.messages.hook = hook
    say(message("RB-001", "robot.fault_cleared", data={"code": "E"}))
    work(worker, clock)
    assert seen == [1]
    assert durable.xpending(stream.key(stream.partition_of("RB-001")), stream.GROUP)["pending"] == 0


async def test_the_same_message_stored_at_the_same_time_is_one_entry(durable, settings):
    """Looking at the mark, appending and marking are one script: two gateways that look at once append once."""
    gateways = [Intake(settings.REDIS_URL) for _ in range(4)]
    for _ in range(25):
        msg_id = uuid.uuid4()
        answers = await asyncio.gather(*(g.store("RB-001", msg_id, b"{}", NOW) for g in gateways))
        assert sorted(answers) == ["duplicate"] * 3 + ["stored"]
    assert durable.xlen(stream.key(stream.partition_of("RB-001"))) == 25
    for gateway in gateways:
        await gateway.aclose()
