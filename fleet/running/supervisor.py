"""Keeps a set of processes running: start in order, probe, restart what dies, stop what all stand on last, one log.

Every child leads a session of its own, so that Ctrl-C reaches only the supervisor, and is tied to the supervisor
(`fleet.running.tether`), so that nothing is left even after a `kill -9`.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.running.console import Console
from fleet.running.tether import tied

EARLY_DEATHS = 5  # a child that was never up, and dies this often with all below it up, is given up
BACKOFF_S = (0.1, 0.3, 1.0, 2.0, 5.0)  # wait before the next start, by deaths in a row; the last one repeats
CALM_S = 10.0  # a child that was up this long starts with a clean record and at once
PROBE_EVERY_S = 0.05


class Failed(Exception):
    """A process could not do its work. `tail` is the end of what it said."""

    def __init__(self, name: str, what: str, tail: Sequence[str]) -> None:
        super().__init__(f"{name} {what}")
        self.tail = list(tail)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how to know that it is up.

    `ready` is asked again and again until it says True; without it a program that lives `up_after_s` is up.
    A `vital` program takes everything down when it is given up.
    """

    name: str
    argv: Sequence[str]
    tier: int = 0  # higher ones stand on lower ones; the lowest stops last
    ready: Callable[[], Awaitable[bool]] | None = None
    up_after_s: float = 2.0
    ready_within_s: float = 60.0  # then it counts as hung and is ended
    vital: bool = True
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 2.0  # two steps of that, and the whole ends within 5 s
    user: str | None = None
    cwd: str | None = None
    quiet: bool = False
    hush: Sequence[str] = ()  # lines with one of these stay out of the log
    pass_fds: Sequence[int] = ()
    before: Callable[[], None] = lambda: None  # clears what a killed run left


@dataclass(slots=True)
class _Kept:
    program: Program
    up: asyncio.Future[None]  # resolved when it is ready for the first time
    process: asyncio.subprocess.Process | None = None
    is_up: bool = False
    task: asyncio.Task[None] | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=40))


