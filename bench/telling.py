"""Robots that tell where they are, as fast as they are asked to: `python -m bench.telling`, one line of JSON on stdin.

A process of its own. It listens to what the live Redis announces, so it knows when each message, or a newer one of that
robot, could be seen. A round has a schedule, which does not wait for the server, or so many messages under way at most.
"""

import asyncio
import json
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from bench.wires import Mqtt, Posts, Socket, Wire, frame, listen, publication, request

PATIENCE_S = 60.0
QUIET_S = 5.0  # nothing more was seen for so long: what is missing gave way to newer messages
POSTS = 8  # connections
TOGETHER = 50  # robots that connect at the same time


class Robots(Protocol):
    """Those of one transport. `tell(n)` sends what robot n has to say next: `each` messages."""

    each: int

    async def begin(self) -> None: ...

    def tell(self, n: int) -> None: ...

    def end(self) -> None: ...


class Saying:
    """Numbered telemetry of native robots. The text is made ahead, but for what changes."""

    def __init__(self, robot: str) -> None:
        self._robot, self._seq = robot, 0
        self.session = 1

    def begin(self, session: int) -> None:
        self.session, self._seq = session, 0
        self._text = (
            f'{{"v":1,"msg_id":"%s","robot":"{self._robot}","session":{session},"channel":"lossy","seq":%d,'
            '"type":"robot.telemetry","occurred_at":"2026-11-29T10:00:00.123Z","data":{"x":%.3f,"y":7.25,'
            '"theta":1.5708,"speed":1.1,"battery":80.5,"place":""}}'
        )

    def next(self) -> bytes:
        self._seq += 1
        return (self._text % (uuid.UUID(int=self._seq << 64 | self.session), self._seq, self._seq / 8)).encode()

    def hello(self, **data: str) -> bytes:
        return json.dumps(
            {"type": "hello", "v": 1, "robot": self._robot, "msg_id": str(uuid.uuid4()), "data": data}
        ).encode()


class OverMqtt:
    """A connection to the broker for each robot."""

    each = 1

    def __init__(self, port: int, robots: list[tuple[str, str]]) -> None:
        self._port, self._robots = port, robots
        self._says = [Saying(robot) for robot, _ in robots]
        self._wires: list[Mqtt] = []
        self._packets = [publication(f"drover/v1/{robot}/telemetry") for robot, _ in robots]

    async def begin(self) -> None:
        for robot, _ in self._robots:
            self._wires.append(Mqtt(robot, [f"drover/v1/{robot}/commands"], self._heard(len(self._wires))))
        await connect(self._port, self._wires)
        await all_set(wire.subscribed for wire in self._wires)
        for wire, says, (robot, token) in zip(self._wires, self._says, self._robots, strict=True):
            wire.write(publication(f"drover/v1/{robot}/events")(says.hello(token=token)))
        await all_set(wire.welcomed for wire in self._wires)
        for wire, says in zip(self._wires, self._says, strict=True):
            says.begin(wire.session)

    def _heard(self, n: int) -> Callable[[str, bytes], None]:
        return lambda topic, payload: self._wires[n].find_session(payload)

    def tell(self, n: int) -> None:
        self._wires[n].write(self._packets[n](self._says[n].next()))

    def end(self) -> None:
        for wire in self._wires:
            wire.close()


class OverSockets:
    """A WebSocket for each robot."""

    each = 1

    def __init__(self, port: int, robots: list[tuple[str, str]]) -> None:
        self._port = port
        self._says = [Saying(robot) for robot, _ in robots]
        self._wires = [Socket(token, s.hello()) for (_, token), s in zip(robots, self._says, strict=True)]

    async def begin(self) -> None:
        for some in range(0, len(self._wires), TOGETHER):
            wires = self._wires[some : some + TOGETHER]
            await connect(self._port, wires)
            await all_set(wire.welcomed for wire in wires)
        for wire, says in zip(self._wires, self._says, strict=True):
            says.begin(wire.session)

    def tell(self, n: int) -> None:
        self._wires[n].write(frame(self._says[n].next()))

    def end(self) -> None:
        for wire in self._wires:
            wire.close()


class OverHttp:
    """Requests of a batch, on connections that stay open."""

    def __init__(self, port: int, robots: list[tuple[str, str]], each: int) -> None:
        self._port, self._robots, self.each = port, robots, each
        self._says = [Saying(robot) for robot, _ in robots]
        self._posts = [Posts(self._answered) for _ in range(POSTS)]
        self._turn = 0
        self._welcomes: list[int] = []

    def _answered(self, verdicts: list[dict[str, Any]]) -> None:
        for verdict in verdicts:
            if "session" in verdict:
                self._welcomes.append(verdict["session"])
            elif verdict["verdict"] != "seen":
                raise SystemExit(f"a message was not taken: {verdict}")

    async def begin(self) -> None:
        await connect(self._port, self._posts)
        for says, (_, token) in zip(self._says, self._robots, strict=True):  # one at a time: whose session is whose
            known = len(self._welcomes)
            self._posts[0].post(request(token, says.hello()))
            await until(lambda known=known: len(self._welcomes) > known, "a welcome over HTTP")
            says.begin(self._welcomes[-1])

    def tell(self, n: int) -> None:
        says = self._says[n]
        body = b"[" + b",".join(says.next() for _ in range(self.each)) + b"]"
        self._posts[self._turn % POSTS].post(request(self._robots[n][1], body))
        self._turn += 1

    def end(self) -> None:
        for posts in self._posts:
            posts.close()


