"""Messages, above all receipts, as robots send them, put into the streams through the real intake."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from telemetry.gateways.intake import Intake

STEPS = 5  # of every mission


def message(robot: str, seq: int, type: str, data: dict[str, Any], **more: Any) -> tuple[uuid.UUID, bytes]:
    """(msg_id, text) of a critical message, said now."""
    msg_id = uuid.uuid4()
    line = {
        "v": 1, "msg_id": str(msg_id), "robot": robot, "session": 1, "channel": "critical", "seq": seq, "type": type,
        "occurred_at": datetime.now(UTC).isoformat(), "data": data, **more,
    }  # fmt: skip
    return msg_id, json.dumps(line).encode()


def receipt(robot: str, mission: uuid.UUID, n: int, seq: int) -> tuple[uuid.UUID, bytes]:
    """The n-th word about a mission: accepted, completed 1 … STEPS, finished."""
    kind = "accepted" if n == 0 else "finished" if n > STEPS else "step_completed"
    step, data = ({"step": n, "attempt": 1}, {"result": "done"}) if kind == "step_completed" else ({}, {})
    return message(robot, seq, f"mission.{kind}", data, mission=str(mission), dispatch_no=1, **step)


def store_all(line: Callable[[str, int], tuple[uuid.UUID, bytes]], robots: list[str]) -> int:
    """Every robot's receipts into the streams, interleaved as robots are."""

    async def work() -> int:
        intake, count = Intake(settings.REDIS_URL), 0
        for n in range(STEPS + 2):
            lines = [(robot, *line(robot, n)) for robot in robots]
            await asyncio.gather(*(intake.store(robot, msg, raw, datetime.now(UTC)) for robot, msg, raw in lines))
            count += len(lines)
        await intake.aclose()
        return count

    return asyncio.run(work())


def one_by_one(missions: dict[str, uuid.UUID], line: Callable[..., tuple[uuid.UUID, bytes]]) -> Iterator[Any]:
    """Coroutines that store one receipt each."""

    async def store(robot: str, msg_id: uuid.UUID, raw: bytes) -> None:
        intake = Intake(settings.REDIS_URL)
        await intake.store(robot, msg_id, raw, datetime.now(UTC))
        await intake.aclose()

    for n in range(STEPS + 2):
        for robot, mission in missions.items():
            yield store(robot, *line(robot, mission, n))
