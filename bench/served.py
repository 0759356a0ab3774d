"""Processes that a measurement needs: Mosquitto, gateway, web, worker, sinks; each in the environment of its stores."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import CommandError

from bench.meter import cpu_s
from fleet.running import foreign
from fleet.running.tether import tied
from telemetry.stream import Streams

MANAGE = str(settings.BASE_DIR / "manage.py")
READY_S = 30.0


def need_mosquitto() -> None:
    """Raises `CommandError`, in words, where there is none."""
    if foreign.program("mosquitto") is None:
        raise CommandError("this bench needs mosquitto, which is not installed here (Debian: apt install mosquitto)")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def process(argv: list[str], ready: Callable[[], Any], **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Python with these arguments, once `ready`; ends in order."""
    started = subprocess.Popen(
        [sys.executable, *argv], cwd=settings.BASE_DIR, preexec_fn=tied(),
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "fleet.settings", **environment},
    )  # fmt: skip
    try:
        until(ready, " ".join(argv), started)
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def until(so: Callable[[], Any], what: str, started: "subprocess.Popen[bytes] | None" = None) -> None:
    ends = time.monotonic() + READY_S
    while not so():
        if time.monotonic() > ends or (started is not None and started.poll() is not None):
            raise RuntimeError(f"{what}: not ready after {READY_S:g} s, or ended")
        time.sleep(0.05)


@contextmanager
def mosquitto() -> Iterator[tuple[int, int]]:
    """(port, pid) of a broker of its own."""
    conf = Path(settings.VAR) / f"bench-mosquitto-{os.getpid()}.conf"
    port, command = foreign.mosquitto(
        conf, "allow_anonymous true", "set_tcp_nodelay true", "max_queued_messages 100000"
    )
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=tied())
    try:
        until(lambda: listens(port), "mosquitto", started)
        yield port, started.pid
    finally:
        started.kill()
        started.wait()
        conf.unlink(missing_ok=True)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def gateway(port: int) -> Iterator[int]:
    """`manage.py gateway`, once the broker has its word that it is there; its pid. Enrol its robots before."""
    beats = settings.LIVE_REDIS_URL

    def is_there() -> bool:
        with redis.from_url(beats) as live:
            return bool(live.zcard("gateways")) and not live.zcard("deaf")

    with redis.from_url(beats) as live:
        live.delete("gateways", "deaf")
    url = {"MQTT_URL": f"mqtt://127.0.0.1:{port}"}
    with process([MANAGE, "gateway"], lambda: True, **url) as started:
        until(lambda: _forgotten_deaf(beats) and is_there(), "the gateway", started)
        time.sleep(1.0)  # its subscriptions are on their way
        yield started.pid


def _forgotten_deaf(url: str) -> bool:
    """It says so when it begins; whether it still is, the next beat tells."""
    with redis.from_url(url) as live:
        told = live.zrange("deaf", 0, -1, withscores=True)
        return all(time.time() * 1000 - score > 1500 for _, score in told) and (live.delete("deaf") or True)


@contextmanager
def daphne(application: str, **environment: str) -> Iterator[tuple[int, int]]:
    """(port, pid)."""
    port = free_port()
    argv = ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0", application]
    with process(argv, lambda: listens(port), **environment) as started:
        yield port, started.pid


@contextmanager
def worker() -> Iterator[int]:
    """`manage.py worker`, once it has made its streams: robots that are connected before are sent back. Its pid."""
    with process([MANAGE, "worker"], _streams_are_there) as started:
        yield started.pid


def _streams_are_there() -> bool:
    streams = Streams(settings.REDIS_URL)
    try:
        return len(streams.progress(range(settings.PARTITIONS))) == settings.PARTITIONS
    finally:
        streams.close()


@contextmanager
def robots(module: str, **config: Any) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """`python -m <module>`, once it has answered its configuration: `tell(plan)` → what came of it. A line of JSON each."""
    with subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=settings.BASE_DIR, preexec_fn=tied(),
    ) as started:  # fmt: skip

        def tell(plan: dict[str, Any]) -> dict[str, Any]:
            assert started.stdin and started.stdout
            started.stdin.write(json.dumps(plan) + "\n")
            started.stdin.flush()
            answer = started.stdout.readline()
            if not answer:
                raise RuntimeError(f"the robots of {module} gave up")
            found: dict[str, Any] = json.loads(answer)
            return found

        try:
            tell(config | {"live": settings.LIVE_REDIS_URL})
            yield tell
        finally:
            started.kill()


@contextmanager
def mqtt_sink(port: int) -> Iterator[int]:
    """The baseline over MQTT; its pid."""

    def is_there() -> bool:
        with redis.from_url(settings.LIVE_REDIS_URL) as live:
            return bool(live.delete("sink"))

    with process(["-m", "bench.sinks", f"mqtt://127.0.0.1:{port}"], is_there) as started:
        yield started.pid


class Costs:
    """CPU seconds of processes from here to `spent`."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._before = {name: cpu_s(pid) for name, pid in pids.items()}

    def spent(self) -> dict[str, float]:
        return {name: cpu_s(pid) - self._before[name] for name, pid in self._pids.items()}


def live_pid() -> int:
    with redis.from_url(settings.LIVE_REDIS_URL) as live:
        return int(live.info("server")["process_id"])