class Watch:
    """What was sent and when, and what of it could be seen.

    A server that is behind may leave out what a newer message has made pointless: that one has to be seen after it.
    """

    def __init__(self, robots: list[str]) -> None:
        self._waiting: dict[bytes, deque[float]] = {robot.encode(): deque() for robot in robots}
        self.names = [robot.encode() for robot in robots]
        self.under_way = 0
        self.delays_ms: list[float] = []
        self.last = self._sent_last = 0.0
        self.unseen = 0
        self._told_at: dict[bytes, float] = {}
        self._sent_at: dict[bytes, float] = {}
        self.missions: Callable[[list[bytes], float], None] = lambda missions, at: None

    def sent(self, n: int, due: float, each: int) -> None:
        self._waiting[self.names[n]].extend([due] * each)
        self._sent_at[self.names[n]] = self._sent_last = time.perf_counter()
        self.under_way += each

    def told(self, robots: list[bytes], missions: list[bytes]) -> None:
        now = time.perf_counter()
        for robot in robots:
            waiting = self._waiting.get(robot)
            if waiting:
                self.delays_ms.append((now - waiting.popleft()) * 1e3)
                self.under_way -= 1
                self.last = self._told_at[robot] = now
        if missions:
            self.missions(missions, now)

    def is_over(self) -> bool:
        return not self.under_way or time.perf_counter() - max(self.last, self._sent_last) > QUIET_S

    def left_out(self) -> int:
        """Messages that were never seen. `unseen` counts the robots whose newest is among them."""
        for robot, waiting in self._waiting.items():
            self.unseen += bool(waiting) and self._told_at.get(robot, 0.0) < self._sent_at[robot]
            waiting.clear()
        count, self.under_way = self.under_way, 0
        return count


async def round_of(robots: Robots, watch: Watch, plan: dict[str, Any]) -> dict[str, Any]:
    """`plan`: count (of messages), and per_s or window. Raises when not all could be seen in the end."""
    count, each, size = plan["count"], robots.each, len(watch.names)
    watch.delays_ms, watch.unseen, cpu, began = [], 0, time.process_time(), time.perf_counter()
    sent = left_out = 0
    while sent < count:
        now = time.perf_counter()
        if "window" in plan and watch.is_over():
            left_out += watch.left_out()
        if "per_s" in plan:
            ready = min(count, int((now - began) * plan["per_s"]) + 1)
        else:
            ready = min(count, sent + max(0, plan["window"] - watch.under_way))
        while sent < ready:
            n = sent // each % size
            watch.sent(n, began + sent / plan["per_s"] if "per_s" in plan else time.perf_counter(), each)
            robots.tell(n)
            sent += each
        if now - began > PATIENCE_S:
            raise SystemExit(f"only {sent - watch.under_way} of {count} messages were seen in {PATIENCE_S:g} s")
        await asyncio.sleep(0.001)
    await until(watch.is_over, "that all is seen")
    delays, left_out = sorted(watch.delays_ms), left_out + watch.left_out()
    return {
        "rate": (sent - left_out) / (watch.last - began), "left_out": left_out, "unseen": watch.unseen, "p50_ms": delays[len(delays) // 2],
        "p99_ms": delays[int(len(delays) * 0.99)], "cpu_s": time.process_time() - cpu, "sent": sent,
    }  # fmt: skip


async def connect(port: int, wires: list[Any]) -> None:
    """One after the other, each to this machine."""
    loop = asyncio.get_running_loop()
    for wire in wires:
        made: Wire = wire
        await loop.create_connection(lambda made=made: made, "127.0.0.1", port)


async def all_set(events: Any) -> None:
    """Wait for all of these events."""
    async with asyncio.timeout(PATIENCE_S):
        for event in events:
            await event.wait()


async def until(so: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    ends = time.perf_counter() + patience_s
    while not so():
        if time.perf_counter() > ends:
            raise SystemExit(f"waited in vain for {what}")
        await asyncio.sleep(0.001)


OVER = {"mqtt": OverMqtt, "ws": OverSockets, "http": OverHttp}


async def _main(config: dict[str, Any]) -> None:
    pairs = [(robot, token) for robot, token in config["robots"]]
    watch = Watch([robot for robot, _ in pairs])
    listening = await listen(config["live"], watch.told)
    robots = OVER[config["over"]](config["port"], pairs, *config.get("each", ()))
    await robots.begin()
    print(json.dumps({}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await round_of(robots, watch, json.loads(line))), flush=True)
    robots.end()
    listening.close()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.stdin.readline())))
