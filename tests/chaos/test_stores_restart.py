"""Stores that die under a running worker: it goes on, nothing acknowledged is lost (I3), nothing happens twice."""

import signal

import pytest
from django.db import connection

from fleet.models import Event
from missions import invariants
from missions.models import DeadLetter, Mission
from telemetry.models import FailedTry, Partition, ProcessedMessage
from tests.chaos.scripted_robots import Cast, fleet_of
from tests.eventually import eventually
from tests.telemetry.robots_talk import whole_life

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


def assert_all_done_once(missions: list[Mission], cast: Cast) -> None:
    everything = sum(len(lines) for lines in cast.said.values())
    eventually(lambda: ProcessedMessage.objects.count() == everything, what="everything said is applied")
    assert set(Mission.objects.values_list("state", flat=True)) == {"success"}
    for kind in ("mission.started", "mission.succeeded"):
        assert Event.objects.filter(kind=kind).count() == len(missions)
    assert not DeadLetter.objects.exists()
    assert not FailedTry.objects.exists()
    assert invariants.check() == []


def acts(missions: list[Mission], steps: int) -> list[list[dict]]:
    """What all robots say, act by act."""
    return [list(lines) for lines in zip(*(whole_life(m, steps) for m in missions), strict=True)]


def test_a_durable_redis_killed_and_started_again_keeps_what_was_acknowledged(
    site, brand, environment, own_valkey, start_worker, settings
):
    environment["REDIS_URL"] = settings.REDIS_URL = own_valkey.url
    missions, cast = fleet_of(site, brand, 4, 3), Cast()
    worker = start_worker()
    eventually(lambda: Partition.objects.exclude(owner="").exists())
    first, second, *rest = acts(missions, 3)
    cast.play(first)
    worker.send_signal(signal.SIGSTOP)
    cast.play(second)  # acknowledged, and nobody there to apply it
    own_valkey.kill()
    own_valkey.start()
    worker.send_signal(signal.SIGCONT)
    for act in rest:
        cast.play(act)
        own_valkey.kill()
        own_valkey.start()
    assert_all_done_once(missions, cast)
    assert worker.poll() is None


def test_a_worker_whose_database_sessions_are_cut_goes_on(site, brand, start_worker):
    missions, cast = fleet_of(site, brand, 4, 5), Cast()
    worker = start_worker()
    eventually(lambda: Partition.objects.exclude(owner="").exists())
    for act in acts(missions, 5):
        cast.play(act)
        eventually(cut_sessions, what="the worker has a session again")
    assert_all_done_once(missions, cast)
    assert worker.poll() is None


def cut_sessions() -> int:
    """End all sessions with the database but this one; how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return cursor.fetchone()[0]
