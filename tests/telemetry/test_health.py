"""/healthz answers without I/O; /readyz names what is missing; no process starts on an unguarded database."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.utils import timezone

from fleet import triggers
from fleet.history import by_user
from fleet.robots.stopping import stop_robot
from fleet.running import startup
from missions.models import DeadLetter
from telemetry import snapshots
from telemetry.models import Partition
from telemetry.stream import GROUP, key
from telemetry.watching import health, notices


@pytest.fixture(autouse=True)
def no_notes_of_others():
    snapshots.client().delete(notices.KEY)


def worker_alive() -> None:
    Partition.objects.update_or_create(id=0, defaults={"owner": "w:1", "until": timezone.now() + timedelta(minutes=1)})


def test_healthz_needs_nothing_but_the_process(client):
    """No database fixture: any query would fail the test."""
    response = client.get("/healthz")
    assert response.status_code == 200


@pytest.mark.django_db
def test_readyz_is_200_when_all_is_there(client):
    worker_alive()
    response = client.get("/readyz")
    assert response.json() == {"ready": True, "missing": {}, "warnings": {}}
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("owner", "until_s"), [("w:1", -1), ("", 60)], ids=["its lease has run out", "nobody owns a partition"]
)
def test_readyz_misses_the_worker(client, owner, until_s):
    Partition.objects.update_or_create(
        id=0, defaults={"owner": owner, "until": timezone.now() + timedelta(seconds=until_s)}
    )
    response = client.get("/readyz")
    assert response.status_code == 503
    assert list(response.json()["missing"]) == ["worker"]
    assert "docs/trouble/stream-backs-up.md" in response.json()["missing"]["worker"]


@pytest.mark.django_db
def test_while_a_store_is_in_trouble_nobody_is_told_to_start_a_worker(client, monkeypatch):
    """A worker that runs cannot say so in a database that takes no writes, nor while it waits for its stream."""
    monkeypatch.setattr(health, "read_only", lambda: "it is a standby, or in recovery")
    missing = client.get("/readyz").json()["missing"]
    assert "read-only" in missing["database"]
    assert missing["worker"] == "unknown: see database"
    monkeypatch.setattr(health, "CHECKS", {name: lambda: "away" for name in ("durable redis", "worker")})
    assert health.state()[0] == {"durable redis": "away", "worker": "unknown: see durable redis"}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["durable redis", "live redis"])
def test_readyz_names_the_redis_that_is_down(client, monkeypatch, name):
    worker_alive()
    monkeypatch.setitem(health.CHECKS, name, health._redis("unix:///nowhere/redis.sock"))
    response = client.get("/readyz")
    assert response.status_code == 503
    assert list(response.json()["missing"]) == [name]
    assert "docs/trouble/redis-is-full.md" in response.json()["missing"][name]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("part", "cause"),
    [("durable redis", "redis_down"), ("live redis", "live_redis_down"), ("worker", "worker_missing")],
)
def test_what_is_missing_is_said_once(monkeypatch, part, cause):
    """A worker notes it as well. Noted of what this process reaches, it stays a warning."""
    monkeypatch.setattr(health.notices, "read", lambda: {cause: "noted", "clock": "noted"})
    for why, warnings in (("away", {"clock"}), ("", {cause, "clock"})):
        monkeypatch.setattr(health, "CHECKS", {part: lambda why=why: why})
        lacking, told = health.state()
        assert (lacking, set(told)) == ({part: why} if why else {}, warnings)


@pytest.mark.django_db
@pytest.mark.tampers
def test_readyz_names_a_missing_trigger(client):
    worker_alive()
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER drover_event_update ON fleet_event")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "drover_event_update" in response.json()["missing"]["database"]


@pytest.mark.django_db
def test_readyz_names_a_database_that_is_read_only(client):
    worker_alive()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('default_transaction_read_only', 'on', TRUE)")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "PostgreSQL is read-only (default_transaction_read_only is on)" in response.json()["missing"]["database"]


@pytest.mark.django_db
def test_readyz_names_a_migration_that_is_not_applied(client):
    worker_alive()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'telemetry'")
    assert "telemetry.0001_squashed" in client.get("/readyz").json()["missing"]["database"]


@pytest.mark.django_db
@pytest.mark.parametrize("error", [DatabaseError, InterfaceError])
def test_readyz_answers_when_the_database_does_not(client, monkeypatch, error):
    def down(*_, **__):
        raise error("connection\nrefused")

    monkeypatch.setattr(triggers, "problems", down)
    monkeypatch.setattr(Partition.objects, "filter", down)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert set(response.json()["missing"]) == {"database", "worker"}
    assert "connection refused" in response.json()["missing"]["database"]


@pytest.mark.django_db
def test_readyz_names_the_cause_as_alerts_and_the_log_do(client, monkeypatch):
    def full():
        raise OperationalError("connection failed: FATAL: could not write init file: No space left on device")

    monkeypatch.setattr(triggers, "problems", full)
    missing = client.get("/readyz").json()["missing"]["database"]
    assert missing.startswith("PostgreSQL's disk is full (") and "docs/trouble/disk-is-full.md" in missing


@pytest.mark.django_db
@pytest.mark.tampers
def test_no_process_starts_without_the_triggers(monkeypatch):
    monkeypatch.setattr(startup, "in_tests", lambda: False)
    monkeypatch.setattr(connection, "close", lambda: None)
    startup.check()
    triggers.drop()
    with pytest.raises(SystemExit, match=r"cannot start: trigger .* is missing; run `manage.py migrate`"):
        startup.check()


@pytest.mark.django_db
def test_check_invariants_is_content_with_a_new_database(capsys):
    call_command("check_invariants")
    assert "All invariants hold" in capsys.readouterr().out


@pytest.mark.django_db
def test_status_says_on_one_screen_who_works_what_waits_and_what_is_stopped(dispatched, supervisor, capsys, settings):
    worker_alive()
    stop_robot("RB-001", by=by_user(supervisor), why="blocked aisle")
    DeadLetter.objects.create(
        direction="in", robot_id="RB-009", msg_id=uuid4(), kind="mission.finished", body="{}",
        reason="unknown\nrobot", created_at=timezone.now(),
    )  # fmt: skip
    call_command("status")
    screen = capsys.readouterr().out
    for text in (
        "ready         yes",
        "w:1 owns 0\n",
        "nobody owns 1, 2, 3, 4, 5, 6, 7",
        "1 online",
        "0 waiting, 1 dispatched",
        "RB-001 on hold for 0 s: Stopped by Ana: blocked aisle",
        "mission.finished from RB-009: unknown robot",
    ):
        assert text in screen
    assert len(screen.splitlines()) < 40


@pytest.mark.django_db
def test_status_does_not_say_that_all_is_applied_of_a_partition_that_is_behind(capsys, settings):
    with redis.from_url(settings.REDIS_URL) as durable:
        durable.flushdb()
        durable.xgroup_create(key(3), GROUP, id="0", mkstream=True)
        call_command("status")
        assert "everything is applied" in capsys.readouterr().out
        durable.xadd(key(3), {"raw": "{}"}, id=f"{2**45}-1")  # no older than now
        call_command("status")
        durable.flushdb()
    screen = capsys.readouterr().out
    assert "partition 3: 1 events not applied, the oldest 0.0 s old" in screen
    assert "everything is applied" not in screen


@pytest.mark.django_db
def test_status_goes_on_when_a_store_is_down(settings, capsys):
    settings.REDIS_URL = "unix:///nowhere/redis.sock"
    call_command("status")
    screen = capsys.readouterr().out
    assert "backlog       unknown: the durable Redis does not answer" in screen
    assert "robots        none in service" in screen


@pytest.mark.django_db(transaction=True)
def test_readyz_answers_while_a_store_hangs_and_asks_it_once(client, monkeypatch):
    worker_alive()
    monkeypatch.setattr(health, "LIMIT_S", 0.05)
    released, asked = threading.Event(), []

    def hangs() -> str:
        asked.append(1)
        released.wait(10)
        return ""

    monkeypatch.setitem(health.CHECKS, "database", hangs)
    for _ in range(3):
        response = client.get("/readyz")
        assert response.status_code == 503
        missing = response.json()["missing"]["database"]
        assert missing == "does not answer within 2 s; see docs/trouble/database-takes-no-writes.md"
    assert asked == [1]
    released.set()
    health._under_way.pop("database").result(5)
