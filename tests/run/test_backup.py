"""Backup and restore: nothing is missing, nothing half, nothing overwritten; what is damaged or too new is refused."""

import errno
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from fleet.backups import backup, restore
from fleet.models import Event, Outbox, Robot
from fleet.robots import credentials, stopping
from missions import drawing_up as mission_actions
from missions.models import Mission
from telemetry import generation
from telemetry.gateways.rows import open_session
from tests.actors import STEPS, SYSTEM
from tests.chaos.conftest import database_url

pytestmark = pytest.mark.processes


@pytest.fixture
def lived(dispatched, other_robot, supervisor, client) -> Mission:
    """A site with some history: a mission under way, a stop, credentials, links, somebody signed in."""
    credentials.issue_credential("RB-001", label="häfen \t tab \\ slash\nline", by=SYSTEM)
    stopping.stop_robot("RB-002", by=SYSTEM, why="blocked aisle")
    open_session("RB-001", "gateway:1")
    client.force_login(supervisor)
    return dispatched


@pytest.fixture
def archive(lived, tmp_path) -> Path:
    call_command("backup", tmp_path / "night.zip", verbosity=0)
    return tmp_path / "night.zip"


@pytest.fixture(scope="module")
def blank(django_db_setup, django_db_blocker) -> Iterator[str]:
    """A database with tables and no rows, to make others after: migrating each of them takes longer than their tests."""
    with django_db_blocker.unblock():
        connection.close()  # who copies a database wants it to be left alone
    name = f"{connection.settings_dict['NAME']}_blank"
    with psycopg.connect(database_url("postgres"), autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}"')
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{connection.settings_dict["NAME"]}"')
        yield name
        server.execute(f'DROP DATABASE "{name}"')


