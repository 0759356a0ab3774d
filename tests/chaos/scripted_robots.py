"""Robots without a machine: they say their lines through the real intake, and are heard as alive."""

import asyncio
import json
import uuid
from datetime import UTC, datetime

import redis.asyncio
from django.conf import settings

from fleet.robots import actions as fleet_actions
from missions import actions, drawing_up
from missions.models import Mission
from telemetry import snapshots
from telemetry.gateways.intake import Intake, Unavailable
from tests.actors import SYSTEM, online
from tests.telemetry.robots_talk import message


def fleet_of(site, brand, count: int, steps: int) -> list[Mission]:
    """Robots with one dispatched mission each."""
    missions = []
    for n in range(count):
        robot = f"RB-{n:03}"
        fleet_actions.enrol_robot(id=robot, name=robot, site=site, brand=brand, by=SYSTEM)
        online(robot, at=datetime.now(UTC))
        work = [{"command": "navigate", "params": {"place": "Dock A"}, "timeout_s": 600}] * steps
        pk = drawing_up.draft_mission(title=f"Round {n}", site=site, robot=robot, steps=work, by=SYSTEM)
        actions.dispatch_mission(pk, by=SYSTEM)
        missions.append(Mission.objects.get(pk=pk))
    return missions


class Cast:
    """Sends lines of many robots at once; a line that was not taken is said again, as robots do."""

    def __init__(self) -> None:
        self.said: dict[str, list[dict]] = {}

    def play(self, lines: list[dict]) -> None:
        """Store one line of each robot."""
        asyncio.run(self._play(lines))
        for line in lines:
            self.said.setdefault(line["robot"], []).append(line)

    async def _play(self, lines: list[dict]) -> None:
        intake, live = Intake(settings.REDIS_URL), redis.asyncio.from_url(settings.LIVE_REDIS_URL)
        await asyncio.gather(*(self._store(intake, line) for line in lines))
        await asyncio.gather(*(snapshots.touch(live, line["robot"], datetime.now(UTC)) for line in lines))
        await intake.aclose()
        await live.aclose()

    async def _store(self, intake: Intake, line: dict) -> None:
        raw = json.dumps(line).encode()
        while True:
            try:
                await intake.store(line["robot"], uuid.UUID(line["msg_id"]), raw, datetime.now(UTC))
            except Unavailable:
                await asyncio.sleep(0.1)
                continue
            return

    def next_seq(self, robot: str) -> int:
        return len(self.said.get(robot, ())) + 1

    def state(self, robot: str) -> dict:
        """A line that says nothing new about the mission."""
        seq = self.next_seq(robot)
        return message(robot, "robot.state", seq, data={"mode": ("running", "paused")[seq % 2]})
