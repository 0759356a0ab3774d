"""`manage.py backup`: the whole site as one file, while it runs."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.utils import timezone

from fleet.backups import backup
from fleet.running import startup


class Command(BaseCommand):
    help = (
        "Write history, rows, people and robots' credentials (digests) as one consistent file, while the site runs. "
        "Not in it: who is signed in, and Redis (robots repeat what was not applied)."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", type=Path, help="A folder (the file is named by the time) or a new .zip file.")
        parser.add_argument(
            "--keep", type=int, metavar="N", help="Afterwards delete all but the newest N of the folder."
        )

    def handle(self, *, target: Path, keep: int | None, **options: Any) -> None:
        if keep is not None and keep < 1:
            raise CommandError("--keep must be 1 or more.")
        is_file = target.suffix == ".zip" and not target.is_dir()
        if is_file and keep is not None:
            raise CommandError("--keep needs a folder as target.")
        if problems := startup.problems():
            raise CommandError(f"No backup of this database: {problems[0]}")
        now, began = timezone.now(), time.monotonic()
        file = target if is_file else target / f"drover-{now:%Y%m%dT%H%M%SZ}.zip"
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            manifest = backup.write(file, now)
        except OSError as error:
            raise CommandError(f"No backup: {file} could not be written ({error.strerror or error}).") from error
        except DatabaseError as error:
            raise CommandError(f"No backup: the database does not answer ({' '.join(str(error).split())}).") from error
        rows = sum(table.rows for table in manifest.tables)
        size = file.stat().st_size / 2**20
        self.stdout.write(f"{file}: {rows} rows, {size:.1f} MB, {time.monotonic() - began:.1f} s")
        for old in backup.prune(target, keep) if keep else ():
            self.stdout.write(f"deleted {old}")
