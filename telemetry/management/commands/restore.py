"""`manage.py restore`: a backup into an empty database, checked before and after."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import redis
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.db import connection

from fleet.alerts.actions import raise_alert
from fleet.backups import backup, restore
from fleet.models import Severity
from fleet.wording import minute
from telemetry import generation, partitions


class Command(BaseCommand):
    help = (
        "Put a backup into an empty database. Stop web and workers first. Everybody signs in again; robots say hello "
        "anew and repeat what the backup does not know."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="A backup, or a folder: the newest one in it.")
        parser.add_argument(
            "--empty-redis", action="store_true",
            help="Delete what the durable Redis holds of the site as it was after the backup.",
        )  # fmt: skip
        parser.add_argument("--check", action="store_true", help="Only read the file and say whether it is whole.")

    def handle(self, *, file: Path, empty_redis: bool, check: bool, **options: Any) -> None:
        began = time.monotonic()
        if file.is_dir():
            found = backup.newest(file)
            if found is None:
                raise CommandError(f"There is no backup in {file}.")
            file = found
        try:
            manifest = restore.check_file(file)
            rows = sum(table.rows for table in manifest.tables)
            self.stdout.write(f"{file} is whole: {rows} rows, made {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC")
            if check:
                return
            self._refuse_running()
            self._empty(empty_redis)
            restore.load(file, manifest, after=generation.begin)
        except restore.Unusable as error:
            raise CommandError(str(error)) from None
        except DatabaseError as error:
            raise CommandError(f"Nothing was restored: {' '.join(str(error).split())}") from error
        raise_alert(
            "restored", severity=Severity.WARNING, lasts=False,
            text=f"Restored from a backup of {minute(manifest.made_at)}: what happened after it is lost. Look at "
            "robots that run without a mission, and at tokens and roles that were taken away since.",
        )  # fmt: skip
        self.stdout.write(f"restored in {time.monotonic() - began:.1f} s; now the history is checked against the rows")
        call_command("check_invariants", stdout=self.stdout, stderr=self.stderr)

    def _refuse_running(self) -> None:
        if "telemetry_workerprocess" in connection.introspection.table_names() and partitions.living():
            raise CommandError("A worker works on this database. Stop web and workers, then restore.")

    def _empty(self, allowed: bool) -> None:
        try:
            left = generation.streams_left()
            if left and not allowed:
                raise CommandError(
                    f"The durable Redis holds {left} keys of a running or former site. Is REDIS_URL the right one? If "
                    "they are of the site that is lost, say --empty-redis: robots repeat what was not applied."
                )
            if left:
                self.stdout.write(f"emptied the durable Redis ({generation.forget_streams()} keys)")
        except redis.RedisError as error:
            raise CommandError(
                f"The durable Redis does not answer ({error}). Start it: what robots said after the backup has to go."
            ) from error
