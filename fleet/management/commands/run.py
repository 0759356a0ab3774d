"""`manage.py run`: everything on this machine, from the stores to the simulated robots. `make run` calls it."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from fleet.backups import backup
from fleet.running import claim, embedded, foreign, keys, trouble
from fleet.running.console import Console, complain
from fleet.running.supervisor import Failed, Program, Supervisor
from fleet.running.tether import tie
from fleet.running.trouble import Trouble

MANAGE = (sys.executable, str(settings.BASE_DIR / "manage.py"))
WEB_TIER, WORK_TIER = embedded.STORE_TIER + 1, embedded.STORE_TIER + 2


class Command(BaseCommand):
    help = "Run stores, web, worker, demo and simulated robots on this machine until Ctrl-C."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--restore", type=Path, metavar="FILE",
            help="Begin with this backup (of a folder: the newest); only with a DROVER_VAR that is new.",
        )  # fmt: skip
        parser.add_argument(
            "--robots", choices=foreign.KINDS, help="Robots that others wrote, over MQTT; needs Node and Mosquitto."
        )

    def handle(self, *, restore: Path | None, robots: str | None, **options: Any) -> None:
        if restore:
            restore = _backup(restore)
        if "MAKELEVEL" in os.environ:  # make runs nothing else meanwhile: without it there is nobody to stop us
            tie(os.getppid())
        console = Console()
        try:
            with asyncio.Runner() as runner:
                site = Site(settings.VAR, console, restore and restore.resolve(), foreign_robots=bool(robots))
                runner.run(site.run())
        except Trouble as exc:
            console.close()
            complain(str(exc))
            sys.exit(1)
        console.close()


def _backup(path: Path) -> Path:
    """As `manage.py restore` has it: a folder stands for its newest backup. Ends the process when there is none."""
    found = backup.newest(path) if path.is_dir() else path if path.is_file() else None
    if found is None:
        wanted = "RESTORE is a file that `manage.py backup` made (drover-….zip), or a folder with such files"
        complain(f"There is no backup {'in ' if path.is_dir() else ''}{path}: {wanted}.")
        sys.exit(1)
    return found


class Site:
    """One running copy."""

    def __init__(
        self, var: Path, console: Console, restore: Path | None = None, *, foreign_robots: bool = False
    ) -> None:
        self.var = var
        self.restore = restore
        self.foreign_robots = foreign_robots
        self.console = console
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stopping.set)
        try:
            lock, secrets = claim.folder(self.var)
            listener = claim.port(settings.PORT)
        except OSError as exc:
            raise trouble.explained(self.var, exc) from exc
        self.url = f"http://{claim.HOST}:{listener.getsockname()[1]}/"
        supervisor = Supervisor(self.console, self._environment(secrets, listener))
        starting: asyncio.Future[Any] = asyncio.create_task(self._start(supervisor, secrets, listener))
        stopping: asyncio.Future[Any] = asyncio.create_task(self.stopping.wait())
        gave_up: asyncio.Future[Any] = supervisor.gave_up
        failed: BaseException | None = None
        try:
            await asyncio.wait([starting, stopping, gave_up], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.exception():
                await asyncio.wait([stopping, gave_up], return_when=asyncio.FIRST_COMPLETED)
            if gave_up.done():
                failed = gave_up.result()
            elif starting.done():
                failed = starting.exception()
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
            raise trouble.explained(self.var, failed)

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
        if self.foreign_robots and (lacks := foreign.missing()):
            self.console.say(lacks)
            self.foreign_robots = False
        await asyncio.gather(
            self._stores(supervisor), asyncio.to_thread(call_command, "collectstatic", interactive=False, verbosity=0)
        )
        if self.restore:
            await self._restore(supervisor, self.restore, secrets)
        self.console.say("bringing the database up to date; a new one takes a few seconds")
        await supervisor.once("migrate", *MANAGE, "migrate", "--noinput", "-v0", "--skip-checks")
        fd = listener.fileno()
        web = Program(
            "web", [sys.executable, "-m", "daphne", "--fd", str(fd), "-v", "0", "fleet.asgi:application"],
            tier=WEB_TIER, ready=self._web_answers, pass_fds=[fd], cwd=str(settings.BASE_DIR),
        )  # fmt: skip
        worker = Program("worker", [*MANAGE, "worker"], tier=WORK_TIER, ready=self._worker_works)
        speed = ("--speed-up", str(settings.SPEED_UP))
        robots = Program("robots", [*MANAGE, "robots", *speed], tier=WORK_TIER, vital=False)
        strangers = Program("foreign", [*MANAGE, "foreign_robots", *speed], tier=WORK_TIER, vital=False)
        demo = Program("demo", [*MANAGE, "demo", "--keep"], tier=WORK_TIER, vital=False)
        followers = Program("followers", [*MANAGE, "followers"], tier=WORK_TIER, vital=False)
        gateway = Program("gateway", [*MANAGE, "gateway"], tier=WORK_TIER, vital=False)
        up = [supervisor.start(web), supervisor.start(worker)]
        if supervisor.env.get("MQTT_URL"):
            up.append(supervisor.start(gateway))
        await supervisor.once("demo", *MANAGE, "demo", *(["--foreign"] if self.foreign_robots else []))
        await asyncio.gather(*up)
        made = json.loads((self.var / "robots.json").read_text())  # simulated ones may have stayed beside foreign ones
        for program, wanted in (
            (followers, True), (robots, made["robots"]), (strangers, made["foreign"]), (demo, settings.DEMO_MISSIONS),
        ):  # fmt: skip
            if wanted:
                supervisor.start(program)
        self._announce(secrets)

    async def _stores(self, supervisor: Supervisor) -> None:
        """The ones that the environment does not name."""
        starts: list[Awaitable[None]] = []
        if "DATABASE_URL" not in os.environ:
            postgres = embedded.Postgres.at(self.var)
            for folder in postgres.opened:
                self.console.say(f"other users may pass through {folder} now: PostgreSQL runs as {postgres.user}")
            supervisor.env["DATABASE_URL"] = postgres.url()
            starts.append(_start_postgres(supervisor, postgres))
        for variable, name, durable in (("REDIS_URL", "stream", True), ("LIVE_REDIS_URL", "live", False)):
            if variable not in os.environ:
                supervisor.env[variable], program = embedded.valkey(name, self.var, durable=durable)
                starts.append(supervisor.start(program))
        if self.foreign_robots and "MQTT_URL" not in os.environ:
            supervisor.env["MQTT_URL"], broker = foreign.broker(self.var)
            starts.append(supervisor.start(broker))
        keys.write(
            self.var / "environment",
            {name: supervisor.env[name] for name in ("DATABASE_URL", "REDIS_URL", "LIVE_REDIS_URL", "SECRET_KEY")},
        )
        await asyncio.gather(*starts)

    async def _restore(self, supervisor: Supervisor, file: Path, secrets: dict[str, str]) -> None:
        self.console.say(f"restoring {file}")
        try:
            await supervisor.once("restore", *MANAGE, "restore", str(file))
        except Failed as failed:
            said = [line for line in failed.tail if line.startswith("CommandError: ")]
            if not said:
                raise
            here = f"RESTORE= wants a DROVER_VAR that is new; without it, make run goes on with what is in {self.var}."
            raise Trouble(f"{said[-1].removeprefix('CommandError: ')} {here}") from failed
        secrets[keys.RESTORED] = file.name
        keys.write(self.var / "secrets", secrets)

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
        if self.console.is_json:  # who collects logs shall not collect passwords
            self.console.say(f"Drover is ready: {self.url}fleet/ (first passwords: {self.var / 'secrets'})")
            return
        users = "\n".join(f"    {user:<12}{secrets[f'{user.upper()}_PASSWORD']}" for user in keys.USERS)
        first = f"First passwords, kept in {self.var / 'secrets'}. "
        if keys.RESTORED in secrets:
            users, first = f"    with the names and passwords of the backup ({secrets[keys.RESTORED]})", ""
        self.console.plain(
            f"\nDrover is ready: {self.url}fleet/   (admin pages: {self.url}admin/)\n"
            f"  Sign in as\n{users}\n"
            f"  {first}Ctrl-C stops everything; the next run goes on from here.\n"
        )


async def _start_postgres(supervisor: Supervisor, postgres: embedded.Postgres) -> None:
    await postgres.initialise(supervisor)
    await supervisor.start(postgres.program())
    await postgres.create_database()
