"""From the click on Stop to the command at the robot, with a full partition, and with both Redis frozen.

A real web process, a real worker, robots on real sockets. Each click is an HTTP POST with session and CSRF token, on a
fixed schedule whatever became of the one before; it counts until the first frame of that robot arrives.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.cookies import SimpleCookie
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from websockets.asyncio.client import connect

from bench import served
from bench.ground import BY, analyse, fleet_of, stores_in_words
from bench.report import Row, machine, row
from fleet.people.actions import grant_access
from fleet.robots.credentials import issue_credential
from fleet.running.tether import tied
from telemetry.stream import partition_of

EVERY_S = 0.25  # a click
PASSWORD = "bench " * 3


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own."""
    clicked, waiting, clicks, frozen_clicks = (2, 200, 4, 2) if quick else (8, 10_000, 240, 30)
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    tokens = _fleet(clicked)
    analyse()
    connection.close()
    with tempfile.TemporaryDirectory() as static:
        environment = {**os.environ, "STATIC_ROOT": static}
        collect = [sys.executable, served.MANAGE, "collectstatic", "--noinput", "-v0"]
        subprocess.run(collect, env=environment, check=True)
        with served.daphne("fleet.asgi:application", STATIC_ROOT=static) as (port, _), served.worker():
            quiet, busy, frozen = asyncio.run(_measure(port, tokens, waiting, clicks, frozen_clicks))
    about |= {"waiting": waiting, "clicks": clicks, "robots": clicked, "one click every (s)": EVERY_S}
    return about, [
        row("click to command, p50", median(busy), "ms", baseline=median(quiet)),
        row("click to command, p99", _p99(busy), "ms", baseline=_p99(quiet), below=100),
        row("click to command, worst", max(busy), "ms", baseline=max(quiet)),
        row("both Redis frozen, p50", median(frozen), "ms", baseline=median(quiet)),
        row("both Redis frozen, worst", max(frozen), "ms", baseline=max(quiet), below=2000),
    ]


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def _fleet(clicked: int) -> dict[str, str]:
    """A person who may stop, and so many robots whose partition is the same; robot → token."""
    _site, robots = fleet_of(clicked * settings.PARTITIONS * 2)
    partition = partition_of(robots[0])
    chosen = [robot for robot in robots if partition_of(robot) == partition][:clicked]
    grant_access(User.objects.create_user("bench", password=PASSWORD), role="supervisor", all_sites=True, by=BY)
    return {robot: issue_credential(robot, by=BY) for robot in chosen}


# --- what is in the way


