"""A simulated robot as a whole: what crosses its socket, and how its process lives and dies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from telemetry import frames, protocol
from telemetry.simulator import link as links
from telemetry.simulator.activities import Place
from telemetry.simulator.pack import Pack
from telemetry.simulator.robot import Config, Robot

BARE = {"token": "secret", "capabilities": [], "places": []}
MISSION = "0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001"


class Site:
    """The other end: takes links one after the other and says what the test says."""

    def __init__(self):
        self.links = asyncio.Queue()
        self.url, self.sessions = "", 0

    async def take(self, socket):
        await self.links.put(socket)
        await socket.wait_closed()  # also when no test takes it: a robot may come once more while a test ends

    @asynccontextmanager
    async def link(self, applied=None):
        """The next link, welcomed."""
        async with asyncio.timeout(10):
            socket = await self.links.get()
        try:
            self.sessions += 1
            hello = json.loads(await socket.recv())
            assert hello["type"] == "hello"
            assert socket.request.headers["Authorization"] == "Bearer secret"
            await socket.send(frames.welcome(self.sessions, applied or {}, datetime.now(UTC)))
            yield socket
        finally:
            await socket.close(4012)


@pytest.fixture
async def site(monkeypatch):
    monkeypatch.setattr(links, "BACKOFF_S", (0.02,))
    site = Site()
    async with serve(site.take, "127.0.0.1", 0) as server:
        site.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield site


@pytest.fixture
async def robot(site):
    able = ["navigate", "wait"]
    made = Robot(
        Config("RB-001", "secret", site.url, able, [Place("Dock A", 0, 0), Place("Shelf 3", 1, 0)], speed_up=50)
    )
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def hear(socket, *types, acknowledge=True):
    """The next message of each type in turn; every critical one on the way is stored."""
    found = []
    async with asyncio.timeout(10):
        while len(found) < len(types):
            frame = json.loads(await socket.recv())
            if frame.get("channel") == "critical":
                protocol.decode_up(json.dumps(frame))
                if acknowledge:
                    await socket.send(frames.ack(frame["msg_id"], "stored"))
            if frame["type"] == types[len(found)]:
                found.append(frame)
    return found


def command(type, number=1, **data):
    about = (
        {"mission": MISSION, "dispatch_no": 1} if type.startswith("mission") else {"mission": None, "dispatch_no": None}
    )
    body = {"v": 1, "type": type, "msg_id": f"00000000-0000-4000-8000-{number:012}", "robot": "RB-001", "data": data}
    return json.dumps({**body, **about})


def assign(number=1):
    step = {"number": 1, "command": "navigate", "params": {"place": "Shelf 3"}, "timeout_s": 60, "attempt": 1}
    return command("mission.assign", number, title="Fetch", timeout_s=600, steps=[step])


async def test_it_says_hello_its_state_its_pose_and_beats(site, robot):
    async with site.link() as socket:
        (state,) = await hear(socket, "robot.state")
        assert (state["session"], state["seq"], state["data"]["mode"]) == (1, 1, "idle")
        beat, pose = await hear(socket, "robot.heartbeat", "robot.telemetry")
        assert 0 < beat["data"]["battery"] <= 100
        assert pose["data"]["speed"] == 0


async def test_it_carries_out_a_mission_and_a_command_once_however_often_it_comes(site, robot):
    async with site.link() as socket:
        for _ in range(3):
            await socket.send(assign())
        acks = [(await hear(socket, "ack"))[0]["msg_id"] for _ in range(3)]
        assert len(set(acks)) == 1
        await hear(socket, "mission.step_completed", "mission.finished")
        await socket.send(command("robot.query_state", 2))
        (state,) = await hear(socket, "robot.state")
        while not state["data"]["reply_to"]:
            (state,) = await hear(socket, "robot.state")
        assert state["data"]["ended"] == "finished"
    assert len(robot.machine._ended) == 1


async def test_after_a_loss_it_comes_back_and_sends_what_is_not_applied(site, robot):
    async with site.link() as socket:
        (state,) = await hear(socket, "robot.state")
    async with site.link({1: 0}) as socket:
        again, new = await hear(socket, "robot.state", "robot.state")
        assert (again["msg_id"], again["session"], again["seq"]) == (state["msg_id"], 1, 1)
        assert (new["session"], new["seq"]) == (2, 1)
    async with site.link({1: 1, 2: 1}) as socket:
        (state,) = await hear(socket, "robot.state")
        assert (state["session"], state["seq"]) == (3, 1)


async def test_it_lets_go_of_what_a_heartbeat_says_is_applied(site, robot):
    async with site.link() as socket:
        (state,) = await hear(socket, "robot.state")
        (beat,) = await hear(socket, "robot.heartbeat")
        await socket.send(frames.seen(beat["msg_id"], {1: state["seq"]}))
        await socket.send(command("robot.query_state"))  # it hears in order
        await hear(socket, "ack")
        assert [kept.seq for kept in robot.outbox._kept] == [2]


async def test_what_is_not_acknowledged_is_sent_again(site, robot, monkeypatch):
    monkeypatch.setattr("telemetry.simulator.outbox.RESEND_S", 0.05)
    async with site.link() as socket:
        first, again = await hear(socket, "robot.state", "robot.state", acknowledge=False)
        assert first == again


async def test_it_goes_on_working_without_a_link_and_tells_later(site, robot):
    async with site.link() as socket:
        await socket.send(assign())
        await hear(socket, "mission.accepted")
    async with site.link() as socket:
        told = await hear(socket, "mission.accepted", "mission.step_completed", "mission.finished")
        assert {m["session"] for m in told} <= {1, 2}


# --- processes


def config(url, robot="RB-001"):
    return {"id": robot, "token": "secret", "url": url, "capabilities": ["wait"], "places": [["Dock A", 0, 0, 0]]}


async def test_each_robot_is_a_process_that_is_found_by_its_id_and_hides_its_token(site):
    pack = Pack([config(site.url, "RB-001"), config(site.url, "RB-002")])
    task = asyncio.create_task(pack.run())
    async with site.link(), site.link():
        processes = {robot: process.pid for robot, process in pack.processes.items()}
        assert processes.keys() == {"RB-001", "RB-002"}
        for robot, pid in processes.items():
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert robot in argv
            assert "secret" not in " ".join(argv)
            assert b"secret" not in environment
        began = time.monotonic()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 2
    assert {process.returncode for process in pack.processes.values()} == {0}  # none had to be killed


async def test_a_robot_that_dies_is_started_again_and_one_that_hangs_is_stopped_all_the_same(site, monkeypatch):
    monkeypatch.setattr("telemetry.simulator.pack.RESTART_S", 0.0)
    pack = Pack([config(site.url)])
    task = asyncio.create_task(pack.run())
    async with site.link():
        first = pack.processes["RB-001"].pid
        os.kill(first, signal.SIGKILL)
    async with site.link():
        second = pack.processes["RB-001"].pid
        assert second != first
        os.kill(second, signal.SIGSTOP)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert pack.processes["RB-001"].returncode == -signal.SIGKILL


async def hear_all(socket, until, step=None):
    """Every critical message up to this one, each stored."""
    heard = []
    async with asyncio.timeout(10):
        while not heard or (heard[-1]["type"], heard[-1].get("step")) != (until, step):
            frame = json.loads(await socket.recv())
            if frame.get("channel") == "critical":
                heard.append(frame)
                await socket.send(frames.ack(frame["msg_id"], "stored"))
    return heard


@pytest.mark.parametrize("applied", [0, 3])
async def test_a_robot_that_is_killed_in_mid_mission_finishes_it_with_each_receipt_once(
    site, monkeypatch, tmp_path, applied
):
    monkeypatch.setattr("telemetry.simulator.pack.RESTART_S", 0.0)
    memory = str(tmp_path / "robots" / "RB-001.json")
    pack = Pack([config(site.url) | {"memory": memory, "speed_up": 10}])
    task = asyncio.create_task(pack.run())
    waits = [
        {"number": n, "command": "wait", "params": {"seconds": s}, "timeout_s": 60, "attempt": 1}
        for n, s in ((1, 1), (2, 8), (3, 1))
    ]
    order = command("mission.assign", title="Wait", timeout_s=600, steps=waits)
    try:
        async with site.link() as socket:
            await socket.send(order)
            before = await hear_all(socket, "mission.step_started", 2)
            os.kill(pack.processes["RB-001"].pid, signal.SIGKILL)
            await pack.processes["RB-001"].wait()
        async with site.link({1: applied}) as socket:
            await socket.send(order)  # the site may not have seen its acknowledgement
            after = await hear_all(socket, "mission.finished")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    resent = {m["msg_id"]: m for m in after if m["session"] == 1}
    assert [resent[m["msg_id"]] for m in before if m["seq"] > applied] == [m for m in before if m["seq"] > applied]
    assert [m["seq"] for m in after if m["session"] == 2] == list(range(1, sum(m["session"] == 2 for m in after) + 1))
    said = {m["msg_id"]: (m["type"], m.get("step")) for m in before + after if m["type"].startswith("mission.")}
    assert list(said.values()).count(("mission.accepted", None)) == 2  # confirmed again, because it came again
    assert list(dict.fromkeys(said.values())) == [
        ("mission.accepted", None),
        *((f"mission.step_{what}", n) for n in (1, 2, 3) for what in ("started", "completed")),
        ("mission.finished", None),
    ]


async def test_robots_die_with_their_parent(site):
    script = (
        "import asyncio, json, sys; from telemetry.simulator.pack import Pack;"
        "asyncio.run(Pack([json.loads(sys.argv[1])]).run())"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, json.dumps(config(site.url))], cwd=settings.BASE_DIR)
    try:
        async with site.link() as socket:
            parent.kill()
            async with asyncio.timeout(5):
                with suppress(ConnectionClosed):
                    while True:
                        await socket.recv()
            assert socket.close_code != 4012
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is not there"),
        ("{", "is not as"),
        ('{"url": "ws://x", "robots": [{"id": "RB-001"}]}', "is not as"),
        (json.dumps({"url": "ws://x", "robots": [{**BARE, "id": "../RB-001"}]}), "is no robot's id"),
        ('{"url": "ws://x", "robots": []}', "names no robots"),
    ],
)
def test_a_missing_or_broken_list_of_robots_is_said_in_one_line(tmp_path, text, says):
    file = tmp_path / "robots.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError, match=says):
        call_command("robots", file=file)


@pytest.mark.processes
async def test_the_command_ends_within_two_seconds_and_leaves_nothing(site, tmp_path):
    file = tmp_path / "robots.json"
    robots = [
        {**config(site.url, f"RB-00{n}"), "brand": "Mule", "places": [{"name": "Dock A", "x": 0, "y": 0}]}
        for n in (1, 2, 3)
    ]
    file.write_text(json.dumps({"url": site.url, "robots": robots}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "manage.py", "robots", "--count", "2", "--file", str(file), cwd=settings.BASE_DIR,
        env=os.environ | {"SECRET_KEY": "x" * 50},
    )  # fmt: skip
    async with site.link(), site.link():
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        began = time.monotonic()
        process.terminate()
        assert await process.wait() == 0
        assert time.monotonic() - began < 2
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert sorted(p.name for p in (tmp_path / "robots").iterdir()) == ["RB-001.json", "RB-002.json"]
