"""A robot's end of the socket, for tests: says what it is told to say and hears what comes."""

import asyncio
import json
import uuid
from typing import Any

from channels.testing import WebsocketCommunicator

from telemetry import protocol
from telemetry.gateways.ws import robot_socket


class Wire:
    """One connection. `say` numbers messages by itself; fields given win."""

    def __init__(self, token: str | None, robot: str = "RB-001") -> None:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.socket = WebsocketCommunicator(robot_socket, "/robot/v1/ws", headers=headers)
        self.robot, self.session, self.seq = robot, 0, {"critical": 0, "lossy": 0}

    async def __aenter__(self) -> "Wire":
        assert (await self.socket.connect(timeout=5))[0]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.disconnect(timeout=5)

    async def hello(self) -> dict[str, Any]:
        await self.send({"type": "hello", "v": 1, "robot": self.robot, "msg_id": str(uuid.uuid4()), "data": {}})
        welcome = await self.hear()
        assert welcome["type"] == "welcome"
        self.session = welcome["session"]
        return welcome

    async def send(self, frame: dict[str, Any] | str) -> None:
        await self.socket.send_to(text_data=frame if isinstance(frame, str) else json.dumps(frame))

    def message(self, type: str, data: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        row = protocol.TYPES.get(type)
        channel = fields.get("channel") or (row.channel if row else "critical")
        if "seq" not in fields:
            self.seq[channel] += 1
        return {
            "v": 1, "msg_id": str(uuid.uuid4()), "robot": self.robot, "session": self.session, "channel": channel,
            "seq": self.seq[channel], "type": type, "occurred_at": "2026-11-29T10:00:00Z", "data": data or {}, **fields,
        }  # fmt: skip

    async def say(self, type: str, data: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        message = self.message(type, data, **fields)
        await self.send(message)
        return message

    async def hear(self, timeout_s: float = 5) -> dict[str, Any]:
        return json.loads(await self.socket.receive_from(timeout=timeout_s))

    async def closed(self, timeout_s: float = 5) -> int:
        """The code it is closed with; frames before it are passed over."""
        while (event := await self.socket.receive_output(timeout=timeout_s))["type"] != "websocket.close":
            pass
        return event["code"]

    async def silent(self) -> bool:
        """Nothing is waiting, and nothing comes of what is under way."""
        for _ in range(20):
            await asyncio.sleep(0)
        return await self.socket.receive_nothing(timeout=0.05, interval=0.01)
