"""`manage.py bench <name>`: measure on this machine, with stores of its own; exit code 1 if a target is missed."""

import importlib
import os
import subprocess
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from bench.report import show
from fleet.running.throwaway import stores

BENCHES = ("ingest", "pipeline", "stop", "storage", "vda")
_INSIDE = "DROVER_BENCH_STORES"


class Command(BaseCommand):
    help = "Measure. Starts its own PostgreSQL and Valkeys under DROVER_VAR and removes them again."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", choices=BENCHES)
        parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
        parser.add_argument("--quick", action="store_true", help="small: the shape counts, not the figures")
        parser.add_argument("--profile", action="store_true", help="also show where the time goes")

    def handle(self, *args: Any, **options: Any) -> None:
        if _INSIDE not in os.environ:  # settings are read once: a process of its own gets the stores' addresses
            with stores(settings.VAR / f"bench-{os.getpid()}") as environment:
                inside = {**os.environ, **environment, _INSIDE: "1", "SECRET_KEY": "bench" * 10, "LOG_LEVEL": "WARNING"}
                done = subprocess.run([sys.executable, *sys.argv], env=inside, check=False)
            sys.exit(done.returncode)
        bench = importlib.import_module(f"bench.{options['name']}")
        about, rows = bench.run(quick=options["quick"], profile=options["profile"])
        self.stdout.write(show(options["name"], about, rows, as_json=options["json"]))
        if any(r.ok is False for r in rows):
            sys.exit(1)
