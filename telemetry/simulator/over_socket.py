"""A simulated robot's link over a WebSocket: hello, then messages, heartbeats and commands as they come."""

import asyncio
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from telemetry.protocol import HEARTBEAT_S
from telemetry.simulator.link import SILENT_S, Link

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SocketLink(Link):
    """`tell` needs the socket of the link that is up."""

    _socket: ClientConnection

    async def tell(self, type: str, data: dict[str, Any]) -> None:
        if self.is_up:
            try:
                await self._send_all([self._outbox.lossy(type, data, self._faults.clock(datetime.now(UTC)))])
            except WebSocketException:
                self.is_up = False

    async def _send_all(self, texts: list[str]) -> None:
        for text in self._faults.send(texts, time.monotonic()):
            await self._socket.send(text)

    async def _talk(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with connect(
            self._url, additional_headers=headers, open_timeout=5, close_timeout=0.5, compression=None, proxy=None
        ) as socket:
            hello = {
                "type": "hello",
                "v": 1,
                "robot": self._robot,
                "msg_id": uuid.uuid4(),
                "data": {"software": "simulator"},
            }
            await socket.send(_encode(hello).decode())
            async with asyncio.timeout(SILENT_S):
                welcome = _decode(await socket.recv())
            if welcome.get("type") != "welcome":
                raise ConnectionError(f"not welcomed: {welcome}")
            self._socket = socket
            self._begin(welcome)
            try:
                beat_s = welcome.get("heartbeat_s", HEARTBEAT_S)
                await self._first_to_end(self._hear(socket), self._send(), self._beat(beat_s))
            except asyncio.CancelledError:
                socket.transport.close()  # the robot is switched off: it does not wait for the site to say goodbye
                raise

    async def _hear(self, socket: ClientConnection) -> None:
        while True:
            async with asyncio.timeout(SILENT_S):
                frame = _decode(await socket.recv())
            if frame["type"] == "ack":
                self._learn(frame)
                self._news.set()
            elif frame["type"] != "welcome" and self._take(frame):
                self._keep()
                await socket.send(_encode({"type": "ack", "msg_id": frame["msg_id"]}).decode())

    async def _send(self) -> None:
        while True:
            self._keep()
            await self._send_all(self._outbox.due(time.monotonic()))
            self._news.clear()
            try:
                async with asyncio.timeout(0.1 if self._faults.holds_up else 1.0):
                    await self._news.wait()
            except TimeoutError:
                pass  # time to look whether something is overdue

    async def _beat(self, every_s: float) -> None:
        while True:
            await self.tell("robot.heartbeat", {"battery": round(self._battery(), 1)})
            await asyncio.sleep(every_s)
