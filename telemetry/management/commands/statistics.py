"""`manage.py statistics --rebuild`: count the history anew. The numbers are the same as those that were counted on the way."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from telemetry.out.statistics import counting


class Command(BaseCommand):
    help = (
        "Count the statistics anew from the history, up to where the group `statistics` is. Nothing else waits for it."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rebuild", action="store_true", help="Throw the counts away and count anew.")

    def handle(self, *, rebuild: bool, **options: Any) -> None:
        if not rebuild:
            raise CommandError("Say --rebuild to count the history anew.")
        rows, counted = counting.rebuild()
        self.stdout.write(f"{counted} events counted in {rows} rows.")
