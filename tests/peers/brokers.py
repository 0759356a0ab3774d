"""A real Mosquitto for a test: start it, end it, freeze it, start it again on the same port with what it kept."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from fleet.running import foreign
from fleet.running.tether import tied
from tests.tools import missing


class Mosquitto:
    """`conf`: more lines of its configuration."""

    def __init__(self, folder: Path, *conf: str, listener: tuple[str, ...] = ()) -> None:
        self.folder = folder
        if foreign.program("mosquitto") is None:
            missing("mosquitto is not installed")
        lines = [
            *listener, *(conf or ("allow_anonymous true",)), "persistence true",
            f"persistence_location {folder}/", "max_inflight_messages 1000", "max_queued_messages 100000",
            *(["user root"] if os.geteuid() == 0 else []),  # or it could not read what the test has written
        ]  # fmt: skip
        self.port, self._command = foreign.mosquitto(folder / "mosquitto.conf", *lines)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> "Mosquitto":
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(
                [*self._command, "-v"],
                stdout=out,
                stderr=out,
                preexec_fn=tied(),
            )
        ends = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > ends:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(30)

    def __enter__(self) -> "Mosquitto":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
