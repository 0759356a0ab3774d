"""What a simulated robot remembers: every mode goes round, and the file is whole or not used."""

import json
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from telemetry.protocol import decode_up
from telemetry.simulator.activities import Place
from telemetry.simulator.memory import Disk, MachineMemory, Memory, OutboxMemory, file_of
from telemetry.simulator.outbox import Outbox
from telemetry.simulator.robot import Config, Robot
from telemetry.simulator.work import Event
from tests.telemetry.test_simulator_machine import GO, PLACES, WAIT, Driver, types

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def rebooted(robot):
    """The same robot in a new process: another clock, and only what went through JSON."""
    again = Driver()
    again.now = again.machine.now = robot.now + 5000.0
    again.machine.remember(msgspec.json.decode(msgspec.json.encode(robot.machine.memory()), type=MachineMemory))
    return again


def _rounded(robot):
    """Its memory without what two clocks make of 0.1 s."""
    return json.loads(msgspec.json.encode(robot.machine.memory()), parse_float=lambda text: round(float(text), 3))


def _failed(robot):
    robot.assign(("custom", {"name": "fail"}), WAIT)
    robot.run(4)


def _charging(robot):
    robot.machine.body.battery = 70.0
    robot.assign(("charge", {"place": "Shelf 3", "until_percent": 90}), WAIT)
    robot.run(12)


def _topping_up(robot):
    robot.machine.body.battery = 20.0
    robot.run(1)


def _script(*orders):
    """Seconds to run, assignments, or commands."""

    def play(robot):
        for order in orders:
            if isinstance(order, int | float):
                robot.run(order)
            elif isinstance(order, list):
                robot.assign(*order)
            else:
                robot.command(order)

    return play


LIVES = {  # name: what came before, mode
    "newborn": (_script(), "idle"),
    "driving": (_script([GO, WAIT], 4), "running"),
    "driving to coordinates": (_script([("navigate", {"place": "X", "x": 9.0, "y": 9.0}), WAIT], 4), "running"),
    "handling": (_script([("pick", {"place": "Shelf 3", "load": "a"}), WAIT], 12), "running"),
    "waiting in step 2": (_script([GO, WAIT], 11), "running"),
    "doing something custom": (_script([("custom", {"name": "wash"})], 2), "running"),
    "charging by order": (_charging, "charging"),
    "topping up": (_topping_up, "charging"),
    "paused": (_script([GO, WAIT], 4, "mission.pause"), "paused"),
    "stopped in a mission": (_script([GO, WAIT], 4, "robot.stop"), "paused"),
    "stopped and released": (_script([GO, WAIT], 4, "robot.stop", "robot.release"), "paused"),
    "stopped without a mission": (_script("robot.stop"), "paused"),
    "fault in a mission": (_script([("custom", {"name": "fault"}), WAIT], 4), "fault"),
    "after a fault in a mission": (_script([("custom", {"name": "fault"}), WAIT], 13.5), "running"),
    "step failed": (_failed, "running"),
    "finished": (_script([WAIT], 3), "idle"),
    "cancelled": (_script([GO], 3, "mission.cancel"), "idle"),
    "cancelled before it came": (_script("mission.cancel"), "idle"),
    "rejected": (_script([("dance", {})]), "idle"),
}
AHEAD = {  # what comes after
    "time": _script(30),
    "resume": _script("mission.resume", 30),
    "release and resume": _script("robot.release", "mission.resume", 30),
    "retry": _script("mission.retry_step", 30),
    "skip": _script("mission.skip_step", 30),
    "cancel": _script("mission.cancel", 5),
    "the assignment again": _script([GO, WAIT], 30),
    "a question": _script("robot.query_state", 0.5),
}


@pytest.mark.parametrize("life", LIVES)
def test_it_is_where_it_was_in_the_mode_that_it_was_in(life):
    live, mode = LIVES[life]
    robot = Driver()
    live(robot)
    again = rebooted(robot)
    assert robot.machine.mode == again.machine.mode == mode
    assert again.machine.memory() == robot.machine.memory()
    assert again.state() == robot.state()


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("life", LIVES)
def test_from_there_it_says_and_does_what_it_would_have_without_a_reboot(life, ahead):
    robot = Driver()
    LIVES[life][0](robot)
    again, before = rebooted(robot), len(robot.said)
    AHEAD[ahead](robot)
    AHEAD[ahead](again)
    clock = {"reply_to": ""}
    assert [e._replace(data=e.data | clock) for e in again.said] == [
        e._replace(data=e.data | clock) for e in robot.said[before:]
    ]
    assert _rounded(again) == _rounded(robot)


