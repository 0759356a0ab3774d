"""Puts a backup into an empty database: checked before anything is written, all of it or nothing, triggers on.

A backup of an older Drover is loaded into tables of its own time, which are then migrated; one of a newer is refused.
"""

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

from fleet import triggers
from fleet.backups.backup import (
    FORMAT,
    LEFT_OUT,
    MANIFEST,
    Manifest,
    Table,
    applied_migrations,
    member,
    models_kept,
    squashed,
)
from fleet.models import Event, Outbox

EVENT_ID_JUMP = 1_000_000  # readers of events remember ids: none is given out twice, also not one that was lost
MADE_BY_MIGRATE = {  # rows that a new database has; the backup's take their place
    "auth_group", "auth_group_permissions", "auth_permission", "django_content_type", *LEFT_OUT,
}  # fmt: skip
_CHUNK = 1 << 18


class Unusable(Exception):
    """This file, or this database, will not do. The text says why and what to do."""


def _manifest(file: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        text = archive.read(MANIFEST)
        version = msgspec.json.decode(text, type=dict[str, Any]).get("format")
        if version != FORMAT:
            raise Unusable(f"{file} has format {version}; this Drover reads {FORMAT}. Restore it with a newer one.")
        return msgspec.json.decode(text, type=Manifest)
    except KeyError:
        raise Unusable(f"{file} is no backup of Drover, or it was cut short: it has no {MANIFEST}.") from None
    except msgspec.MsgspecError as error:
        raise Unusable(f"{file} is damaged: its {MANIFEST} cannot be read ({error}). Take another one.") from None


def check_file(file: Path) -> Manifest:
    """Read all of it and compare with the manifest. Raises `Unusable`; touches no database."""
    with _opened(file) as archive:
        manifest = _manifest(file, archive)
        for table in manifest.tables:
            rows, digest = 0, hashlib.sha256()
            with archive.open(member(table.name)) as source:
                while data := source.read(_CHUNK):
                    digest.update(data)
                    rows += data.count(b"\n")
            if (digest.hexdigest(), rows) != (table.sha256, table.rows):
                raise Unusable(f"{file} is damaged: {table.name} is not what was written. Take another one.")
    return manifest


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        raise Unusable(f"{file} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zipfile.zlib.error, EOFError, KeyError, NotImplementedError) as error:  # type: ignore[attr-defined]
        raise Unusable(f"{file} is damaged or no backup of Drover ({error}). Take another one.") from None


def load(file: Path, manifest: Manifest, *, after: Callable[[Any], None] = lambda cursor: None) -> None:
    """Into the database that the settings name. Raises `Unusable` when it is not empty, and then nothing was changed.

    `after(cursor)` is called in the transaction, once all rows are in.
    """
    _refuse_newer(file, manifest)
    if not connection.introspection.table_names():
        _make_tables(manifest)
    same = _refuse_unfit(file, manifest)
    with _opened(file) as archive, transaction.atomic():
        connection.ensure_connection()
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            for name in sorted(MADE_BY_MIGRATE & set(connection.introspection.table_names())):
                cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
            for table in manifest.tables:
                _copy_in(cursor, archive, table)
                if table.name == Event._meta.db_table:  # a trigger puts each into the outbox; it has its own rows
                    cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(Outbox._meta.db_table)))
            _set_sequences(cursor, manifest)
            after(cursor)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is wrong is wrong now, not at the end
    if not same:
        call_command("migrate", interactive=False, verbosity=0)


def _refuse_newer(file: Path, manifest: Manifest) -> None:
    known = MigrationExecutor(connection).loader.disk_migrations or {}
    new = [f"{app}.{name}" for app, names in manifest.migrations.items() for name in names if (app, name) not in known]
    if new:
        raise Unusable(
            f"{file} was made by a newer Drover: {', '.join(new[:3])} {'is' if len(new) == 1 else 'are'} not known here. "
            "Install the version that made it (or a later one), then restore."
        )


def _make_tables(manifest: Manifest) -> None:
    """Tables as they were when the backup was made; with triggers, if they are as they are now."""
    executor = MigrationExecutor(connection)
    targets = [(app, names[-1]) for app, names in squashed(manifest.migrations).items()]
    if not set(targets) <= executor.loader.graph.nodes.keys():  # in the middle of what a squash replaces
        executor.loader = MigrationLoader(connection, replace_migrations=False)
        targets = [(app, names[-1]) for app, names in manifest.migrations.items()]
    executor.migrate(targets)
    if not _pending():
        triggers.create()


def _pending() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _refuse_unfit(file: Path, manifest: Manifest) -> bool:
    """Is the database as new as this code? Refused when rows are in it, or when its tables are not the backup's."""
    if applied_migrations() != squashed(manifest.migrations):
        raise Unusable(
            f"The tables of this database are not of the version that made {file}. Make a new, empty database "
            "(createdb), name it in DATABASE_URL and restore into that: it gets the right tables by itself."
        )
    tables = set(connection.introspection.table_names()) & {m._meta.db_table for m in models_kept()} - MADE_BY_MIGRATE
    with connection.cursor() as cursor:
        for name in sorted(tables):
            cursor.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")')
            if cursor.fetchone()[0]:
                raise Unusable(
                    f"This database is not empty ({name} has rows), and a restore overwrites nothing. Make a new one "
                    "(createdb), name it in DATABASE_URL, and restore into that."
                )
    same = not _pending()
    if same and (wrong := triggers.problems()):
        raise Unusable(f"This database is not guarded: {wrong[0]}")
    return same


def _copy_in(cursor: psycopg.Cursor[Any], archive: zipfile.ZipFile, table: Table) -> None:
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
    )
    with archive.open(member(table.name)) as source, cursor.copy(query) as copy:
        while data := source.read(_CHUNK):
            copy.write(data)
    if cursor.rowcount != table.rows:
        raise Unusable(f"{table.name} has {cursor.rowcount} rows instead of {table.rows}; nothing was kept.")


def _set_sequences(cursor: psycopg.Cursor[Any], manifest: Manifest) -> None:
    for name, value in manifest.sequences.items():
        cursor.execute("SELECT setval(to_regclass(%s), %s)", [name, value])
    events = Event._meta.db_table
    cursor.execute(
        f"SELECT setval(pg_get_serial_sequence('{events}', 'id'), coalesce(max(id), 0) + %s) FROM {events}",
        [EVENT_ID_JUMP],
    )
