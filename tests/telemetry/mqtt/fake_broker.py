"""A broker in memory, and a gateway before it: what is heard, published and acknowledged is there to be looked at."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from telemetry.gateways.intake import Unavailable
from telemetry.gateways.mqtt import words
from telemetry.gateways.mqtt.broker import Away, Incoming
from telemetry.gateways.mqtt.gateway import Gateway
from telemetry.gateways.mqtt.sharing import Share

URL = "mqtt://127.0.0.1:1"


class FakeBroker:
    def __init__(self) -> None:
        self.hears, self.catches_up, self.why, self.connection = True, False, "", 1
        self.is_refused = False
        self.published: list[tuple[str, bytes, int]] = []
        self.acked: list[int] = []
        self.dropped: list[str] = []
        self.filters: dict[str, int] = {}
        self.commands: set[str] = set()

    def want(self, filters, commands=()):
        self.filters, self.commands = dict(filters), set(commands)

    def publish(self, topic, payload, qos):
        if not self.hears:
            raise Away("away")
        self.published.append((topic, payload, qos))

    def ack(self, message):
        if message.qos:
            self.acked.append(message.mid)

    def drop(self, topic):
        self.dropped.append(topic)

    async def run(self):
        await asyncio.Event().wait()

    async def end(self):
        pass


class Stage:
    """A gateway and its broker. `tell` is a robot's message; it is heard before `tell` returns, if it can be."""

    def __init__(self, name: str = "drover-one", **options: Any) -> None:
        self.gateway = Gateway(URL, name, share=Share(name, 8, **{"lease_s": 3600, **options}))
        self.broker = self.gateway.broker = FakeBroker()
        self._mid = 0

    def talk(self, robot: str = "RB-009") -> Any:
        return self.gateway.talks[robot]

    @property
    def conversation(self) -> Any:
        return self.talk()._conversation

    def tell(self, *effects: Any, part: str = "events", address: str = "A9", retained: bool = False) -> int:
        """The number under which it is acknowledged."""
        return self.raw(json.dumps(effects).encode(), part=part, address=address, retained=retained)

    def raw(
        self, payload: bytes, *, part: str = "events", address: str = "A9", retained: bool = False, topic=""
    ) -> int:
        self._mid += 1
        topic = topic or f"scripted/{address}/{part}"
        qos = 1 if part == "events" else 0
        self.gateway.heard(Incoming(topic, payload, qos, retained, self._mid, 1))
        return self._mid


async def until(predicate):
    """It comes about by what is under way; nobody waits for a clock."""
    for _ in range(10_000):
        if found := predicate():
            return found
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come about")


async def begun(stage: Stage) -> Any:
    """Its link, once there is one."""
    stage.tell(["begin"])
    return await until(lambda: stage.talk().link)


def breaks(stage: Stage, monkeypatch) -> tuple[list[bool], list[Any]]:
    """The durable Redis takes nothing until the first list is emptied; the second tells what was asked of it."""
    asked, intake = [], stage.gateway.links.intake
    works, down = intake.store, [True]

    async def store(robot, msg_id, raw, received_at):
        asked.append(received_at)
        if down:
            raise Unavailable("down")
        return await works(robot, msg_id, raw, received_at)

    monkeypatch.setattr(intake, "store", store)
    monkeypatch.setattr(words, "RETRY_S", (0.01,))
    return down, asked


@asynccontextmanager
async def on_stage(name: str = "drover-one", **options: Any) -> AsyncIterator[Stage]:
    stage = Stage(name, **options)
    await stage.gateway.start()
    stage.gateway.links.beats.deaf = False
    try:
        yield stage
    finally:
        await stage.gateway.end()
