"""`manage.py robots`: the demo's robots as simulated ones, each a process of its own over a real socket."""

import asyncio
import contextlib
import json
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from telemetry.simulator import faults
from telemetry.simulator.memory import MEMORIES, file_of
from telemetry.simulator.pack import Pack


class Command(BaseCommand):
    help = (
        "Run simulated robots until Ctrl-C. Which ones, and their tokens, stand in robots.json (made by the demo); "
        "what they remember, in a folder `robots` beside it."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", type=int, help="Only the first so many (all).")
        parser.add_argument("--speed-up", type=float, default=1.0, help="Simulated time runs so many times faster (1).")
        parser.add_argument("--seed", type=int, default=1, help="Chance is the same for the same seed (1).")
        parser.add_argument(
            "--transport", choices=("ws", "http"), help="All robots talk this way (each as robots.json says; most ws)."
        )
        parser.add_argument(
            "--faults", default="", metavar="NAME=VALUE,…", help=f"What goes wrong, by chance: {_described()}."
        )
        parser.add_argument("--file", type=Path, default=settings.VAR / "robots.json", help="robots.json to read.")

    def handle(self, *, count: int | None, speed_up: float, seed: int, file: Path, **options: Any) -> None:
        if speed_up <= 0:
            raise CommandError("--speed-up must be more than 0.")
        try:
            wrong = faults.parse(options["faults"])
        except ValueError as error:
            raise CommandError(f"--faults: {error}.") from None
        try:
            demo = json.loads(file.read_text())
            configs = [
                {key: robot[key] for key in ("id", "token", "capabilities")}
                | {"places": [[p["name"], p["x"], p["y"], p.get("theta", 0.0)] for p in robot["places"]]}
                | {"start": robot.get("start", ""), "url": demo["url"], "speed_up": speed_up, "seed": seed}
                | {"transport": options["transport"] or robot.get("transport", "ws"), "faults": wrong}
                | {"memory": str(file_of(file.parent / MEMORIES, robot["id"]))}
                for robot in demo["robots"][:count]
            ]
        except FileNotFoundError:
            raise CommandError(f"{file} is not there: `manage.py demo` makes it.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{file} is not as `manage.py demo` writes it: {error!r}.") from None
        if not configs:
            raise CommandError(f"{file} names no robots.")
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(_run(configs))


def _described() -> str:
    return "; ".join(f"{name} ({fault.unit}): {fault.what}" for name, fault in faults.FAULTS.items())


async def _run(configs: list[dict[str, Any]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await Pack(configs).run()
