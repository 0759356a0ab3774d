"""A gateway that runs in the test's own loop, and a native robot's end of the broker."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from telemetry import protocol
from telemetry.gateways.mqtt.broker import Address, Broker, Incoming
from telemetry.gateways.mqtt.gateway import Gateway, serve
from tests.eventually import PATIENCE_S, eventually_async


@asynccontextmanager
async def running(url: str, name: str = "drover-test") -> AsyncIterator[Gateway]:
    """One that hears the broker."""
    gateway, stopping = Gateway(url, name), asyncio.Event()
    await gateway.start()
    serving = asyncio.create_task(serve(gateway, stopping))
    try:
        await eventually_async(lambda: gateway.broker.hears, what="the gateway hears the broker")
        yield gateway
    finally:
        stopping.set()
        await serving


class Device:
    """A robot's link to the broker: says what it is told to say, keeps what comes."""

    def __init__(self, url: str, robot: str) -> None:
        self.robot, self.session, self.seq = robot, 0, {"critical": 0, "lossy": 0}
        self.frames: list[dict[str, Any]] = []
        self.broker = Broker(Address.of(url), f"robot-{robot}", self._heard)

    def _heard(self, message: Incoming) -> None:
        self.frames.append(json.loads(message.payload))
        self.broker.ack(message)

    async def __aenter__(self) -> "Device":
        self.broker.want({f"drover/v1/{self.robot}/commands": 1})
        self._task = asyncio.create_task(self.broker.run())
        await eventually_async(lambda: self.broker.is_connected, what="the robot is connected")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.end()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def hello(self, token: str) -> dict[str, Any]:
        frame = {"type": "hello", "v": 1, "robot": self.robot, "msg_id": str(uuid.uuid4()), "data": {"token": token}}
        self.publish("events", frame)
        welcome = await self.hear(lambda frame: frame["type"] == "welcome")
        self.session, self.seq = welcome["session"], {"critical": 0, "lossy": 0}
        return welcome

    def publish(self, part: str, frame: dict[str, Any] | bytes, qos: int = 1) -> None:
        payload = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        self.broker.publish(f"drover/v1/{self.robot}/{part}", payload, qos)

    def say(self, type: str, data: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        channel = protocol.TYPES[type].channel if type in protocol.TYPES else "critical"
        self.seq[channel] += 1
        frame = {
            "v": 1, "msg_id": str(uuid.uuid4()), "robot": self.robot, "session": self.session, "channel": channel,
            "seq": self.seq[channel], "type": type, "occurred_at": "2026-11-29T10:00:00Z", "data": data or {}, **fields,
        }  # fmt: skip
        self.publish(*(("events", frame, 1) if channel == "critical" else ("telemetry", frame, 0)))
        return frame

    def acknowledge(self, msg_id: str) -> None:
        self.publish("events", {"type": "ack", "msg_id": msg_id})

    async def hear(self, wanted: Callable[[dict[str, Any]], bool], timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The first frame that is wanted; it and those before it are forgotten."""

        def found() -> dict[str, Any] | None:
            for n, frame in enumerate(self.frames):
                if wanted(frame):
                    del self.frames[: n + 1]
                    return frame
            return None

        return await eventually_async(found, timeout_s, lambda: f"a frame for {self.robot}, of {self.frames}")
