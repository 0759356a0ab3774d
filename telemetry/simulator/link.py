"""A simulated robot's side of the socket: connect, hello, send what the outbox holds, obey, come back after a loss."""

import asyncio
import logging
import random
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from telemetry.protocol import COME_BACK, HEARTBEAT_S, REPLACED, UNAUTHORISED
from telemetry.simulator.outbox import Outbox

log = logging.getLogger("robot")
BACKOFF_S = (0.5, 1.0, 2.0, 4.0)  # the last one repeats; ± half
LONG_S = {UNAUTHORISED: 30.0, REPLACED: 10.0}  # after these close codes trying soon is of no use
SILENT_S = 10.0  # without a word from the site the link is taken for dead
REMEMBERED = 500  # commands by msg_id

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Link:
    """Keeps one robot connected. `obey(command)` acts, `greet()` follows each welcome, `battery()` goes with heartbeats.

    `keep()` comes before an acknowledgement or a critical message leaves. `obeyed`: commands by msg_id, the oldest first.
    """

    def __init__(
        self, url: str, token: str, robot: str, outbox: Outbox, *, obey: Callable[[dict[str, Any]], None],
        greet: Callable[[], None], keep: Callable[[], None], battery: Callable[[], float], chance: random.Random,
    ) -> None:  # fmt: skip
        self._url, self._token, self._robot, self._outbox = url, token, robot, outbox
        self._obey, self._greet, self._keep, self._battery, self._chance = obey, greet, keep, battery, chance
        self._socket: ClientConnection | None = None
        self._news = asyncio.Event()
        self.obeyed: OrderedDict[str, None] = OrderedDict()
        self._failures = 0

    @property
    def is_up(self) -> bool:
        return self._socket is not None

    def news(self) -> None:
        """The outbox has something new."""
        self._news.set()

    async def tell(self, type: str, data: dict[str, Any]) -> None:
        """Send something that may be lost."""
        if self._socket is not None:
            try:
                await self._socket.send(self._outbox.lossy(type, data, datetime.now(UTC)))
            except WebSocketException:
                self._socket = None

    async def run(self) -> None:
        """Connect for ever."""
        while True:
            pause = 0.0
            try:
                await self._talk()
            except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
                code = getattr(getattr(error, "rcvd", None), "code", None)
                pause = LONG_S.get(code or 0, 0.0)
                log.warning("%s: link lost (%s)", self._robot, code if code else type(error).__name__)
                if code == COME_BACK:
                    self._failures = 0
            finally:
                self._socket = None
            pause = pause or BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
            self._failures += 1
            await asyncio.sleep(pause * self._chance.uniform(0.5, 1.5))

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
            self._outbox.begin(welcome["session"], welcome["applied"])
            self._greet()
            self._socket, self._failures = socket, 0
            self._news.set()
            work = [self._hear(socket), self._send(socket), self._beat(welcome.get("heartbeat_s", HEARTBEAT_S))]
            tasks = [asyncio.create_task(coroutine) for coroutine in work]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            except asyncio.CancelledError:
                socket.transport.close()  # the robot is switched off: it does not wait for the site to say goodbye
                raise
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self, socket: ClientConnection) -> None:
        while True:
            async with asyncio.timeout(SILENT_S):
                frame = _decode(await socket.recv())
            if frame["type"] == "ack":
                if frame["verdict"] == "seen":
                    self._outbox.applied(frame["applied"])
                elif frame["msg_id"]:
                    self._outbox.acknowledged(frame["msg_id"], frame["verdict"])
                if frame["verdict"] == "invalid":
                    log.error("%s: the site refuses %s: %s", self._robot, frame.get("field"), frame.get("reason"))
                self._news.set()
            elif frame["type"] != "welcome":
                if frame["msg_id"] not in self.obeyed:
                    self.obeyed[frame["msg_id"]] = None
                    while len(self.obeyed) > REMEMBERED:
                        self.obeyed.popitem(last=False)
                    self._obey(frame)
                self._keep()
                await socket.send(_encode({"type": "ack", "msg_id": frame["msg_id"]}).decode())

    async def _send(self, socket: ClientConnection) -> None:
        while True:
            self._keep()
            for text in self._outbox.due(time.monotonic()):
                await socket.send(text)
            self._news.clear()
            try:
                async with asyncio.timeout(1.0):
                    await self._news.wait()
            except TimeoutError:
                pass  # time to look whether something is overdue

    async def _beat(self, every_s: float) -> None:
        while True:
            await self.tell("robot.heartbeat", {"battery": round(self._battery(), 1)})
            await asyncio.sleep(every_s)
