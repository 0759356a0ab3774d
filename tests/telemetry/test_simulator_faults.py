"""What is made to go wrong with simulated robots goes wrong, as often as it is told to, and the same for the same seed."""

import asyncio
import json
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from websockets.exceptions import ConnectionClosed

from telemetry.simulator import faults as all_faults
from telemetry.simulator import robot as robots
from telemetry.simulator.activities import Place
from telemetry.simulator.faults import FAULTS, SWAP_S, Faults, parse
from telemetry.simulator.machine import Machine
from telemetry.simulator.pack import Pack
from telemetry.simulator.robot import Config, Robot
from telemetry.simulator.work import Event
from tests.telemetry.test_simulator_robot import assign, command, config, hear, site  # noqa: F401  (site: a fixture)

MESSAGES = [str(n) for n in range(1000)]


def sent(seed=1, robot="RB-001", **faults):
    """What of a thousand messages goes out, one offered each 10 ms, and then time to let go of the last."""
    way = Faults(robot, faults, seed)
    out = [text for n, message in enumerate(MESSAGES) for text in way.send([message], n / 100)]
    return out + way.send([], 1e6)


def test_without_faults_everything_goes_out_as_it_comes():
    assert sent() == MESSAGES


@pytest.mark.parametrize("name", ["drop", "duplicate", "reorder", "delay"])
def test_what_goes_wrong_is_the_same_for_the_same_seed_and_another_for_others(name):
    times = {"delay": 5.0}.get(name, 0.3)

    def trace(seed, robot):
        way = Faults(robot, {name: times}, seed)
        return [way.send([message], n / 100) for n, message in enumerate(MESSAGES)]

    assert trace(1, "RB-001") == trace(1, "RB-001")
    assert trace(1, "RB-001") != trace(2, "RB-001")
    assert trace(1, "RB-001") != trace(1, "RB-002")


def test_one_fault_does_not_change_the_chances_of_another():
    both = sent(drop=0.3, delay=0.0001)
    assert both == sent(drop=0.3)


def test_drop_loses_so_many():
    out = sent(drop=0.3)
    assert 600 < len(out) < 800
    assert out == sorted(out, key=int)


def test_duplicate_sends_so_many_twice():
    out = sent(duplicate=0.3)
    assert sorted(set(out), key=int) == MESSAGES
    assert 1200 < len(out) < 1400
    assert sent(duplicate=1) == [m for m in MESSAGES for _ in range(2)]


def test_reorder_changes_neighbours_and_loses_nothing():
    out = sent(reorder=0.3)
    assert sorted(out, key=int) == MESSAGES
    moved = [int(text) - place for place, text in enumerate(out)]
    assert set(moved) == {-1, 0, 1}
    assert 300 < sum(m != 0 for m in moved) < 600


def test_what_is_held_back_goes_on_by_itself():
    way = Faults("RB-001", {"reorder": 1.0})
    assert way.send(["one"], 0.0) == []
    assert way.send([], SWAP_S / 2) == []
    assert way.send([], SWAP_S) == ["one"]


def test_delay_holds_up_so_long_and_keeps_the_order():
    way = Faults("RB-001", {"delay": 5.0})
    assert way.send(MESSAGES, 0.0) == []
    some = way.send([], 2.0)
    assert some == MESSAGES[: len(some)]
    assert some + way.send([], 5.0) == MESSAGES


def test_drop_loses_commands_as_well_and_the_link_does_not_acknowledge_them():
    faults = Faults("RB-001", {"drop": 0.5})
    heard = [faults.command({"type": "robot.stop"}) for _ in range(100)]
    assert 30 < heard.count(None) < 70
    robot = robot_with(drop=1)
    assert robot.link._take(json.loads(command("robot.stop"))) is False
    assert not robot.machine.latched


def robot_with(**faults):
    places = [Place("Dock A", 0, 0), Place("Shelf 3", 1, 0)]
    return Robot(Config("RB-001", "secret", "ws://x", ["navigate"], places, faults=faults))


