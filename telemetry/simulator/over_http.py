"""A simulated robot's link over HTTP: hello, one request after the other with what it has to say, a long poll beside it."""

import asyncio
import json
import time
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from telemetry.protocol import HEARTBEAT_S, REPLACED, UNAUTHORISED
from telemetry.simulator.link import SILENT_S, Link, LinkLost

WAIT_S = 20  # of one poll
EVERY_S = 0.5  # between two requests with telemetry; what is critical goes at once
LOSSY_KEPT = 20  # older telemetry makes room
CODES = {401: UNAUTHORISED, 409: REPLACED}


class HttpLink(Link):
    """`url`: as of the WebSocket, or the site's address."""

    def __init__(self, url: str, *args: Any, **callbacks: Any) -> None:
        super().__init__(url, *args, **callbacks)
        parts = urlsplit(url)
        self._tls = parts.scheme in ("wss", "https")
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._lossy: deque[str] = deque(maxlen=LOSSY_KEPT)

    async def tell(self, type: str, data: dict[str, Any]) -> None:
        if self.is_up:
            self._lossy.append(self._outbox.lossy(type, data, self._faults.clock(datetime.now(UTC))))

    async def _talk(self) -> None:
        hello = {"type": "hello", "v": 1, "robot": self._robot, "msg_id": str(uuid.uuid4())}
        [welcome] = (await self._post([json.dumps(hello)]))["verdicts"]
        if welcome.get("type") != "welcome":
            raise LinkLost(f"not welcomed: {welcome}")
        self._lossy.clear()
        self._begin(welcome)
        await self._first_to_end(self._say(welcome.get("heartbeat_s", HEARTBEAT_S)), self._poll(welcome["session"]))

    async def _say(self, beat_s: float) -> None:
        beat_at = 0.0
        while True:
            self._keep()
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + beat_s
                await self.tell("robot.heartbeat", {"battery": round(self._battery(), 1)})
            texts = self._faults.send([*self._outbox.due(now), *self._lossy], now)
            self._lossy.clear()
            self._news.clear()
            if texts:
                answer = await self._post(texts)
                for verdict in answer["verdicts"]:
                    self._learn(verdict)
                await asyncio.sleep(answer.get("retry_after_s", 0))
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _poll(self, session: int) -> None:
        while True:
            path = f"/robot/v1/commands?session={session}&wait={WAIT_S}"
            answer = await self._request("GET", path, "", WAIT_S + SILENT_S)
            ids = [c["msg_id"] for c in answer["commands"] if self._take(c)]
            if ids:
                self._keep()
                await self._request("POST", "/robot/v1/commands/ack", json.dumps({"msg_ids": ids}), SILENT_S)
            elif not answer["commands"] and answer.get("reason"):
                raise LinkLost(answer["reason"])

    async def _post(self, texts: list[str]) -> dict[str, Any]:
        return await self._request("POST", "/robot/v1/events", f"[{','.join(texts)}]", SILENT_S)

    async def _request(self, method: str, path: str, body: str, limit_s: float) -> dict[str, Any]:
        """One request on a connection of its own: 1.0, so the answer ends with it. Raises `LinkLost`."""
        content = body.encode()
        head = (
            f"{method} {path} HTTP/1.0\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls or None)
            try:
                writer.write(head.encode() + content)
                await writer.drain()
                answer = await reader.read()
            finally:
                writer.transport.abort()  # the answer is whole, or nobody waits for it
        about, _, text = answer.partition(b"\r\n\r\n")
        try:
            status, told = int(about.split()[1]), json.loads(text)
        except (IndexError, ValueError):
            raise LinkLost(f"not an answer: {about[:80]!r}") from None
        if status in (429, 503) and "verdicts" in told:
            return told | {"retry_after_s": 2.0}
        if status != 200:
            raise LinkLost(f"{status} {told.get('detail')}", CODES.get(status, 0))
        return told
