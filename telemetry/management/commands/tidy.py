"""`manage.py tidy`: delete now what is old (telemetry/keeping/rules.py); workers do the same by themselves, hour by hour."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.utils import timezone

from telemetry.keeping.rules import RULES
from telemetry.keeping.tidying import MESSAGES, Tidying, old_rows


class Command(BaseCommand):
    help = "Delete rows that are older than the DROVER_KEEP_… settings say. The history is never deleted."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say how many rows would go; delete nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        if options["dry_run"]:
            with connection.cursor() as cursor:
                counts = {rule.table: old_rows(cursor, rule, now) for rule in RULES}
                until = now - timedelta(days=settings.KEEP_DAYS["messages"])
                cursor.execute(f"SELECT count(*) FROM {MESSAGES} WHERE applied_at < %s", [until])
                counts[MESSAGES] = cursor.fetchone()[0]
        else:
            tidying = Tidying()
            tidying.whole_round(now)
            counts = dict(tidying.deleted)
        for table, rows in counts.items():
            if rows:
                self.stdout.write(f"{table:<32}{rows:>12,}")
        done = "would go" if options["dry_run"] else "deleted"
        self.stdout.write(f"{sum(counts.values()):,} rows {done}")