@pytest.mark.parametrize("seconds", [-300.0, 86_400.0])
def test_clock_is_wrong_by_so_much(seconds):
    robot = robot_with(clock=seconds)
    robot.outbox.begin(1, {})
    robot._greet()
    [text] = robot.outbox.due(0.0)
    said = datetime.fromisoformat(json.loads(text)["occurred_at"])
    assert abs(said - datetime.now(UTC) - timedelta(seconds=seconds)) < timedelta(seconds=10)


def test_refuse_rejects_assignments_and_other_commands_are_heard():
    robot = robot_with(refuse=1)
    robot.outbox.begin(1, {})
    robot.link._take(json.loads(assign()))
    robot.link._take(json.loads(command("robot.query_state", 2)))
    said = [json.loads(text) for text in robot.outbox.due(0.0)]
    assert [m["type"] for m in said] == ["mission.rejected", "robot.state"]
    assert said[0]["data"]["why"] == "cannot work today"


def test_fail_fails_steps_each_try_anew():
    outcomes = []
    machine = Machine("RB-001", ["navigate"], [Place("Dock A", 0, 0), Place("Shelf 3", 1, 0)], speed_up=100)
    faults = Faults("RB-001", {"fail": 0.5}, seed=3)
    machine.fails = faults.fails
    said = machine.obey(json.loads(assign()), 0.0)
    for n in range(1, 200):
        said = machine.step(n / 10)
        failed = [e for e in said if e.type == "mission.step_failed"]
        if failed:
            assert failed[0].data["why"] == "it was told to fail"
            outcomes.append("failed")
            machine.obey(json.loads(command("mission.retry_step", n + 1, attempt=len(outcomes) + 1)), n / 10)
        elif any(e.type == "mission.finished" for e in said):
            outcomes.append("finished")
            break
    assert outcomes[-1] == "finished"
    assert faults.counts["fail"] == len(outcomes) - 1 > 0


def receipts(robot, *commands, seconds=60):
    """Type, step and attempt of what a robot says of its missions, after these commands and some time."""
    robot.outbox.begin(1, {})
    said = []
    for n, text in enumerate(commands, 1):
        robot.link._take(json.loads(text))
        for _ in range(seconds * 10):
            robot._say(robot.machine.step(robot.machine.now + 0.1))
        for text in robot.outbox.due(n):
            message = json.loads(text)
            robot.outbox.acknowledged(message["msg_id"], "stored")
            if message["type"].startswith("mission."):
                said.append((message["type"].removeprefix("mission."), message.get("step"), message.get("attempt")))
    return said


def retry(number, attempt):
    return command("mission.retry_step", number, step=1, attempt=attempt)


def test_fail_first_fails_so_many_tries_of_a_step_and_then_no_more():
    said = receipts(robot_with(fail_first=2), assign(), retry(2, 2), retry(3, 3))
    assert [s for s in said if s[0] in ("step_failed", "step_completed")] == [
        ("step_failed", 1, 1), ("step_failed", 1, 2), ("step_completed", 1, 3),
    ]  # fmt: skip


def test_refuse_retry_fails_again_at_once():
    said = receipts(robot_with(fail_first=1, refuse_retry=1), assign(), retry(2, 2), seconds=4)
    assert said == [("accepted", None, None), ("step_started", 1, 1), ("step_failed", 1, 1), ("step_failed", 1, 2)]


def test_a_receipt_that_is_lost_is_never_said():
    assert receipts(robot_with(lose_receipt=1), assign()) == [("accepted", None, None), ("step_started", 1, 1)]
    assert ("finished", None, None) in receipts(robot_with(), assign())


def test_an_assignment_that_comes_again_is_confirmed_again_and_not_begun_again():
    robot = robot_with()
    assert receipts(robot, assign(), assign()).count(("step_started", 1, 1)) == 1
    again = robot_with()
    again.link._take(json.loads(assign()))
    doing = again.machine.work.activity
    again.link._take(json.loads(assign()))
    assert again.machine.work.activity is doing


