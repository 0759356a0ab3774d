"""HTTP behind the real server: whole robots over it, the examples of the documentation word for word, and slow bodies."""

import asyncio
import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.utils import timezone

from fleet.robots import stopping
from missions import actions as mission_actions
from missions import drawing_up
from missions.models import DeadLetter, Mission
from telemetry.simulator.pack import Pack
from tests.actors import SYSTEM, online
from tests.eventually import eventually_async
from tests.telemetry.robots_talk import work
from tests.telemetry.served import served
from tests.tools import tool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
EXAMPLE = Path(settings.BASE_DIR) / "docs" / "examples" / "robot_http.py"
STEPS = [
    {"command": "navigate", "params": {"place": "Dock A"}},
    {"command": "pick", "params": {"place": "Dock A", "load": "pallet 7"}},
]


@pytest.fixture
def site_url(server):
    return "http://" + urlsplit(server[1]).netloc


def dispatch(robot):
    online("RB-001", at=timezone.now())
    made = drawing_up.draft_mission(title="Fetch", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    mission_actions.dispatch_mission(made, by=SYSTEM)


async def until(ask, worker, clock, wanted):
    """The worker works until `wanted` holds."""

    def look():
        clock.now = timezone.now()
        work(worker, clock)
        return wanted()

    await eventually_async(lambda: ask(look), timeout_s=30, what="what the robot has to do")


@pytest.fixture
async def begin(site_url, token):
    """Start a robot that talks over HTTP, as a process."""
    running = []

    async def example():
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), site_url, "RB-001", token, stdout=asyncio.subprocess.DEVNULL
        )
        running.append(process)

    async def simulated(transport="http", **faults):
        about = {
            "id": "RB-001",
            "token": token,
            "url": f"{site_url}/robot/v1/ws".replace("http", "ws"),
            "transport": transport,
            "seed": 5,
        }
        about |= {"capabilities": ["navigate", "pick"], "places": [["Dock A", 0, 0, 0]], "speed_up": 50}
        pack = Pack([about | {"faults": faults}])
        running.append(asyncio.create_task(pack.run()))

    yield {"example": example, "simulated": simulated}
    for one in running:
        one.cancel() if isinstance(one, asyncio.Task) else one.kill()
    await asyncio.gather(
        *(one if isinstance(one, asyncio.Task) else one.wait() for one in running), return_exceptions=True
    )


@pytest.mark.parametrize("kind", ["example", "simulated"])
async def test_a_robot_over_http_succeeds_in_its_mission_and_stands_when_it_is_stopped(
    kind, begin, robot, ask, worker, clock
):
    await ask(lambda: work(worker, clock))  # the site is up before the robot comes
    await ask(dispatch, robot)
    await begin[kind]()
    await until(ask, worker, clock, lambda: Mission.objects.get().state == "success")
    await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
    await until(ask, worker, clock, lambda: robot.holds.get().confirmed_at)


@pytest.mark.parametrize("transport", ["ws", "http"])
async def test_a_robot_whose_messages_are_lost_repeated_and_mixed_up_succeeds_all_the_same(
    transport, begin, robot, ask, worker, clock
):
    await ask(lambda: work(worker, clock))
    await ask(dispatch, robot)
    await begin["simulated"](transport, drop=0.2, duplicate=0.3, reorder=0.3, delay=0.3, clock=-3600)
    await until(ask, worker, clock, lambda: Mission.objects.get().state == "success")
    assert await ask(DeadLetter.objects.count) == 0


async def test_the_example_stays_away_when_its_token_is_not_valid(site_url, robot):
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), site_url, "RB-001", "drover_wrong", stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert said.decode().endswith("HTTP Error 401: Unauthorized\n"), "a site that begins may be slow first"
    assert process.returncode == 1


def test_the_example_fits_on_a_page():
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    imported = re.findall(r"^import (.*)$", EXAMPLE.read_text(), re.MULTILINE)
    assert {name.strip().split(".")[0] for line in imported for name in line.split(",")} <= sys.stdlib_module_names


PAGE = (Path(settings.BASE_DIR) / "docs" / "protocol.md").read_text()
CURL = re.findall(r"^```sh\n(.*?)^```\n```answer\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CHANGES = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[^\"]*Z")


def curl(command, site_url, token):
    text = command.replace("https://drover.example", site_url).replace("$TOKEN", token)
    done = subprocess.run([*shlex.split(text.replace("\\\n", " ")), "-sS"], capture_output=True, timeout=20, check=True)
    return json.loads(done.stdout)


async def test_the_curl_examples_answer_as_written(site_url, token, ask, robot):
    tool("curl")
    assert len(CURL) >= 5
    stop = ""
    for command, written in CURL:
        if "/commands?" in command:
            await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
        if "/commands/ack" in command:
            command = CHANGES.sub(stop, command)
        got = await asyncio.to_thread(curl, command, site_url, token)
        if got.get("commands"):
            stop = got["commands"][0]["msg_id"]
        blank = [CHANGES.sub("…", json.dumps(json.loads(text))) for text in (written, json.dumps(got))]
        assert blank[0] == blank[1], command


@pytest.mark.parametrize(
    ("head", "body", "answer"),
    [
        ("Content-Length: 999999999", b"", b" 413 "),
        ("Transfer-Encoding: chunked", b"100000\r\n" + b"x" * 0x100000 + b"\r\n", b" 413 "),
        ("Content-Length: 100", b"[", b" 408 "),
        ("Transfer-Encoding: chunked", b"1\r\n[\r\n", b" 408 "),
    ],
)
def test_a_body_that_is_too_large_or_never_ends_is_not_waited_for(head, body, answer, durable):
    """The server reads a body before it calls us: so it is the server that has to lose patience."""
    first = "from fleet.web import patience; patience.BODY_S = 0.3; patience.MAX_BYTES = 2**19"
    with served(first) as (_, port), socket.create_connection(("127.0.0.1", port), timeout=20) as robot:
        robot.sendall(f"POST /robot/v1/events HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + body)
        assert answer in robot.recv(1000)