@asynccontextmanager
async def _backlog(waiting: int, robots: list[str]) -> AsyncIterator[None]:
    """The partition is full, and is filled up again as the worker empties it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.backlog", str(waiting), *robots, cwd=settings.BASE_DIR,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "fleet.settings"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=tied(),
    )  # fmt: skip
    try:
        assert process.stdout and process.stdin
        if await process.stdout.readline() != b"there\n":
            raise RuntimeError("the backlog was not reached")
        yield
        if process.returncode is not None:
            raise RuntimeError("the backlog was not kept up")
    finally:
        process.stdin.close()
        await process.wait()


@contextmanager
def _frozen() -> Iterator[None]:
    """Both Valkeys take connections and answer nothing."""
    pids = []
    for url in (settings.REDIS_URL, settings.LIVE_REDIS_URL):
        with redis.from_url(url) as client:
            pids.append(int(client.info("server")["process_id"]))
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


# --- clicks


async def _measure(port: int, tokens: dict[str, str], waiting: int, clicks: int, frozen_clicks: int) -> Any:
    robots = [Robot(name, token) for name, token in tokens.items()]
    tasks = [asyncio.create_task(robot.run(port)) for robot in robots]
    await asyncio.gather(*(robot.there.wait() for robot in robots))
    person = Person(port)
    await person.sign_in()
    names = list(tokens)
    await _click(person, robots, 4)  # warm
    quiet = await _click(person, robots, clicks // 2)
    async with _backlog(waiting, names):
        busy = await _click(person, robots, clicks)
    with _frozen():
        frozen = await _click(person, robots, frozen_clicks, every_s=1.03)  # not in step with the look once a second
    if any(task.done() for task in tasks):
        raise RuntimeError("a robot lost its link")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return quiet, busy, frozen


async def _click(person: "Person", robots: "list[Robot]", clicks: int, every_s: float = EVERY_S) -> list[float]:
    """Milliseconds from each click to its frame."""
    loop = asyncio.get_running_loop()
    began, times = loop.time(), []
    for n in range(clicks):
        await asyncio.sleep(began + n * every_s - loop.time())
        times.append(asyncio.create_task(_one(person, robots[n % len(robots)])))
    return await asyncio.gather(*times)


async def _one(person: "Person", robot: "Robot") -> float:
    while not robot.stops.empty():  # a stop that was sent ahead of its hold comes twice
        robot.stops.get_nowait()
    clicked = time.perf_counter()
    answer = asyncio.create_task(person.post(f"/fleet/robots/{robot.name}/stop"))
    async with asyncio.timeout(20):
        arrived = await robot.stops.get()
        status = await answer
    if status != 200:
        raise RuntimeError(f"a stop was answered with {status}")
    return (arrived - clicked) * 1e3


class Person:
    """Signed in, with cookies and token, as a browser is."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, dict[str, str]()

    async def sign_in(self) -> None:
        await self.request("GET", "/login/")
        status = await self.post("/login/", username="bench", password=PASSWORD)
        if status != 302:
            raise RuntimeError(f"signing in was answered with {status}")

    async def post(self, path: str, **fields: str) -> int:
        token = self.cookies[settings.CSRF_COOKIE_NAME]
        return await self.request("POST", path, urlencode({"csrfmiddlewaretoken": token, **fields}))

    async def request(self, method: str, path: str, body: str = "") -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookies}\r\nAccept: application/json\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}".encode()
        )
        head = (await reader.read()).partition(b"\r\n\r\n")[0].decode().split("\r\n")
        writer.close()
        for line in head[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "set-cookie":
                for key, morsel in SimpleCookie(value.strip()).items():
                    self.cookies[key] = morsel.value
        return int(head[0].split()[1])


class Robot:
    """One on a socket: acknowledges every command, says that it stands, and notes when each stop came."""

    def __init__(self, name: str, token: str) -> None:
        self.name, self.token = name, token
        self.there, self.stops = asyncio.Event(), asyncio.Queue[float]()
        self._seq = count(1)

    async def run(self, port: int) -> None:
        url, headers = f"ws://127.0.0.1:{port}/robot/v1/ws", {"Authorization": f"Bearer {self.token}"}
        async with connect(url, additional_headers=headers, compression=None, proxy=None) as wire:
            await wire.send(json.dumps({"type": "hello", "v": 1, "robot": self.name, "msg_id": str(uuid.uuid4())}))
            session = json.loads(await wire.recv())["session"]
            self.there.set()
            seen: set[str] = set()
            async for text in wire:
                arrived, frame = time.perf_counter(), json.loads(text)
                if frame["type"] == "ack" or frame["msg_id"] in seen:
                    continue
                seen.add(frame["msg_id"])
                await wire.send(json.dumps({"type": "ack", "msg_id": frame["msg_id"]}))
                if frame["type"] == "robot.stop":
                    self.stops.put_nowait(arrived)
                    await wire.send(json.dumps(self._stands(frame["msg_id"], session)))

    def _stands(self, stop: str, session: int) -> dict[str, Any]:
        return {
            "v": 1, "type": "robot.stopped", "msg_id": str(uuid.uuid4()), "robot": self.name, "session": session,
            "channel": "critical", "seq": next(self._seq), "occurred_at": "2026-11-29T10:00:00Z",
            "data": {"reply_to": stop},
        }  # fmt: skip
