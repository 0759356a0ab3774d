"""Simulated robots, several in one process, that note what they said and what was acknowledged to them.

`python -m tests.chaos.noting_robots <file>`, configurations as one JSON list on stdin. A line of the file is JSON:
["said", robot, msg_id, type, mission, step, attempt, data] or ["stored", robot, msg_id]. What is noted survives a SIGKILL.
"""

import asyncio
import json
import os
import sys

import msgspec

from telemetry.simulator import link, outbox, over_http, over_socket
from telemetry.simulator.robot import Config, Robot

link.BACKOFF_S = (0.2, 0.5, 1.0)
link.SILENT_S = over_http.SILENT_S = over_socket.SILENT_S = 4.0

file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(*line: object) -> None:
    os.write(file, json.dumps(line, default=str).encode() + b"\n")


class NotingOutbox(outbox.Outbox):
    def _keep(self, event, at) -> None:
        super()._keep(event, at)
        about = (event.type, event.mission, event.step, event.attempt, event.data)
        note("said", self._robot, self._kept[-1].msg_id, *about)

    def acknowledged(self, msg_id: str, verdict: str) -> None:
        note("stored" if verdict in ("stored", "duplicate") else verdict, self._robot, msg_id)
        super().acknowledged(msg_id, verdict)


async def main(configs: list[Config]) -> None:
    async with asyncio.TaskGroup() as robots:
        for config in configs:
            robots.create_task(Robot(config).run())


if __name__ == "__main__":
    import telemetry.simulator.robot

    telemetry.simulator.robot.Outbox = NotingOutbox
    asyncio.run(main(msgspec.json.decode(sys.stdin.readline(), type=list[Config])))
