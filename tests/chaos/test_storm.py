"""A thousand robots come back at once, each with something to say: all are welcomed, all is applied once, stop works meanwhile."""

import asyncio
import json
import time
import uuid
from collections import Counter
from datetime import UTC, datetime

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from fleet.models import Command
from fleet.robots import actions as fleet_actions
from fleet.robots import credentials
from missions import invariants
from missions.models import DeadLetter
from telemetry.models import ProcessedMessage, Watermark
from tests.actors import SYSTEM
from tests.chaos.machine import is_busy
from tests.chaos.person import Person
from tests.eventually import eventually
from tests.telemetry.robots_talk import message

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

ROBOTS, BUFFERED = 1000, 5
WELCOME_S, STOP_S = 60, 3.0


class Returning:
    """A robot that was away: hello, then what it kept, until each message is acknowledged."""

    def __init__(self, robot: str, token: str, url: str) -> None:
        self.robot, self.token, self.url = robot, token, url
        self.kept: list[str] = []
        self.welcome_at = self.done_at = 0.0
        self.commands: list[str] = []
        self.trouble = ""

    async def run(self, stay: asyncio.Event) -> None:
        while not self.done_at:
            try:
                await self._talk(stay)
            except (OSError, TimeoutError, WebSocketException) as error:  # the door is crowded
                self.trouble = repr(error)
                await asyncio.sleep(0.5)

    async def _talk(self, stay: asyncio.Event) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with connect(
            self.url, additional_headers=headers, open_timeout=30, compression=None, proxy=None
        ) as socket:
            await socket.send(json.dumps({"type": "hello", "v": 1, "robot": self.robot, "msg_id": str(uuid.uuid4())}))
            welcome = json.loads(await socket.recv())
            self.welcome_at = self.welcome_at or time.monotonic()
            if not self.kept:
                self.kept = [
                    json.dumps(message(self.robot, "robot.state", n + 1, session=welcome["session"],
                               data={"mode": ("idle", "paused")[n % 2]}))
                    for n in range(BUFFERED)
                ]  # fmt: skip
            open_ids = {json.loads(raw)["msg_id"] for raw in self.kept}
            for raw in self.kept:
                await socket.send(raw)
            while open_ids:
                self._hear(json.loads(await asyncio.wait_for(socket.recv(), 30)), open_ids)
            self.done_at = time.monotonic()
            while not stay.is_set():
                try:
                    self._hear(json.loads(await asyncio.wait_for(socket.recv(), 0.5)), open_ids)
                except TimeoutError:
                    continue

    def _hear(self, frame: dict, open_ids: set[str]) -> None:
        if frame["type"] == "ack" and frame["verdict"] in ("stored", "duplicate"):
            open_ids.discard(frame["msg_id"])
        elif frame["type"].startswith("robot."):
            self.commands.append(frame["type"])


def test_a_thousand_robots_that_come_back_at_once(site, brand, supervisor, start_worker, web, capsys):
    robots = []
    for n in range(ROBOTS):
        pk = f"RB-{n:04}"
        fleet_actions.enrol_robot(id=pk, name=pk, site=site, brand=brand, by=SYSTEM)
        token = credentials.issue_credential(pk, by=SYSTEM)
        robots.append(Returning(pk, token, f"ws://127.0.0.1:{web}/robot/v1/ws"))
    start_worker()
    person, stops = Person(supervisor, web), []
    assert person.ask("/fleet/")[0] == 200  # warm
    busy, began, wall = is_busy(), time.monotonic(), datetime.now(UTC)

    async def storm() -> None:
        stay = asyncio.Event()
        tasks = [asyncio.create_task(robot.run(stay)) for robot in robots]
        while not all(robot.done_at for robot in robots):
            status, _, took = await asyncio.to_thread(person.ask, "/fleet/stop", f"robots={robots[0].robot}".encode())
            stops.append((status, took))
            await asyncio.sleep(0.2)
            done = sum(bool(robot.done_at) for robot in robots)
            assert time.monotonic() - began < 4 * WELCOME_S, (
                f"{done} of {ROBOTS} are served; {Counter(r.trouble for r in robots)}"
            )
        ends = time.monotonic() + 10
        while "robot.stop" not in robots[0].commands and time.monotonic() < ends:
            await asyncio.sleep(0.1)
        stay.set()
        await asyncio.gather(*tasks)

    asyncio.run(storm())
    eventually(
        lambda: ProcessedMessage.objects.filter(session__gt=0).count() == ROBOTS * BUFFERED, 60, "all is applied"
    )
    applied_s = (ProcessedMessage.objects.latest("applied_at").applied_at - wall).total_seconds()
    welcomed_s = max(robot.welcome_at for robot in robots) - began
    stored_s = max(robot.done_at for robot in robots) - began
    slowest = max(took for _, took in stops)
    with capsys.disabled():
        print(
            f"\n  {ROBOTS} robots, {BUFFERED} messages each: all welcome after {welcomed_s:.1f} s, stored after {stored_s:.1f} s,"
            f" applied after {applied_s:.1f} s; stop answered in {slowest * 1000:.0f} ms at worst of {len(stops)}"
        )
    said = Counter((robot.robot, json.loads(raw)["msg_id"]) for robot in robots for raw in robot.kept)
    rows = ProcessedMessage.objects.filter(session__gt=0).values_list("robot_id", "msg_id")
    assert Counter((robot, str(msg_id)) for robot, msg_id in rows) == said
    assert set(Watermark.objects.values_list("applied_seq", flat=True)) == {BUFFERED}
    assert not DeadLetter.objects.exists()
    assert {status for status, _ in stops} == {200}
    assert "robot.stop" in robots[0].commands
    assert Command.objects.filter(kind="robot.stop", robot=robots[0].robot, sent_at__isnull=False).exists()
    assert invariants.check() == []
    if not busy:
        assert welcomed_s < WELCOME_S
        assert slowest < STOP_S