@pytest.fixture
def empty(blank, db) -> Iterator[str]:
    """URL of a new database without rows on the same server."""
    name = f"{connection.settings_dict['NAME']}_restored"
    with psycopg.connect(database_url("postgres"), autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{blank}"')
        yield database_url(name)
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def no_tables(empty) -> None:
    with psycopg.connect(empty) as there:
        there.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.fixture
def manage(empty) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A manage.py command on the new database and a Redis of its own."""
    redis_url = settings.REDIS_URL.partition("?")[0] + "?db=40"
    environment = {**os.environ, "DATABASE_URL": empty, "REDIS_URL": redis_url, "SECRET_KEY": "x" * 50}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *map(str, arguments)]
        return subprocess.run(
            command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def contents(cursor, table: str, columns: list[str]) -> list[tuple]:
    names = ", ".join(f'"{column}"' for column in columns)
    cursor.execute(f'SELECT t::text FROM (SELECT {names} FROM "{table}") AS t ORDER BY 1')
    return cursor.fetchall()


def test_every_row_of_every_table_comes_back_with_triggers_on(lived, archive, empty, manage, no_tables):
    result = manage("restore", archive)
    assert result.returncode == 0, result.stderr
    assert "All invariants hold." in result.stdout
    with connection.cursor() as here, psycopg.connect(empty) as there, there.cursor() as cursor:
        told = {"fleet_event", "fleet_outbox", "fleet_alert", "fleet_alerttally"}  # the alert that it was restored
        for model in backup.models_kept():
            table, columns = model._meta.db_table, backup.columns_of(model)
            before, after = contents(here, table, columns), contents(cursor, table, columns)
            if table != "telemetry_link":
                assert set(before) <= set(after), table
                assert len(after) - len(before) == (table in told), table
        cursor.execute("SELECT text FROM fleet_alert WHERE cause = 'restored' AND cleared_at IS NULL")
        assert "what happened after it is lost" in cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM django_session")
        assert cursor.fetchone() == (0,), "everybody signs in again"
        cursor.execute("SELECT robot_id, session, gateway FROM telemetry_link ORDER BY 1")
        links = cursor.fetchall()
        assert links == [("RB-001", generation.SPAN + 1, ""), ("RB-002", generation.SPAN + 1, "")]
        with pytest.raises(psycopg.errors.CheckViolation, match="append-only"):
            cursor.execute("DELETE FROM fleet_event")
    assert Session.objects.count() == 1
    assert Outbox.objects.count() == Event.objects.count()


def test_numbers_go_on_above_those_of_the_backup(archive, empty, manage):
    assert manage("restore", archive).returncode == 0
    last = Event.objects.order_by("-id").first().pk
    with psycopg.connect(empty) as there:
        assert there.execute("SELECT nextval('fleet_event_id_seq')").fetchone()[0] > last + restore.EVENT_ID_JUMP
        number = there.execute("SELECT nextval('fleet_command_order')").fetchone()[0]
        assert number > there.execute('SELECT max("order") FROM fleet_command').fetchone()[0]


def test_a_database_with_rows_is_never_touched(archive, empty, manage):
    assert manage("restore", archive).returncode == 0
    again = manage("restore", archive)
    assert again.returncode == 1
    assert "This database is not empty" in again.stderr
    assert "Traceback" not in again.stderr
    assert "All invariants hold." in manage("check_invariants").stdout


def rewritten(archive: Path, change: Callable[[dict], None], *, member: str = "", text: bytes = b"") -> Path:
    """The same backup with another manifest, or with another member."""
    target = archive.with_name("changed.zip")
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as out:
        for name in source.namelist():
            data = source.read(name)
            if name == backup.MANIFEST:
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
            out.writestr(name, text if name == member else data)
    return target


def as_they_were(manifest: dict) -> None:
    """Its migrations become those of before they were squashed."""
    for (app, name), squash in MigrationLoader(None).replacements.items():
        names = manifest["migrations"][app]
        names[:] = sorted({*names, *(old for _, old in squash.replaces)} - {name})


def test_a_backup_of_before_the_migrations_were_squashed_is_one_of_today(archive, manage):
    result = manage("restore", rewritten(archive, as_they_were))
    assert result.returncode == 0, result.stderr


TABLES = """
SELECT table_name::text, column_name::text, data_type::text, is_nullable::text, column_default::text, generation_expression::text
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT tablename, indexname, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '' FROM pg_constraint
  WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT '', sequencename, data_type::text, '', '', '' FROM pg_sequences WHERE schemaname = 'public'"""


def test_a_backup_of_an_older_version_is_restored_and_migrated(archive, empty, manage, no_tables):
    """The last migration of admin changes no column, so that a file of today stands for one of before it."""
    old = rewritten(archive, lambda manifest: manifest["migrations"]["admin"].pop())
    result = manage("restore", old)
    assert result.returncode == 0, result.stderr
    assert "All invariants hold." in result.stdout
    assert "[ ]" not in manage("showmigrations").stdout
    with psycopg.connect(empty) as there:
        assert there.execute("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'drover%'").fetchone()[0] > 5


def in_the_middle(manifest: dict) -> None:
    """A site without rows, from before the last of the migrations of missions that were squashed."""
    manifest["tables"] = []
    for (app, _), squash in MigrationLoader(None).replacements.items():
        manifest["migrations"][app] = [name for _, name in squash.replaces]
    manifest["migrations"]["missions"].pop()


def test_one_from_the_middle_of_what_was_squashed_goes_step_by_step_to_the_tables_of_today(
    archive, empty, manage, no_tables
):
    result = manage("restore", rewritten(archive, in_the_middle))
    assert result.returncode == 0, result.stderr
    with psycopg.connect(empty) as there:
        step_by_step = set(there.execute(TABLES))
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        assert step_by_step ^ set(cursor.fetchall()) == set()


def test_a_failed_restore_leaves_the_database_empty(archive, empty, manage):
    """History that the triggers refuse: an event is missing in the middle."""
    with zipfile.ZipFile(archive) as source:
        events = source.read("fleet_event.copy").splitlines(keepends=True)
    text = b"".join(events[:1] + events[2:])

    def honest(manifest: dict) -> None:
        table = next(t for t in manifest["tables"] if t["name"] == "fleet_event")
        table |= {"rows": len(events) - 1, "sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}

    result = manage("restore", rewritten(archive, honest, member="fleet_event.copy", text=text))
    assert result.returncode == 1
    assert "Nothing was restored" in result.stderr
    with psycopg.connect(empty) as there:
        for table in ("fleet_event", "fleet_robot", "auth_user"):
            assert there.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert manage("restore", archive).returncode == 0


def refused(file: Path) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("restore", file, check=True)
    return str(caught.value)


def test_a_file_that_is_damaged_is_refused_before_the_database_is_asked(archive, tmp_path):
    data = archive.read_bytes()
    file = tmp_path / "bad.zip"
    for broken in (data[: len(data) // 2], b"no zip at all", b""):
        file.write_bytes(broken)
        assert "damaged" in refused(file)
    with zipfile.ZipFile(archive) as source:
        at = source.getinfo("fleet_event.copy").header_offset + 80
    file.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    assert "damaged" in refused(file)
    assert "is damaged: fleet_robot" in refused(rewritten(archive, lambda m: None, member="fleet_robot.copy", text=b""))
    with zipfile.ZipFile(archive) as source:  # as many rows, and the zip is sound
        other = source.read("fleet_robot.copy").replace(b"Ella", b"Emma")
    assert "is damaged: fleet_robot" in refused(
        rewritten(archive, lambda m: None, member="fleet_robot.copy", text=other)
    )
    assert "cannot be read: No such file" in refused(tmp_path / "absent.zip")


def test_a_zip_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "holiday.zip", "w") as other:
        other.writestr("photo.jpg", b"x")
    assert "no backup of Drover" in refused(tmp_path / "holiday.zip")


def test_a_file_of_a_newer_version_is_refused(archive, db):
    newer = rewritten(archive, lambda manifest: manifest["migrations"]["fleet"].append("0999_from_the_future"))
    with pytest.raises(restore.Unusable, match=r"made by a newer Drover: fleet.0999_from_the_future is not known here"):
        restore.load(newer, restore.check_file(newer))
    assert "has format 2" in refused(rewritten(archive, lambda manifest: manifest.update(format=2)))


def test_the_redis_of_a_site_is_emptied_only_when_told_to(archive, manage, monkeypatch):
    with redis.from_url(settings.REDIS_URL.partition("?")[0] + "?db=40") as durable:
        durable.set("seen:{1}:RB-001:x", 1)
        result = manage("restore", archive)
        assert result.returncode == 1
        assert "say --empty-redis" in result.stderr
        assert durable.exists("seen:{1}:RB-001:x")
        assert manage("restore", archive, "--empty-redis").returncode == 0
        assert durable.dbsize() == 0


# --- writing


def test_only_its_owner_may_read_it(archive, tmp_path):
    assert archive.stat().st_mode & 0o777 == 0o600
    call_command("backup", tmp_path / "new", verbosity=0)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "new").iterdir()
    assert backup.NAME.fullmatch(file.name)


def test_no_token_and_no_session_is_in_it(lived, tmp_path, client):
    token = credentials.issue_credential("RB-001", by=SYSTEM)
    call_command("backup", tmp_path / "b.zip", verbosity=0)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        everything = b"".join(archive.read(name) for name in archive.namelist())
    assert token.encode() not in everything
    assert hashlib.sha256(token.encode()).hexdigest().encode() in everything, "its digest is"
    assert client.session.session_key.encode() not in everything


def test_a_full_disk_leaves_no_half_file(lived, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CommandError, match="could not be written"):
            call_command("backup", tmp_path / "b.zip")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_overwritten(archive):
    before = archive.read_bytes()
    with pytest.raises(CommandError, match="there is such a file already"):
        call_command("backup", archive)
    assert archive.read_bytes() == before


def test_keep_deletes_the_oldest_of_its_own_files(lived, tmp_path):
    for day in (1, 2, 3):
        (tmp_path / f"drover-2026110{day}T000000Z.zip").touch()
    (tmp_path / "holiday.zip").touch()
    call_command("backup", tmp_path, keep=2, verbosity=0)
    left = sorted(file.name for file in tmp_path.iterdir())
    assert len(left) == 3
    assert left[0] == "drover-20261103T000000Z.zip"
    assert left[2] == "holiday.zip"
    for arguments in ({"keep": 0}, {"keep": 1, "target": tmp_path / "x.zip"}):
        with pytest.raises(CommandError, match="--keep"):
            call_command("backup", arguments.pop("target", tmp_path), **arguments)


def test_the_manifest_says_what_is_in_the_file(lived, archive):
    manifest = restore.check_file(archive)
    rows = {table.name: table.rows for table in manifest.tables}
    assert rows["fleet_event"] == Event.objects.count()
    assert rows["fleet_robot"] == Robot.objects.count() == 2
    assert manifest.tables[0].name == "fleet_event", "history before rows"
    assert rows.keys() == {m._meta.db_table for m in backup.models_kept()}
    assert manifest.migrations["fleet"][0].startswith("0001_")


@pytest.mark.django_db(transaction=True)
def test_it_is_one_moment_whatever_is_committed_meanwhile(dispatched, supervisor, tmp_path, monkeypatch):
    """While tables are written another process draws up a mission: neither its event nor its row is in the file."""
    copy_out, before = backup._copy_out, Event.objects.count()

    def busy(cursor, archive, model):
        if model is Robot:  # events are written, missions are not

            def draw_up() -> None:
                site = dispatched.site
                mission_actions.draft_mission(title="Meanwhile", site=site, robot=None, steps=STEPS, by=SYSTEM)
                connection.close()

            thread = threading.Thread(target=draw_up)
            thread.start()
            thread.join()
        return copy_out(cursor, archive, model)

    monkeypatch.setattr(backup, "_copy_out", busy)
    manifest = backup.write(tmp_path / "b.zip", timezone.now())
    rows = {table.name: table.rows for table in manifest.tables}
    assert Event.objects.count() == before + 1
    assert (rows["fleet_event"], rows["missions_mission"]) == (before, 1)


def test_what_is_left_out_is_there_and_said_why():
    tables = {m._meta.db_table for m in apps.get_models(include_auto_created=True)}
    assert backup.LEFT_OUT.keys() <= tables
    assert all(backup.LEFT_OUT.values())


def test_no_space_is_an_error_in_words(lived, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandError, match="No space left on device"):
        call_command("backup", tmp_path / "b.zip")
    assert list(tmp_path.iterdir()) == []
