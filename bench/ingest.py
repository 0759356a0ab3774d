"""Telemetry over HTTP: events a second from request to snapshot, in batches, against one event per request.

A real web process, real requests on connections that stay open. Every event has to be answered as taken and written
into its robot's snapshot; the durable path is measured with the same requests of critical events.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import redis
from django.conf import settings
from django.core.management import call_command

from bench.ground import BY, fleet_of, stores_in_words
from bench.report import Row, machine, row
from fleet.actions import issue_credential

CONNECTIONS = 8  # requests under way at a time


def run(*, quick: bool, profile: bool = False) -> tuple[dict[str, Any], list[Row]]:
    """(machine, rows). Needs empty stores of its own. `profile` is not looked at."""
    robot_count, batch, rounds = (20, 20, 2) if quick else (1_000, 20, 5)
    about = machine(Path(settings.VAR), **stores_in_words())
    call_command("migrate", verbosity=0)
    _, robots = fleet_of(robot_count)
    tokens = [issue_credential(robot, by=BY) for robot in robots]
    with _web() as port:
        rates = asyncio.run(_measure(port, list(zip(robots, tokens, strict=True)), batch, rounds))
    about |= {"robots": robot_count, "batch": batch, "rounds": rounds, "connections": CONNECTIONS}
    return about, [
        row("telemetry to snapshot, batches of 20", median(rates["batched"]), "1/s",
            baseline=median(rates["single"]), at_least=None if quick else 10_000),
        row("telemetry to snapshot, worst round", min(rates["batched"]), "1/s", baseline=min(rates["single"])),
        row("critical events stored on disk, batches of 20", median(rates["critical"]), "1/s"),
    ]  # fmt: skip


@contextmanager
def _web() -> Iterator[int]:
    """The port of a web process."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        os.set_inheritable(listener.fileno(), True)
        command = ["-m", "daphne", "-v", "0", "--fd", str(listener.fileno()), "fleet.asgi:application"]
        process = subprocess.Popen([sys.executable, *command], pass_fds=[listener.fileno()])
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.wait(10)


class _Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, token: str, body: bytes) -> list[dict[str, Any]]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        reader, writer = self._streams
        head = (
            f"POST /robot/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return json.loads(await reader.readexactly(length))["verdicts"]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class _Robots:
    """What they say, numbered as robots do."""

    def __init__(self, robots: list[tuple[str, str]]) -> None:
        self.tokens = dict(robots)
        self.sessions: dict[str, int] = {}
        self._seq: dict[tuple[str, str], int] = {}

    def hello(self, robot: str) -> bytes:
        return json.dumps({"type": "hello", "v": 1, "robot": robot}).encode()

    def batch(self, robot: str, channel: str, count: int) -> bytes:
        data = {"x": 1.5, "y": 2.5, "theta": 0.1, "speed": 1.1, "battery": 80.5, "place": ""}
        type, body = ("robot.telemetry", data) if channel == "lossy" else ("robot.state", {"mode": "idle"})
        messages = []
        for _ in range(count):
            seq = self._seq[robot, channel] = self._seq.get((robot, channel), 0) + 1
            messages.append({
                "v": 1, "msg_id": str(uuid.uuid4()), "robot": robot, "session": self.sessions[robot], "seq": seq,
                "channel": channel, "type": type, "occurred_at": "2026-11-29T10:00:00.123Z", "data": body,
            })  # fmt: skip
        return json.dumps(messages).encode()


async def _measure(port: int, pairs: list[tuple[str, str]], batch: int, rounds: int) -> dict[str, list[float]]:
    robots, connections = _Robots(pairs), [_Connection(port) for _ in range(CONNECTIONS)]
    for robot, [welcome] in await _post_all(connections, [(r, t, robots.hello(r)) for r, t in pairs]):
        robots.sessions[robot] = welcome["session"]
    rates: dict[str, list[float]] = {"batched": [], "single": [], "critical": []}
    work = {
        "batched": ("lossy", batch, "seen"),
        "single": ("lossy", 1, "seen"),
        "critical": ("critical", batch, "stored"),
    }
    for number in range(rounds + 1):
        for name, (channel, count, verdict) in work.items():
            requests = [(r, t, robots.batch(r, channel, count)) for r, t in pairs]
            rate = await _one_round(connections, requests, len(pairs) * count, verdict, written=channel == "lossy")
            if number:  # the first round warms up
                rates[name].append(rate)
    for connection in connections:
        connection.close()
    return rates


async def _one_round(
    connections: list[_Connection], requests: list[tuple[str, str, bytes]], events: int, verdict: str, written: bool
) -> float:
    """Events a second, from the first request until every event is answered and, if lossy, written."""
    with redis.from_url(settings.LIVE_REDIS_URL) as live:
        before = _writes(live)
        began = time.perf_counter()
        answers = await _post_all(connections, requests)
        while written and _writes(live) - before < events:
            await asyncio.sleep(0.002)
            if time.perf_counter() - began > 120:
                raise RuntimeError(f"{events - _writes(live) + before} of {events} messages were never written")
        took = time.perf_counter() - began
    said = [v["verdict"] for _, verdicts in answers for v in verdicts]
    if said != [verdict] * events:
        raise RuntimeError(f"not all were {verdict}: {set(said)}")
    return events / took


def _writes(live: Any) -> int:
    """Scripts that the live Redis has run: one per lossy message."""
    return int(live.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


async def _post_all(
    connections: list[_Connection], requests: list[tuple[str, str, bytes]]
) -> list[tuple[str, list[dict[str, Any]]]]:
    waiting, answers = list(reversed(requests)), []

    async def work(connection: _Connection) -> None:
        while waiting:
            robot, token, body = waiting.pop()
            answers.append((robot, await connection.post(token, body)))

    await asyncio.gather(*(work(connection) for connection in connections))
    return answers