def test_the_time_that_it_was_off_is_no_work():
    robot = Driver()
    robot.assign(GO)
    robot.run(2)
    again = rebooted(robot)
    assert types(again.run(7.5)) == []
    assert types(again.run(0.7)) == ["step_completed", "finished", "robot.state"]


@pytest.mark.parametrize("change", [{"number": 3}, {"steps": [{"command": "dance"}]}, {"steps": []}])
def test_work_that_it_cannot_go_on_with_leaves_the_machine_as_it_is(change):
    robot = Driver()
    robot.assign(GO, WAIT)
    robot.run(3)
    memory = robot.machine.memory()
    for name, value in change.items():
        setattr(memory.work, name, value)
    fresh = Driver().machine
    before = fresh.memory()
    with pytest.raises(ValueError, match="can go on with"):
        fresh.remember(memory)
    assert fresh.memory() == before


# --- outbox


def _through_json(outbox):
    again = Outbox("RB-001")
    again.remember(msgspec.json.decode(msgspec.json.encode(outbox.memory()), type=OutboxMemory))
    return again


def test_what_is_not_applied_goes_out_again_unchanged_and_the_new_session_counts_from_1():
    outbox = Outbox("RB-001")
    outbox.begin(7, {})
    for code in "ABC":
        outbox.add(Event("robot.fault", {"code": code, "text": ""}), NOW)
    sent = outbox.due(0.0)
    outbox.acknowledged(json.loads(sent[1])["msg_id"], "stored")
    outbox.applied({"7": 1})
    again = _through_json(outbox)
    again.add(Event("robot.state", {"mode": "idle"}), NOW)  # before it has a link
    again.begin(8, {"7": 1})
    again.add(Event("robot.state", {"mode": "idle"}), NOW)
    texts = again.due(0.0)
    assert texts[:2] == sent[1:]
    assert [((up := decode_up(text)).session, up.seq) for text in texts] == [(7, 2), (7, 3), (7, 4), (8, 1)]
    assert decode_up(again.lossy("robot.heartbeat", {"battery": 50}, NOW)).seq == 1


def test_an_outbox_without_its_first_session_remembers_none():
    assert _through_json(Outbox("RB-001")).session == 0


# --- the file


@pytest.fixture
def memory():
    robot = Driver()
    robot.assign(GO)
    return Memory("RB-001", robot.machine.memory(), Outbox("RB-001").memory(), ["a", "b"])


@pytest.fixture
def file(tmp_path):
    return file_of(tmp_path / "robots", "RB-001")


def test_it_is_read_as_it_was_written_and_only_the_owner_may_look(file, memory):
    Disk("RB-001", file).write(memory)
    assert Disk("RB-001", file).read() == memory
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(file.parent.iterdir()) == [file]


def test_without_a_file_nothing_is_kept_and_nothing_is_said(file, memory, caplog):
    Disk("RB-001", None).write(memory)
    assert Disk("RB-001", None).read() is None
    assert Disk("RB-001", file).read() is None
    assert (file.parent.exists(), caplog.records) == (False, [])


def test_a_write_that_is_cut_off_leaves_the_old_memory(file, memory, monkeypatch, caplog):
    disk = Disk("RB-001", file)
    disk.write(memory)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    memory.obeyed = ["c"]
    for _ in range(3):
        disk.write(memory)
    assert file.read_bytes() == before
    assert [r.getMessage() for r in caplog.records] == [
        "RB-001: cannot keep its memory ([Errno 28] No space left on device)"
    ]


def _changed(**change):
    return lambda good: json.dumps(json.loads(good) | change).encode()


