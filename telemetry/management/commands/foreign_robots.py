"""`manage.py foreign_robots`: the demo's robots that others wrote, all in one process of Node."""

import json
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from fleet.running import foreign
from telemetry.simulator import foreign_robots


class Command(BaseCommand):
    help = "Run virtual VDA 5050 robots (vda-5050-lib) on the broker MQTT_URL. Which ones stands in robots.json."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--speed-up", type=float, default=1.0, help="Their time runs so many times faster (1).")
        parser.add_argument("--file", type=Path, default=settings.VAR / "robots.json", help="robots.json to read.")

    def handle(self, *, speed_up: float, file: Path, **options: Any) -> None:
        if not settings.MQTT_URL:
            raise CommandError("MQTT_URL is not set, such as mqtt://127.0.0.1:1883.")
        if lacks := foreign.missing():
            raise CommandError(lacks)
        try:
            robots = json.loads(file.read_text())["foreign"]
        except FileNotFoundError:
            raise CommandError(f"{file} is not there: `manage.py demo --foreign` makes it.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{file} is not as `manage.py demo --foreign` writes it: {error!r}.") from None
        node, npm = foreign.program("node"), foreign.program("npm")
        assert node and npm
        folder = settings.VAR / "foreign"
        try:
            foreign_robots.install(npm, folder)
        except (RuntimeError, OSError) as error:
            raise CommandError(str(error)) from None
        config = {"broker": settings.MQTT_URL, "robots": robots, "timeLapse": speed_up}
        os.execve(node, foreign_robots.command(node, config), foreign_robots.environment(folder))  # noqa: S606