async def test_finish_offline_leaves_before_the_last_step_ends_and_tells_when_it_is_back(site, monkeypatch):  # noqa: F811
    monkeypatch.setattr(robots, "AWAY_S", 0.3)
    made = Robot(
        Config("RB-001", "secret", site.url, ["navigate"], [Place("Dock A", 0, 0), Place("Shelf 3", 1, 0)],
               start="Dock A", speed_up=50, faults={"finish_offline": 1})
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    async with site.link() as socket:
        await hear(socket, "robot.state")
        await socket.send(assign())
        with pytest.raises(ConnectionClosed):
            await hear(socket, "mission.finished")
    async with site.link() as socket:
        assert made.machine.work is None
        await hear(socket, "mission.accepted", "mission.step_completed", "mission.finished")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_silent_stop_halts_and_never_says_so():
    robot = robot_with(silent_stop=1)
    robot.outbox.begin(1, {})
    robot.link._take(json.loads(command("robot.stop")))
    assert robot.machine.latched
    types = [json.loads(text)["type"] for text in robot.outbox.due(0.0)]
    assert "robot.stopped" not in types
    assert "robot.state" in types  # it says "paused" all the same
    assert Faults("RB-001").events([Event("robot.stopped", {})])


@pytest.mark.parametrize("name", all_faults.TROUBLES)
async def test_trouble_of_the_whole_robot_comes_by_chance_each_second(name, monkeypatch):
    happened = []
    monkeypatch.setitem(robots.TROUBLES, name, lambda robot: happened.append(now))
    robot = robot_with(**{name: 0.2})
    for tick in range(1000):
        now = 100 + tick / 10
        await robot.step(now)
    assert 10 < len(happened) < 32
    assert len({int(t) for t in happened}) == len(happened)
    monkeypatch.setattr(robots.time, "sleep", happened.append)
    robots._freeze(None)
    assert happened[-1] == all_faults.FREEZE_S


def test_forget_leaves_nothing_on_the_disk(tmp_path, monkeypatch):
    killed = []
    monkeypatch.setattr(robots.os, "kill", lambda *args: killed.append(args))
    file = tmp_path / "RB-001.json"
    robot = Robot(Config("RB-001", "secret", "ws://x", [], [Place("Dock A", 0, 0)], memory=str(file)))
    robot._keep()
    assert file.exists()
    robots.TROUBLES["forget"](robot)
    assert not file.exists()
    assert len(killed) == 1


@pytest.mark.processes
async def test_a_robot_that_crashes_is_a_process_that_dies_and_comes_back(site, monkeypatch):  # noqa: F811
    monkeypatch.setattr("telemetry.simulator.pack.RESTART_S", 0.0)
    pack = Pack([config(site.url) | {"faults": {"crash": 1}}])
    task = asyncio.create_task(pack.run())
    async with site.link() as socket:
        first = pack.processes["RB-001"]
        await hear(socket, "robot.state")
        async with asyncio.timeout(10):
            assert await first.wait() == -signal.SIGKILL
    async with site.link():
        assert pack.processes["RB-001"].pid != first.pid
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_every_fault_is_described():
    page = (Path(settings.BASE_DIR) / "docs" / "simulator.md").read_text()
    described = dict(re.findall(r"^\| `(\w+)` \| ([^|,]+)", page, re.MULTILINE))
    assert {name: unit.strip() for name, unit in described.items()} == {name: f.unit for name, f in FAULTS.items()}
    assert f"still for {all_faults.FREEZE_S:.0f} s" in page
    assert f"out of reach for {all_faults.AWAY_S:.0f} s" in page


def test_faults_are_named_on_the_command_line():
    assert parse("drop=0.05, clock=-300,") == {"drop": 0.05, "clock": -300.0}
    assert parse("") == {}
    assert set(parse(",".join(f"{name}=0.5" for name in FAULTS))) == set(FAULTS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("explode=1", "there is no fault 'explode'; there are drop"),
        ("drop", "drop needs a number .*, not ''"),
        ("drop=often", "drop needs a number"),
        ("drop=1.5", "drop is from 0 to 1"),
        ("drop=nan", "drop is from 0 to 1"),
        ("delay=-1", "delay is from 0 to 60"),
    ],
)
def test_a_fault_that_is_none_is_said_in_one_line(text, says):
    with pytest.raises(CommandError, match=says):
        call_command("robots", faults=text)