BROKEN = {
    "empty": lambda good: b"",
    "cut off": lambda good: good[:-20],
    "not JSON": lambda good: b"\xff\xfe\x00",
    "not UTF-8": lambda good: good.replace(b"Fetch", b"F\xfftch").replace(b'"a"', b'"\xff"'),
    "another shape": lambda good: b"[]",
    "a wrong type": _changed(obeyed=[1]),
    "another format": _changed(format=2),
    "another robot": _changed(robot="RB-002"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_or_foreign_file_is_not_used_and_one_line_says_so(file, memory, how, caplog):
    Disk("RB-001", file).write(memory)
    file.write_bytes(BROKEN[how](file.read_bytes()))
    assert Disk("RB-001", file).read() is None
    (line,) = [r.getMessage() for r in caplog.records]
    assert line.startswith(f"RB-001: {file} is not used (")
    assert "\n" not in line


def test_a_file_that_cannot_be_read_is_not_used(file, caplog):
    file.mkdir(parents=True)
    assert Disk("RB-001", file).read() is None
    assert len(caplog.records) == 1


def test_a_robot_with_work_that_it_does_not_know_starts_fresh(file, memory, caplog):
    memory.machine.work.steps[0]["command"] = "dance"
    memory.machine.battery = 3.0
    Disk("RB-001", file).write(memory)
    robot = Robot(Config("RB-001", "secret", "ws://x", ["wait"], PLACES, memory=str(file)))
    assert (robot.machine.work, list(robot.link.obeyed), len(caplog.records)) == (None, [], 1)
    assert robot.machine.body.battery > 3.0


@pytest.mark.parametrize("robot", [".", "..", "...", "-", "a.json", "A" * 64])
def test_every_id_has_a_file_of_its_own_in_the_folder(tmp_path, robot, memory):
    folder = tmp_path / "robots"
    memory.robot = robot
    Disk(robot, file_of(folder, robot)).write(memory)
    assert list(folder.iterdir()) == [folder / f"{robot}.json"]
    assert Disk(robot, file_of(folder, robot)).read() == memory


@pytest.mark.parametrize("robot", ["", "../x", "a/b", "a\n", "A" * 65])
def test_what_is_no_id_has_none(tmp_path, robot):
    with pytest.raises(ValueError, match="is no robot's id"):
        file_of(tmp_path, robot)


# --- when the robot writes


@pytest.fixture
def robot(file, monkeypatch):
    robot = Robot(
        Config(
            "RB-001", "secret", "ws://x", ["navigate"], [Place("A", 0, 0), Place("B", 900, 0)], "A", memory=str(file)
        )
    )
    writes = []
    monkeypatch.setattr(robot.disk, "write", writes.append)
    robot.writes = writes
    return robot


async def test_movement_alone_is_written_every_few_seconds_and_rest_every_minute(robot, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("telemetry.simulator.robot.time.monotonic", lambda: now)

    async def pass_time(seconds):
        nonlocal now
        robot.writes.clear()
        for _ in range(seconds * 10):
            now += 0.1
            await robot.step(now)
        return len(robot.writes)

    await pass_time(1)
    assert await pass_time(300) in (4, 5)
    step = {"number": 1, "command": "navigate", "params": {"place": "B"}, "timeout_s": 60, "attempt": 1}
    robot._obey({"type": "mission.assign", "msg_id": "m", "mission": "m", "dispatch_no": 1, "data": {"steps": [step]}})
    robot._keep()
    assert robot.writes[-1].machine.work.mission == "m"
    assert await pass_time(30) in (9, 10, 11)


class Wire:
    """A socket that brings these frames and then ends; what it sends goes to `log`."""

    def __init__(self, log, *frames):
        self.log, self.frames = log, list(frames)

    async def recv(self):
        if not self.frames:
            raise ConnectionError
        return json.dumps(self.frames.pop(0))

    async def send(self, text):
        self.log.append(json.loads(text)["type"])
        if self.log[-1] != "ack":
            raise ConnectionError


async def test_it_is_written_before_an_acknowledgement_or_a_critical_message_leaves(robot, monkeypatch):
    log = []
    monkeypatch.setattr(robot.disk, "write", lambda memory: log.append(f"write {memory.obeyed}"))
    robot.outbox.begin(1, {})
    stop = {"type": "robot.stop", "msg_id": "m", "mission": None, "dispatch_no": None, "data": {}}
    with pytest.raises(ConnectionError):
        await robot.link._hear(Wire(log, stop, stop))
    assert log == ["write ['m']", "ack", "ack"]
    log.clear()
    robot._greet()
    robot.link._socket = Wire(log)
    with pytest.raises(ConnectionError):
        await robot.link._send()
    assert log == ["write ['m']", "robot.stopped"]


def test_a_full_memory_is_small(file):
    """An upper bound: all that it can remember."""
    robot, outbox = Driver(), Outbox("RB-001")
    outbox.begin(1, {})
    for number in range(200):
        robot.command("mission.cancel", mission=str(UUID(int=number)))
    for event in robot.said[-50:]:
        outbox.add(event, NOW)
    obeyed = [str(UUID(int=n)) for n in range(500)]
    Disk("RB-001", file).write(Memory("RB-001", robot.machine.memory(), outbox.memory(), obeyed))
    assert file.stat().st_size < 64 * 1024
