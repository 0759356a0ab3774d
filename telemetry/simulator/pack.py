"""Keeps the processes of the simulated robots: one each, restarted when it dies, stopped together."""

import asyncio
import contextlib
import json
import logging
import sys
from typing import Any

from fleet.running.tether import tied

log = logging.getLogger("robots")
RESTART_S = 1.0
STOP_S = 0.6  # then SIGKILL


class Pack:
    """`configs`: one dict per robot, as `telemetry.simulator.robot` reads it."""

    def __init__(self, configs: list[dict[str, Any]], python: str = sys.executable) -> None:
        self._configs, self._python = configs, python
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def run(self) -> None:
        """Until cancelled; then nothing is left."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for config in self._configs:
                    tasks.create_task(self._keep(config))
        finally:
            await self._stop()

    async def _keep(self, config: dict[str, Any]) -> None:
        while True:
            process = await self._start(config)
            code = await process.wait()
            log.warning("%s ended with exit code %d; starting it again", config["id"], code)
            await asyncio.sleep(RESTART_S)

    async def _start(self, config: dict[str, Any]) -> asyncio.subprocess.Process:
        # the token goes through the pipe: everybody on the machine can read a command line
        process = await asyncio.create_subprocess_exec(
            self._python, "-m", "telemetry.simulator.robot", config["id"],
            stdin=asyncio.subprocess.PIPE, preexec_fn=tied(),
        )  # fmt: skip
        self.processes[config["id"]] = process
        assert process.stdin is not None
        process.stdin.write(json.dumps(config).encode() + b"\n")
        with contextlib.suppress(OSError):  # it died at once; waiting will tell
            await process.stdin.drain()
        process.stdin.close()
        return process

    async def _stop(self) -> None:
        running = [p for p in self.processes.values() if p.returncode is None]
        for process in running:
            process.terminate()
        waits = [asyncio.ensure_future(p.wait()) for p in running]
        if waits:
            await asyncio.wait(waits, timeout=STOP_S)
        for process in running:
            if process.returncode is None:
                process.kill()
        await asyncio.gather(*waits)
