"""The baseline: no more than a socket, a JSON parser and the same write. Nothing is checked, nobody is who they say.

`python -m bench.sinks mqtt://…` takes all robots' telemetry off a broker with paho; `application` is for daphne, over
WebSocket and HTTP. Each message becomes a SET of the robot's snapshot and a dirty signal, as many as come in one pipeline.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from django.conf import settings
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

AT_ONCE = 200  # writes in a pipeline, as Drover has it
WELCOME = json.dumps({"type": "welcome", "v": 1, "session": 1, "applied": {}})


def calls(pipe: Any, robot: str, told: Any) -> None:
    """What a message leaves."""
    pipe.set(f"last:{robot}", json.dumps(told))
    pipe.publish("dirty", f'[["robot","{robot}","live",{int(time.time() * 1000)}]]')


# --- MQTT


def over_mqtt(url: str) -> None:
    """paho as its documentation shows it; in its own thread it would only wait for this one."""
    live, where = redis.from_url(settings.LIVE_REDIS_URL), urlsplit(url)
    client = paho.Client(CallbackAPIVersion.VERSION2, "bench-sink")
    waiting: list[tuple[str, Any]] = []

    def heard(_client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        levels = message.topic.split("/")
        told = json.loads(message.payload)
        if levels[-1] == "telemetry":
            waiting.append((levels[2], told["data"]))
        elif levels[-1] == "state":
            waiting.append((levels[3], told["agvPosition"]))
        elif levels[-1] == "events":  # hello
            client.publish(f"drover/v1/{levels[2]}/commands", WELCOME)

    client.on_message = heard
    client.on_connect = lambda c, *_: c.subscribe([("drover/v1/+/+", 0), ("uagv/v2/+/+/state", 0)])
    client.on_subscribe = lambda *_: live.set("sink", "ready")
    client.connect(where.hostname or "", where.port or 1883)
    while True:
        client.loop(0.05 if not waiting else 0.0)
        if waiting:
            pipe = live.pipeline(transaction=False)
            for robot, told in waiting[:AT_ONCE]:
                calls(pipe, robot, told)
            pipe.execute()
            del waiting[:AT_ONCE]


# --- daphne


class Writer:
    """One for the process."""

    def __init__(self) -> None:
        self._live = redis.asyncio.from_url(settings.LIVE_REDIS_URL)
        self._waiting: list[tuple[str, Any]] = []
        self._some = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def put(self, robot: str, told: Any) -> None:
        self._waiting.append((robot, told))
        self._some.set()

    async def _run(self) -> None:
        while await self._some.wait():
            async with self._live.pipeline(transaction=False) as pipe:
                for robot, told in self._waiting[:AT_ONCE]:
                    calls(pipe, robot, told)
                del self._waiting[:AT_ONCE]
                await pipe.execute()
            if not self._waiting:
                self._some.clear()


_writer: Writer | None = None


async def application(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """ASGI."""
    global _writer
    _writer = _writer or Writer()
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            told = json.loads(event.get("text") or event["bytes"])
            if told["type"] == "hello":
                await send({"type": "websocket.send", "text": WELCOME})
            else:
                _writer.put(told["robot"], told["data"])
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    told = json.loads(body)
    if isinstance(told, dict):
        verdicts = [json.loads(WELCOME)]
    else:
        for one in told:
            _writer.put(one["robot"], one["data"])
        verdicts = [{"msg_id": one["msg_id"], "verdict": "seen"} for one in told]
    answer = json.dumps({"verdicts": verdicts}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    over_mqtt(sys.argv[1])
