"""`manage.py run`: everything on this machine, from the stores to the simulated robots. `make run` calls it."""

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from fleet import embedded, keys
from fleet.console import Console, complain
from fleet.embedded import Trouble
from fleet.supervisor import Failed, Program, Supervisor
from fleet.tether import tie

HOST = "127.0.0.1"
MANAGE = (sys.executable, str(settings.BASE_DIR / "manage.py"))
WEB_TIER, WORK_TIER = embedded.STORE_TIER + 1, embedded.STORE_TIER + 2
FREE_BYTES = 250 * 2**20  # stores, static files and some days of history

# what a process says when it ends → what to do about it
ADVICE = (
    (
        "No space left on device",
        "The disk under {var} is full. Free some space, or set DROVER_VAR to a folder on another disk.",
    ),
    (
        "Permission denied",
        "Some of {var} belongs to another user. Give it to this one, or set DROVER_VAR to another folder.",
    ),
    (
        "incompatible with server",
        "The data under {var} is of another PostgreSQL version. Set DROVER_VAR to another folder, or move it away.",
    ),
)


class Command(BaseCommand):
    help = "Run stores, web, worker, demo and simulated robots on this machine until Ctrl-C."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        if "MAKELEVEL" in os.environ:  # make runs nothing else meanwhile: without it there is nobody to stop us
            tie(os.getppid())
        console = Console()
        try:
            with asyncio.Runner() as runner:
                runner.run(Site(settings.VAR, console).run())
        except Trouble as exc:
            console.close()
            complain(str(exc))
            sys.exit(1)
        console.close()


class Site:
    """One running copy."""

    def __init__(self, var: Path, console: Console) -> None:
        self.var = var
        self.console = console
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stopping.set)
        try:
            lock, secrets = claim(self.var)
            listener = listen(settings.PORT)
        except OSError as exc:
            raise Trouble(_storage_trouble(self.var, exc)) from exc
        self.url = f"http://{HOST}:{listener.getsockname()[1]}/"
        supervisor = Supervisor(self.console, self._environment(secrets, listener))
        starting = asyncio.create_task(self._start(supervisor, secrets, listener))
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait([starting, stopping, supervisor.gave_up], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.exception():
                await asyncio.wait([stopping, supervisor.gave_up], return_when=asyncio.FIRST_COMPLETED)
            failed = supervisor.gave_up.result() if supervisor.gave_up.done() else None
            failed = failed or (starting.exception() if starting.done() else None)
        finally:
            self.console.say("stopping")
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            await supervisor.stop()
            listener.close()
            (self.var / "environment").unlink(missing_ok=True)
            os.close(lock)
            self.console.say("stopped")
        if failed is not None:
            raise self._explained(failed)

    def _environment(self, secrets: dict[str, str], listener: socket.socket) -> dict[str, str]:
        return {
            "SECRET_KEY": secrets["SECRET_KEY"],
            **os.environ,
            "DROVER_VAR": str(self.var),
            "DROVER_PORT": str(listener.getsockname()[1]),
            "DROVER_ROBOTS": str(settings.ROBOTS),
            "PYTHONUNBUFFERED": "1",
        }

    async def _start(self, supervisor: Supervisor, secrets: dict[str, str], listener: socket.socket) -> None:
        self.console.say(f"starting; everything is kept in {self.var}")
        await asyncio.gather(
            self._stores(supervisor), supervisor.once("static", *MANAGE, "collectstatic", "--noinput", "-v0")
        )
        await supervisor.once("migrate", *MANAGE, "migrate", "--noinput", "-v0")
        fd = listener.fileno()
        web = Program(
            "web", [sys.executable, "-m", "daphne", "--fd", str(fd), "-v", "0", "fleet.asgi:application"],
            tier=WEB_TIER, ready=self._web_answers, pass_fds=[fd], cwd=str(settings.BASE_DIR),
        )  # fmt: skip
        worker = Program("worker", [*MANAGE, "worker"], tier=WORK_TIER, ready=self._worker_works)
        robots = Program(
            "robots", [*MANAGE, "robots", "--count", str(settings.ROBOTS), "--speed-up", str(settings.SPEED_UP)],
            tier=WORK_TIER, vital=False,
        )  # fmt: skip
        demo = Program("demo", [*MANAGE, "demo", "--keep"], tier=WORK_TIER, vital=False)
        up = [supervisor.start(web), supervisor.start(worker)]
        await supervisor.once("demo", *MANAGE, "demo")
        await asyncio.gather(*up)
        for program, wanted in ((robots, settings.ROBOTS), (demo, settings.DEMO_MISSIONS)):
            if wanted:
                supervisor.start(program)
        self._announce(secrets)

    async def _stores(self, supervisor: Supervisor) -> None:
        """The ones that the environment does not name."""
        starts = []
        if "DATABASE_URL" not in os.environ:
            postgres = embedded.Postgres.at(self.var)
            supervisor.env["DATABASE_URL"] = postgres.url()
            starts.append(_start_postgres(supervisor, postgres))
        for variable, name, durable in (("REDIS_URL", "stream", True), ("LIVE_REDIS_URL", "live", False)):
            if variable not in os.environ:
                supervisor.env[variable], program = embedded.valkey(name, self.var, durable=durable)
                starts.append(supervisor.start(program))
        keys.write(
            self.var / "environment",
            {name: supervisor.env[name] for name in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "SECRET_KEY")},
        )
        await asyncio.gather(*starts)

    async def _web_answers(self) -> bool:
        return (await self._get("healthz"))[0] == 200

    async def _worker_works(self) -> bool:
        return "worker" not in json.loads((await self._get("readyz"))[1])["missing"]

    async def _get(self, path: str) -> tuple[int, str]:
        """Status and body of one of our own pages."""
        host, port = self.url.removeprefix("http://").rstrip("/").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            head, _, body = (await reader.read()).decode(errors="replace").partition("\r\n\r\n")
            return int(head.split()[1]), body
        finally:
            writer.close()

    def _announce(self, secrets: dict[str, str]) -> None:
        users = "\n".join(f"    {user:<12}{secrets[f'{user.upper()}_PASSWORD']}" for user in keys.USERS)
        self.console.plain(
            f"\nDrover is ready: {self.url}fleet/   (admin pages: {self.url}admin/)\n"
            f"  Sign in as\n{users}\n"
            f"  First passwords, kept in {self.var / 'secrets'}. Ctrl-C stops everything; the next run goes on from here.\n"
        )

    def _explained(self, failed: BaseException) -> Trouble:
        if isinstance(failed, Trouble):
            return failed
        if isinstance(failed, OSError):
            return Trouble(_storage_trouble(self.var, failed))
        if not isinstance(failed, Failed):
            raise failed
        said = "\n".join(failed.tail)
        for text, advice in ADVICE:
            if text in said:
                return Trouble(advice.format(var=self.var))
        return Trouble(f"{failed}. What it said last is above.")


