"""A real broker, and robots that were written by others; Node and Mosquitto come from the machine (tests/tools.py)."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from fleet.running.tether import tied
from telemetry.simulator import foreign_robots
from tests.chaos.conftest import environment, manage, start_worker, web  # noqa: F401
from tests.eventually import eventually
from tests.peers.brokers import Mosquitto
from tests.peers.cable import Cable
from tests.telemetry.conftest import ask, streams, token  # noqa: F401
from tests.tools import tool


class Process:
    """Something that is killed, frozen, ended and started again under the same arguments; its output goes to a log."""

    def __init__(self, argv: list[str], log: Path, ready: Callable[[], Any], **options: Any) -> None:
        self.argv, self.log, self._ready, self._options = argv, log, ready, options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, preexec_fn=tied(), **self._options)
        eventually(self._is_ready, what=f"{self.argv[0]} is ready")

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
        self.process.wait(30)


@pytest.fixture
def broker(tmp_path) -> Iterator[Mosquitto]:
    """On a port of its own. A restart forgets nothing that it has to keep."""
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def cable(broker) -> Iterator[Cable]:
    cable = Cable(broker.port)
    yield cable
    cable.end()


@pytest.fixture(scope="session")
def packages(tmp_path_factory) -> Path:
    """Folder with what foreign robots need, installed once."""
    folder: Path = tmp_path_factory.mktemp("foreign")
    foreign_robots.install(tool("npm"), folder)
    return folder


@pytest.fixture
def robots(packages, broker, tmp_path):
    """robots([{"serial": "0001", "x": 0, "y": 0}], timeLapse=5) → Process of foreign robots, ready; see
    telemetry/simulator/foreign/robot.js."""
    started: list[Process] = []

    def start(robots: list[dict[str, Any]], **config: Any) -> Process:
        log = tmp_path / f"robots-{len(started)}.log"
        config = {"broker": broker.url, "robots": robots} | config
        process = Process(
            foreign_robots.command(tool("node"), config), log, lambda: "ready" in log.read_text(),
            env=foreign_robots.environment(packages),
        )  # fmt: skip
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
