"""Keeps a partition's backlog at a level, in a process of its own: `python -m bench.backlog 10000 B-001 B-002 …`.

Prints one line when the level is reached for the first time; ends with its standard input.
"""

import asyncio
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

import redis.asyncio
from django.conf import settings

from bench.receipts import message
from telemetry.gateways.intake import Intake, Unavailable
from telemetry.stream import key, partition_of

GROUP = 200  # events stored at once


async def keep(url: str, level: int, robots: list[str], ended: threading.Event) -> None:
    client = redis.asyncio.from_url(url)
    intake, stream = Intake(url), key(partition_of(robots[0]))
    seqs, reached = dict.fromkeys(robots, 0), False
    while not ended.is_set():
        [group] = await client.xinfo_groups(stream)
        if group["lag"] is None or group["lag"] < level + GROUP:
            await asyncio.gather(*(_store(intake, robots[n % len(robots)], seqs) for n in range(GROUP)))
        else:
            if not reached:
                print("there", flush=True)
            reached = True
            await asyncio.sleep(0.02)
    await intake.aclose()
    await client.aclose()


async def _store(intake: Intake, robot: str, seqs: dict[str, int]) -> None:
    """One that changes the robot's row, so that the worker holds it while it applies the batch."""
    seqs[robot] += 1
    mode = ("running", "paused")[seqs[robot] % 2]
    msg_id, raw = message(robot, seqs[robot], "robot.state", {"mode": mode})
    with suppress(Unavailable):  # the disk is busy: the next ones fill it up
        await intake.store(robot, msg_id, raw, datetime.now(UTC))


def main() -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    asyncio.run(keep(settings.REDIS_URL, int(sys.argv[1]), sys.argv[2:], ended))


if __name__ == "__main__":
    main()