class Supervisor:
    """One set of processes. `gave_up` resolves with a `Failed` when a vital one cannot be kept up."""

    def __init__(self, console: Console, env: Mapping[str, str]) -> None:
        self.console = console
        self.env = dict(env)
        self.gave_up: asyncio.Future[Failed] = asyncio.get_running_loop().create_future()
        self._kept: list[_Kept] = []
        self._pumps: set[asyncio.Task[None]] = set()

    async def once(
        self, name: str, *argv: str, user: str | None = None, cwd: str | None = None, quiet: bool = False
    ) -> None:
        """Run to the end. Raises `Failed` when the exit code is not 0. `quiet` keeps what it says out of the log."""
        tail: deque[str] = deque(maxlen=40)
        process = await self._spawn(Program(name, argv, user=user, cwd=cwd, quiet=quiet), tail)
        try:
            code = await process.wait()
        finally:
            _sweep(process)
        if code:
            await self._last_words()
            raise Failed(name, _ended(code), tail)

    def start(self, program: Program) -> asyncio.Future[None]:
        """Start and keep running. What it returns is done when it is up, or raises `Failed` when it never gets there."""
        kept = _Kept(program, asyncio.get_running_loop().create_future())
        self._kept.append(kept)
        kept.task = asyncio.create_task(self._tend(kept))
        return asyncio.shield(kept.up)

    def pids(self) -> dict[str, int]:
        """Name → pid of what runs now."""
        return {k.program.name: k.process.pid for k in self._kept if k.process and k.process.returncode is None}

    async def stop(self) -> None:
        """All at once, and then what all stand on; each program within its own time, SIGKILL ends patience.

        One tier after the other would add their times up, and who pressed Ctrl-C waits.
        """
        lowest = min((k.program.tier for k in self._kept), default=0)
        for last in (False, True):
            await asyncio.gather(*(self._end(k) for k in self._kept if (k.program.tier == lowest) is last))
        for pump in self._pumps:
            pump.cancel()

    async def _tend(self, kept: _Kept) -> None:
        program, deaths, in_a_row = kept.program, 0, 0
        while True:
            began = time.monotonic()
            try:
                program.before()
                kept.process = await self._spawn(program, kept.tail)
            except (OSError, subprocess.SubprocessError) as exc:
                if not kept.up.done():
                    return self._give_up(kept, Failed(program.name, f"could not be started ({exc})", kept.tail))
                self.console.say(f"{program.name} could not be started ({exc}); trying again in {BACKOFF_S[-1]:g} s")
                await asyncio.sleep(BACKOFF_S[-1])  # memory or processes are short at the moment
                continue
            try:
                up = kept.is_up = await self._comes_up(program, kept.process)
                if up and not kept.up.done():
                    kept.up.set_result(None)
                code = await kept.process.wait()
            finally:
                kept.is_up = False
                if kept.process.returncode is not None:
                    _sweep(kept.process)  # its own children
            if up and time.monotonic() - began > CALM_S:
                deaths = in_a_row = 0
            in_a_row += 1
            if up or self._has_ground(program):
                deaths += 1
            if not kept.up.done() and deaths >= EARLY_DEATHS:  # one that was up is back when its disk has room again
                await self._last_words()
                return self._give_up(kept, Failed(program.name, f"ended {deaths} times before it was up", kept.tail))
            wait_s = 0.0 if up and in_a_row == 1 else BACKOFF_S[min(in_a_row, len(BACKOFF_S)) - 1]
            self.console.say(
                f"{program.name} {_ended(code)}; starting it again" + (f" in {wait_s:g} s" if wait_s else "")
            )
            await asyncio.sleep(wait_s)

    def _has_ground(self, program: Program) -> bool:
        """All that it stands on is up: what dies while a database recovers is not to blame."""
        return all(k.is_up for k in self._kept if k.program.tier < program.tier)

    async def _comes_up(self, program: Program, process: asyncio.subprocess.Process) -> bool:
        """True once it is up, False when it ended before (or hung until we ended it)."""
        ended = asyncio.ensure_future(process.wait())
        began = time.monotonic()
        try:
            while not ended.done():
                if program.ready is None:
                    await asyncio.wait([ended], timeout=program.up_after_s)
                    return not ended.done()
                with contextlib.suppress(Exception):  # a probe that fails is a "not yet"
                    if await asyncio.wait_for(program.ready(), timeout=2):
                        return True
                if time.monotonic() - began > program.ready_within_s:
                    self.console.say(f"{program.name} was not up within {program.ready_within_s:g} s")
                    _signal_group(process, signal.SIGKILL)
                await asyncio.wait([ended], timeout=PROBE_EVERY_S)
            return False
        finally:
            ended.cancel()

    def _give_up(self, kept: _Kept, failed: Failed) -> None:
        self.console.say(f"{failed}; giving it up")
        if not kept.up.done():
            kept.up.set_exception(failed)
            kept.up.exception()  # seen, also when nobody waits
        if kept.program.vital and not self.gave_up.done():
            self.gave_up.set_result(failed)

    async def _spawn(self, program: Program, tail: deque[str]) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *program.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.env,
            cwd=program.cwd,
            limit=2**20,
            start_new_session=True,
            preexec_fn=tied(),
            pass_fds=program.pass_fds,
            user=program.user,
            group=program.user,
            extra_groups=[] if program.user else None,
        )
        pump = asyncio.create_task(self._pump(program, process, tail))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        return process

    async def _pump(self, program: Program, process: asyncio.subprocess.Process, tail: deque[str]) -> None:
        assert process.stdout is not None
        while True:
            try:
                raw = await process.stdout.readline()
            except ValueError:  # a line of more than 1 MiB
                raw = b"(a very long line was left out)\n"
            if not raw:
                return
            line = raw.decode(errors="replace").rstrip()
            tail.append(line)
            if not program.quiet and not any(text in line for text in program.hush):
                self.console.line(program.name, line)

    async def _last_words(self) -> None:
        """Let the pumps of what has just ended catch up."""
        await asyncio.sleep(0.1)

    async def _end(self, kept: _Kept) -> None:
        if kept.task is not None:
            kept.task.cancel()
            await asyncio.wait([kept.task])
        process = kept.process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(kept.program.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), timeout=kept.program.stop_within_s)
            except TimeoutError:
                self.console.say(f"{kept.program.name} did not stop within {kept.program.stop_within_s:g} s; killed")
                _signal_group(process, signal.SIGKILL)
                await process.wait()
        _sweep(process)


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _sweep(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the session that it led."""
    _signal_group(process, signal.SIGKILL)


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