async def _start_postgres(supervisor: Supervisor, postgres: embedded.Postgres) -> None:
    await postgres.initialise(supervisor)
    await supervisor.start(postgres.program())
    await postgres.create_database()


def claim(var: Path) -> tuple[int, dict[str, str]]:
    """Take DROVER_VAR for this process: a lock that ends with it, and the secrets. Raises OSError or Trouble."""
    var.mkdir(parents=True, exist_ok=True)
    lock = os.open(var / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(lock, 20).decode().strip() or "?"
        raise Trouble(
            f"Another Drover (process {pid}) runs on {var}. Stop it, or give this one its own DROVER_VAR and DROVER_PORT."
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    free = shutil.disk_usage(var).free
    if free < FREE_BYTES:
        raise Trouble(
            f"Only {free // 2**20} MB are free under {var}; Drover needs {FREE_BYTES // 2**20} MB. "
            "Free some space, or set DROVER_VAR to a folder on another disk."
        )
    return lock, keys.load(var)


def listen(port: int) -> socket.socket:
    """The web's socket. It is ours, so nobody takes it while web restarts. Port 0 takes any free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        _bind(listener, port)
        listener.listen(512)
    except OverflowError:
        raise Trouble(f"DROVER_PORT must be between 0 and 65535, not {port}.") from None
    except OSError as exc:
        listener.close()
        why = "is taken" if exc.errno == errno.EADDRINUSE else f"cannot be used ({exc.strerror})"
        raise Trouble(
            f"Port {port} {why}. Stop what uses it, or choose another: make run DROVER_PORT={port + 1}"
        ) from None
    return listener


def _bind(listener: socket.socket, port: int) -> None:
    """A copy that was killed a moment ago may still be giving the port back."""
    for tries_left in range(10, -1, -1):
        try:
            return listener.bind((HOST, port))
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE or not tries_left:
                raise
            time.sleep(0.1)
    return None


def _storage_trouble(var: Path, exc: OSError) -> str:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return ADVICE[0][1].format(var=var)
    return f"Cannot write to {var} ({exc.strerror}). Set DROVER_VAR to a folder that you may write to."
