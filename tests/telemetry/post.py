"""A robot that talks over HTTP, for tests: one ASGI call per request."""

import asyncio
import json
import uuid
from typing import Any, NamedTuple

from telemetry import protocol
from telemetry.gateways.http.callers import Callers
from telemetry.gateways.http.requests import robot_http
from telemetry.gateways.links import Links


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def verdicts(self) -> list[str]:
        return [v.get("verdict", v["type"]) for v in self.body["verdicts"]]


class Post:
    """`say` numbers messages by itself; fields given win."""

    def __init__(self, token: str | None, robot: str = "RB-001") -> None:
        self.token, self.robot = token, robot
        self.session, self.seq = 0, {"critical": 0, "lossy": 0}

    async def request(
        self, method: str, path: str, body: bytes | list[bytes] = b"", query: str = "", gone: asyncio.Event | None = None,
        **headers: str,
    ) -> Reply:  # fmt: skip
        """`body` as a list comes in pieces. `gone`: set it to hang up."""
        pieces = [body] if isinstance(body, bytes) else list(body)
        about = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        if isinstance(body, bytes) and "content-length" not in about:
            about["content-length"] = str(len(body))
        if self.token is not None:
            about["authorization"] = f"Bearer {self.token}"
        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in about.items() if v],
        }  # fmt: skip
        heard: list[dict[str, Any]] = []

        async def receive():
            if pieces:
                return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(event):
            heard.append(event)

        await robot_http(scope, receive, send)
        if not heard:
            return Reply(0, {}, None)
        start, content = heard
        answered = {k.decode(): v.decode() for k, v in start["headers"]}
        return Reply(start["status"], answered, json.loads(content["body"]))

    async def post(self, *frames: dict[str, Any] | str, **headers: str) -> Reply:
        """One frame as an object, several as an array; a text goes as it is."""
        if len(frames) == 1 and isinstance(frames[0], str):
            body = frames[0]
        else:
            body = json.dumps(frames[0] if len(frames) == 1 else frames)
        return await self.request("POST", "/robot/v1/events", body.encode(), **headers)

    async def hello(self) -> dict[str, Any]:
        reply = await self.post({"type": "hello", "v": 1, "robot": self.robot, "msg_id": str(uuid.uuid4())})
        assert reply.status == 200, reply
        [welcome] = reply.body["verdicts"]
        self.session, self.seq = welcome["session"], {"critical": 0, "lossy": 0}
        return welcome

    async def poll(self, wait: float | str = 0, session: int | str | None = None, **more: Any) -> Reply:
        mine = self.session if session is None else session
        return await self.request("GET", "/robot/v1/commands", query=f"session={mine}&wait={wait}", **more)

    async def ack(self, *ids: str) -> Reply:
        return await self.request("POST", "/robot/v1/commands/ack", json.dumps({"msg_ids": ids}).encode())

    def message(self, type: str, data: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        row = protocol.TYPES.get(type)
        channel = fields.get("channel") or (row.channel if row else "critical")
        if "seq" not in fields:
            self.seq[channel] += 1
        return {
            "v": 1, "msg_id": str(uuid.uuid4()), "robot": self.robot, "session": self.session, "channel": channel,
            "seq": self.seq[channel], "type": type, "occurred_at": "2026-11-29T10:00:00Z", "data": data or {}, **fields,
        }  # fmt: skip


async def begun(robot: str = "RB-001") -> None:
    """Its poll waits, and the database has been asked."""
    async with asyncio.timeout(5):
        while not (
            (known := Callers._here._callers.get(robot))
            and known.link
            and known.link.poll
            and known.link.poll.asked
            and Links._here._hinted == set()
        ):
            await asyncio.sleep(0)
