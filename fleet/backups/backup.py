"""Everything that PostgreSQL holds of a site, as one file: taken in one snapshot while the site runs.

A zip with one member per table (PostgreSQL's COPY text) and, last, `manifest.json`. History comes first, because the
triggers want events before the rows that they explain. Restoring is in `fleet.backups.restore`.
"""

import errno
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec
import psycopg
from django.apps import apps
from django.db import connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from fleet.models import Event

FORMAT = 1
MANIFEST = "manifest.json"
NAME = re.compile(r"drover-\d{8}T\d{6}Z\.zip")  # of files in a folder; `--keep` touches no other
LEFT_OUT = {  # table → why it is not part of a backup
    "django_session": "everybody signs in again",
    "fleet_sessionrecord": "it holds keys of sessions that may still live elsewhere",
    "telemetry_partition": "which worker works on what",
    "telemetry_workerprocess": "which workers run",
    "telemetry_failedtry": "about entries of a Redis that is not part of it",
}
_LEVEL = 3  # of compression: the disk is slower from here on


class Table(msgspec.Struct):
    name: str
    columns: list[str]
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct):
    """What the file holds. `migrations`: app → applied ones, in order of their names. `sequences`: last values."""

    made_at: datetime
    migrations: dict[str, list[str]]
    tables: list[Table]
    sequences: dict[str, int]
    format: int = FORMAT


def models_kept() -> list[type[models.Model]]:
    """Models whose tables are in a backup: all of them but `LEFT_OUT`, the history first."""
    found = {m._meta.db_table: m for m in apps.get_models(include_auto_created=True) if m._meta.managed}
    names = sorted(found.keys() - LEFT_OUT.keys(), key=lambda name: (name != Event._meta.db_table, name))
    return [found[name] for name in names]


def columns_of(model: type[models.Model]) -> list[str]:
    return [str(f.column) for f in model._meta.concrete_fields if not getattr(f, "generated", False)]


def write(file: Path, now: datetime) -> Manifest:
    """Write a backup: whole or not at all, readable by its owner only. Raises OSError or `django.db.Error`."""
    with _whole(file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        manifest = _dump(archive, now)
        archive.writestr(MANIFEST, json.dumps(msgspec.to_builtins(manifest), indent=1))
    return manifest


def newest(folder: Path) -> Path | None:
    """The newest backup of a folder that `backup` named."""
    return max((file for file in folder.iterdir() if NAME.fullmatch(file.name)), default=None)


def _dump(archive: zipfile.ZipFile, now: datetime) -> Manifest:
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:  # one snapshot for all of it; a test inside a transaction sees its own
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.ensure_connection()
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            tables = [_copy_out(cursor, archive, model) for model in models_kept()]
        return Manifest(now, applied_migrations(), tables, sequences())


def _copy_out(cursor: psycopg.Cursor[Any], archive: zipfile.ZipFile, model: type[models.Model]) -> Table:
    name, columns = model._meta.db_table, columns_of(model)
    order = sql.SQL(" ORDER BY id") if model is Event else sql.SQL("")  # each event after the one before it
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(name), order
    )
    rows, size, digest = 0, 0, hashlib.sha256()
    with archive.open(member(name), "w", force_zip64=True) as out, cursor.copy(query) as copy:
        for data in copy:
            out.write(data)
            digest.update(data)
            rows += bytes(data).count(b"\n")  # one a row: those in values are escaped
            size += len(data)
    return Table(name, columns, rows, size, digest.hexdigest())


def member(table: str) -> str:
    return f"{table}.copy"


def applied_migrations() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for app, name in sorted(MigrationRecorder(connection).applied_migrations()):
        found.setdefault(app, []).append(name)
    return squashed(found)


def squashed(migrations: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same, with a squash in the place of all those that it replaces: two ways to the same tables, one name."""
    found = {app: set(names) for app, names in migrations.items()}
    for (app, name), squash in MigrationLoader(None).replacements.items():
        replaced = {old for _, old in squash.replaces}
        if replaced <= found.get(app, set()):
            found[app] = found[app] - replaced | {name}
    return {app: sorted(names) for app, names in found.items()}


def sequences() -> dict[str, int]:
    """Last values, read after the tables: never behind what a row of the snapshot has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"
            " AND last_value IS NOT NULL"
        )
        return dict(cursor.fetchall())


@contextmanager
def _whole(file: Path) -> Iterator[IO[bytes]]:
    """A new file that appears under its name when it is complete and on disk; nothing is left of a failed one."""
    if file.exists():
        raise FileExistsError(errno.EEXIST, "there is such a file already", str(file))
    draft = file.with_name(f".{file.name}.partial")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
        _sync_folder(file.parent)
    except BaseException:  # raised again
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def prune(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` backups of a folder; which ones went."""
    files = sorted(file for file in folder.iterdir() if NAME.fullmatch(file.name))
    old = files[:-keep]
    for file in old:
        file.unlink()
    return old
