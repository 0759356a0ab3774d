"""Drover's own simulated robots over MQTT, many in one process: `python -m tests.peers.native_robots`, JSON on stdin.

The same machine and outbox as over the other transports; each robot has a connection to the broker of its own.
"""

import asyncio
import sys
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from telemetry.gateways.mqtt.broker import Address, Away, Broker, Incoming
from telemetry.protocol import HEARTBEAT_S
from telemetry.simulator import robot as simulated
from telemetry.simulator.link import SILENT_S, Link, LinkLost

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class MqttLink(Link):
    """Over a broker."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._broker = Broker(Address.of(self._url), f"robot-{self._robot}", self._heard)
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def _heard(self, message: Incoming) -> None:
        self._frames.put_nowait(_decode(message.payload))
        self._broker.ack(message)

    async def run(self) -> None:
        self._broker.want({f"drover/v1/{self._robot}/commands": 1})
        connection = asyncio.create_task(self._broker.run())
        try:
            await super().run()
        finally:
            connection.cancel()

    def _publish(self, part: str, payload: bytes, qos: int = 1) -> None:
        with suppress(Away):  # it is said again
            self._broker.publish(f"drover/v1/{self._robot}/{part}", payload, qos)

    async def tell(self, type: str, data: dict[str, Any]) -> None:
        if self.is_up:
            self._publish("telemetry", self._outbox.lossy(type, data, datetime.now(UTC)).encode(), 0)

    async def _next(self) -> dict[str, Any]:
        async with asyncio.timeout(SILENT_S):
            return await self._frames.get()

    async def _talk(self) -> None:
        if not self._broker.is_connected:
            raise LinkLost("the broker is away")
        hello = {"type": "hello", "v": 1, "robot": self._robot, "msg_id": uuid.uuid4(), "data": {"token": self._token}}
        self._publish("events", _encode(hello))
        while (welcome := await self._next())["type"] != "welcome":
            pass
        self._begin(welcome)
        await self._first_to_end(self._hear(), self._send(), self._beat(), self._while_connected())

    async def _while_connected(self) -> None:
        while self._broker.is_connected:
            await asyncio.sleep(0.2)
        raise LinkLost("the broker is away")

    async def _hear(self) -> None:
        while True:
            frame = await self._next()
            if frame["type"] == "close":
                raise LinkLost(frame["reason"], frame["code"])
            if frame["type"] == "ack":
                self._learn(frame)
                self._news.set()
            elif frame["type"] != "welcome" and self._take(frame):
                self._publish("events", _encode({"type": "ack", "msg_id": frame["msg_id"]}))

    async def _send(self) -> None:
        while True:
            for text in self._outbox.due(time.monotonic()):
                self._publish("events", text.encode())
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._news.wait()

    async def _beat(self) -> None:
        while True:
            await self.tell("robot.heartbeat", {"battery": round(self._battery(), 1)})
            await asyncio.sleep(HEARTBEAT_S)


async def _main(configs: list[simulated.Config]) -> None:
    simulated.LINKS["ws"] = MqttLink
    async with asyncio.TaskGroup() as tasks:
        for config in configs:
            tasks.create_task(simulated.Robot(config).run())
        print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.stdin.readline(), type=list[simulated.Config])))
