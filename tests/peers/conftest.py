"""A real broker, and robots that were written by others; Node and Mosquitto come from the machine (tests/tools.py)."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from fleet.tether import tied
from tests.chaos.conftest import environment, manage, start_worker, web  # noqa: F401
from tests.eventually import eventually
from tests.peers.cable import Cable
from tests.tools import tool

ROBOTS = Path(__file__).parent / "robots"


class Process:
    """Something that is killed, frozen, ended and started again under the same arguments; its output goes to a log."""

    def __init__(self, argv: list[str], log: Path, ready: Callable[[], Any], **options: Any) -> None:
        self.argv, self.log, self._ready, self._options = argv, log, ready, options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, preexec_fn=tied(), **self._options)
        eventually(self._is_ready, 20, f"{self.argv[0]} is ready")

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-2000:]
        return bool(self._ready())

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """As planned."""
        self.send(signal.SIGTERM)
        assert self.process is not None
        self.process.wait(10)


@pytest.fixture
def broker(tmp_path) -> Iterator[Process]:
    """Mosquitto on a port of its own: `broker.url`. A restart forgets nothing that it has to keep."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 100\n")
    program = os.environ.get("MOSQUITTO") or tool("mosquitto", "/usr/sbin/mosquitto")
    broker = Process(
        [program, "-c", str(settings)], tmp_path / "mosquitto.log",
        lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None,
    )  # fmt: skip
    broker.port, broker.url = port, f"mqtt://127.0.0.1:{port}"
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def cable(broker) -> Iterator[Cable]:
    cable = Cable(broker.port)
    yield cable
    cable.end()


@pytest.fixture(scope="session")
def foreign() -> Path:
    """robots/robot.js with the packages that it needs, installed once."""
    tool("node")
    if not (ROBOTS / "node_modules" / "vda-5050-lib").exists():
        done = subprocess.run(
            [tool("npm"), "ci", "--no-audit", "--no-fund"], cwd=ROBOTS, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return ROBOTS / "robot.js"


@pytest.fixture
def robots(foreign, broker, tmp_path):
    """robots([{"serial": "0001", "x": 0, "y": 0}], timeLapse=5) → Process of foreign robots, ready; see robot.js."""
    started: list[Process] = []

    def start(robots: list[dict[str, Any]], **config: Any) -> Process:
        log = tmp_path / f"robots-{len(started)}.log"
        config = {"broker": broker.url, "robots": robots} | config
        process = Process([tool("node"), str(foreign), json.dumps(config)], log, lambda: "ready" in log.read_text())
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def gateway(environment, broker, tmp_path):  # noqa: F811
    """`manage.py gateway` on this test's stores."""
    log = tmp_path / "gateway.log"
    gateway = Process(
        [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "gateway"], log, lambda: True,
        env=environment | {"MQTT_URL": broker.url}, cwd=settings.BASE_DIR,
    )  # fmt: skip
    gateway.start()
    yield gateway
    gateway.kill()
    assert "Traceback" not in log.read_text(), log.read_text()[-5000:]
