"""One simulated robot as one process: `python -m telemetry.simulator.robot RB-001`, configuration as a JSON line on stdin.

The robot's id is in the command line, so that one robot's process can be found.
"""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from telemetry.simulator.activities import Place
from telemetry.simulator.faults import AWAY_S, FREEZE_S, Faults
from telemetry.simulator.link import Link
from telemetry.simulator.machine import Machine
from telemetry.simulator.memory import Disk, Memory
from telemetry.simulator.outbox import Outbox
from telemetry.simulator.over_http import HttpLink
from telemetry.simulator.over_socket import SocketLink
from telemetry.simulator.work import Event

log = logging.getLogger("robot")
TICK_S = 0.1
MOVING_S, RESTING_S = 0.5, 5.0  # between telemetry messages
KEEP_MOVING_S, KEEP_RESTING_S = 3.0, 60.0  # between writes of the memory for mere movement or drain


class Config(msgspec.Struct):
    """The line on stdin."""

    id: str
    token: str
    url: str
    capabilities: list[str]
    places: list[Place]
    start: str = ""
    speed_up: float = 1.0
    seed: int = 0
    memory: str = ""  # file; without one the robot keeps nothing
    transport: Literal["ws", "http"] = "ws"
    faults: dict[str, float] = {}  # as telemetry.simulator.faults has them


LINKS: dict[str, type[Link]] = {"ws": SocketLink, "http": HttpLink}


class Robot:
    """The machine, its outbox, its link and its disk."""

    def __init__(self, config: Config) -> None:
        self.id = config.id
        self.machine = Machine(
            config.id, config.capabilities, config.places, config.start, config.speed_up, config.seed, time.monotonic()
        )
        self.faults = Faults(config.id, config.faults, config.seed)
        self.machine.fails = self.faults.fails
        self.machine.refuses = lambda: self.faults.happens("refuse_retry")
        self.outbox = Outbox(config.id)
        self.link = LINKS[config.transport](
            config.url, config.token, config.id, self.outbox, obey=self._obey, greet=self._greet, keep=self._keep,
            battery=lambda: self.machine.body.battery, chance=random.Random(f"{config.seed} {config.id} link"),
            faults=self.faults,
        )  # fmt: skip
        self.disk = Disk(config.id, Path(config.memory) if config.memory else None)
        self._telemetry_due = 0.0
        self._keep_due = 0.0  # at once after a change that the site is going to hear of
        self._remember()

    def _remember(self) -> None:
        memory = self.disk.read()
        if memory is None:
            return
        try:
            self.machine.remember(memory.machine)
        except (ValueError, TypeError) as error:
            self.disk.ignore(str(error))
            return
        self.outbox.remember(memory.outbox)
        self.link.obeyed = OrderedDict.fromkeys(memory.obeyed)

    def _keep(self) -> None:
        """Write the memory if it is time to."""
        now = time.monotonic()
        if now >= self._keep_due:
            memory = Memory(self.id, self.machine.memory(), self.outbox.memory(), list(self.link.obeyed))
            self.disk.write(memory)
            working = self.machine.work or self.machine.topping_up
            self._keep_due = now + (KEEP_MOVING_S if working else KEEP_RESTING_S)

    def _say(self, events: list[Event]) -> None:
        for event in self.faults.events(events):
            self.outbox.add(event, self.faults.clock(datetime.now(UTC)))
        if any(self._begins_last(e) for e in events) and self.faults.happens("finish_offline"):
            self.link.leave(AWAY_S)
        if events:
            self._keep_due = 0.0
            self.link.news()

    def _begins_last(self, event: Event) -> bool:
        work = self.machine.work
        first_try = event.type == "mission.step_started" and event.attempt == 1
        return first_try and work is not None and event.step == len(work.steps)

    def _obey(self, command: dict[str, Any]) -> None:
        self._say(self.machine.obey(command, time.monotonic()))
        self._telemetry_due = self._keep_due = 0.0

    def _greet(self) -> None:
        self._say([self.machine.state()])
        self._telemetry_due = 0.0

    async def step(self, now: float) -> None:
        trouble = self.faults.pulse(now)
        if trouble:
            log.warning("%s: %s, as it was told to", self.id, trouble)
            TROUBLES[trouble](self)
        moved = self.machine.body.speed > 0
        self._say(self.machine.step(now))
        self._keep()
        body = self.machine.body
        moving = body.speed > 0
        if self.link.is_up and (now >= self._telemetry_due or moved != moving):
            self._telemetry_due = now + (MOVING_S if moving else RESTING_S)
            pose = {"x": round(body.x, 3), "y": round(body.y, 3), "theta": round(body.theta, 4)}
            rest = {"speed": round(body.speed, 2), "battery": round(body.battery, 1), "place": body.place}
            await self.link.tell("robot.telemetry", pose | rest)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.link.run())
            try:
                while True:
                    await self.step(time.monotonic())
                    await asyncio.sleep(TICK_S)
            except asyncio.CancelledError:
                self._keep_due = 0.0
                self._keep()
                raise


def _crash(robot: Robot) -> None:
    """As a `kill -9`: nothing is kept that was not kept before."""
    os.kill(os.getpid(), signal.SIGKILL)


def _freeze(robot: Robot) -> None:
    """The whole process stands still: no heartbeat, no acknowledgement, no movement."""
    time.sleep(FREEZE_S)


def _forget(robot: Robot) -> None:
    """As a `kill -9` of a robot that has no disk."""
    robot.disk.wipe()
    _crash(robot)


TROUBLES: dict[str, Callable[[Robot], None]] = {
    "crash": _crash,
    "freeze": _freeze,
    "forget": _forget,
}


async def _main(config: Config) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await Robot(config).run()


def main() -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    if os.environ.get("LOG_FORMAT") == "json":
        from fleet import logs  # with much of Django, which a robot needs for nothing else

        logging.getLogger().handlers[0].setFormatter(logs.Json())
    config = msgspec.json.decode(sys.stdin.readline(), type=Config)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_main(config))
    os._exit(0)  # all is kept; a whole pack that takes its interpreters apart needs longer than it is given to stop


if __name__ == "__main__":
    main()
