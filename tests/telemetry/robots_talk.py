"""What robots would say, put into the streams through the real intake; and time that only a test moves."""

import asyncio
import json
import uuid
from datetime import UTC, datetime, timedelta

from django.conf import settings

from missions.models import Mission
from telemetry import stream
from telemetry.gateways.intake import Intake
from telemetry.worker.loop import Worker

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def message(robot: str, type: str, seq: int = 1, *, session: int = 1, mission: Mission | None = None, **over) -> dict:
    """A critical message as robots write it. `over` sets any field, `data` among them."""
    dispatch = {"mission": str(mission.pk), "dispatch_no": mission.dispatch_no} if mission else {}
    return {
        "v": 1, "msg_id": str(uuid.uuid4()), "robot": robot, "session": session, "channel": "critical", "seq": seq,
        "type": type, "occurred_at": "2026-11-29T10:00:00Z", "data": {}, **dispatch, **over,
    }  # fmt: skip


def stored(durable, robot: str = "RB-001") -> list[dict]:
    """What lies in the stream of this robot."""
    entries = durable.xrange(stream.key(stream.partition_of(robot)))
    return [json.loads(fields[b"raw"]) for _, fields in entries if fields[b"robot"] == robot.encode()]


def say(*messages: dict | bytes, robot: str = "RB-001", at: datetime | None = None) -> list[str]:
    """Store messages one after the other; the answers."""

    async def work() -> list[str]:
        intake = Intake(settings.REDIS_URL)
        answers = []
        for m in messages:
            raw = m if isinstance(m, bytes) else json.dumps(m).encode()
            who, msg_id = (robot, uuid.uuid4()) if isinstance(m, bytes) else (m["robot"], uuid.UUID(m["msg_id"]))
            answers.append(await intake.store(who, msg_id, raw, at or NOW))
        await intake.aclose()
        return answers

    return asyncio.run(work())


def whole_life(mission: Mission, steps: int, *, seq: int = 1, session: int = 1) -> list[dict]:
    """Accepted, every step completed, finished; in order."""
    robot = mission.robot_id
    said = [message(robot, "mission.accepted", seq, session=session, mission=mission)]
    for n in range(1, steps + 1):
        said.append(
            message(robot, "mission.step_completed", seq + n, session=session, mission=mission, step=n, attempt=1)
        )
    return [*said, message(robot, "mission.finished", seq + steps + 1, session=session, mission=mission)]


class Clock:
    """Time for `Worker.step`: advances only when told."""

    def __init__(self) -> None:
        self.now, self.tick = NOW, 1000.0

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.tick += seconds


def work(worker: Worker, clock: Clock) -> int:
    """Step until nothing is found; how many steps found something."""
    for steps in range(200):
        if not worker.step(clock.now, clock.tick):
            return steps
    raise AssertionError("the worker finds work for ever")
