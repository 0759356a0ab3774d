"""A copy of Drover that a test starts with `make run`, and the processes that belong to it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"Drover is ready: (http://127\.0\.0\.1:(\d+)/)")
STORES = {
    "DATABASE_URL",
    "REDIS_URL",
    "LIVE_REDIS_URL",
    "STATIC_ROOT",
    "SECRET_KEY",
}  # of the test run, not of the copy


class Copy:
    """`make run` with its own DROVER_VAR and a free port, in the environment that runs the tests."""

    def __init__(self, var: Path, *, restore: Path | None = None, **environment: str) -> None:
        self.var = var
        self.lines: list[str] = []
        clean = {
            name: value for name, value in os.environ.items() if name not in STORES and not name.startswith("MAKE")
        }
        settings = {"DROVER_VAR": str(var), "DROVER_PORT": "0", "DROVER_ROBOTS": "2", "DROVER_DEMO_MISSIONS": "0"}
        self.make = subprocess.Popen(
            [
                "make",
                "--no-print-directory",
                "run",
                f"PY={sys.executable}",
                "--old-file=.venv/run.stamp",
                *([f"RESTORE={restore}"] if restore else []),
            ],
            cwd=ROOT,
            env={**clean, **settings, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.make.stdout is not None
        for line in self.make.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def until_ready(self, timeout_s: float = 240) -> "Copy":
        def said() -> re.Match[str] | None:
            found = READY.search(self.output)
            assert found or self.make.poll() is None, f"it ended instead:\n{self.output}"
            return found

        self.url = eventually(said, timeout_s, "make run's ready line")[1]
        return self

    def until_ended(self, timeout_s: float = 120) -> int:
        """Exit code of make (the program's own non-zero code becomes 2)."""
        code = self.make.wait(timeout_s)
        self._reader.join(5)
        return code

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=20) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self) -> bool:
        return self.get("readyz")[0] == 200

    def password(self, user: str) -> str:
        found = re.search(rf"^    {user} +(\S+)$", self.output, re.M)
        assert found, f"no password of {user} in:\n{self.output}"
        return found[1]

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A manage.py command in another terminal: it knows only DROVER_VAR."""
        clean = {name: value for name, value in os.environ.items() if name not in STORES}
        return subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env={**clean, "DROVER_VAR": str(self.var)},
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    def robots(self) -> list[dict]:
        return json.loads((self.var / "robots.json").read_text())["robots"]

    def supervisor(self) -> int:
        return next(pid for pid in self.family() if "manage.py run" in command_line(pid))

    def pid(self, *words: str) -> int:
        """The one process of this copy whose command line has all these words."""
        found = self.pids(*words)
        assert len(found) == 1, f"{words}: {[command_line(pid) for pid in found]}"
        return found[0]

    def pids(self, *words: str) -> list[int]:
        return [pid for pid in self.family() if all(word in command_line(pid) for word in words)]

    def family(self) -> dict[int, str]:
        """Every living process that descends from make: pid → start time, which tells it from a later one."""
        parents = {pid: parent for pid, parent, _ in _processes()}
        started = {pid: start for pid, _, start in _processes()}
        members = {self.make.pid}
        while more := {pid for pid, parent in parents.items() if parent in members} - members:
            members |= more
        return {pid: started[pid] for pid in members if pid in started}

    def stop(self) -> None:
        """End it however it takes (for teardown)."""
        if self.make.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.make.pid, signal.SIGTERM)
            try:
                self.make.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.make.pid, signal.SIGKILL)
                self.make.wait(5)
        self._reader.join(5)
        assert self.make.stdout is not None
        self.make.stdout.close()


def still_alive(family: dict[int, str]) -> list[str]:
    now = {pid: start for pid, _, start in _processes()}
    return [f"{pid} {command_line(pid)}" for pid, start in family.items() if now.get(pid) == start]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _processes() -> list[tuple[int, int, str]]:
    """(pid, parent, start time) of everything that lives; zombies are dead."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                found.append((int(entry.name), int(fields[1]), fields[19]))
    return found
