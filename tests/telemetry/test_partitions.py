"""Partitions are shared out fairly, taken from the dead, and never written by two."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from telemetry.models import Partition, WorkerProcess
from telemetry.partitions import Lost, Partitions, hold

pytestmark = pytest.mark.django_db


def died(owner: str) -> None:
    """As if it had stopped renewing a lease ago."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE telemetry_workerprocess SET until = now() - interval '1 s' WHERE name = %s", [owner])
        cursor.execute("UPDATE telemetry_partition SET until = now() - interval '1 s' WHERE owner = %s", [owner])


def test_a_lone_worker_takes_all():
    a = Partitions("a", 8)
    assert a.tend() == ({*range(8)}, set())
    assert a.tend() == (set(), set())
    assert sorted(Partition.objects.values_list("id", "owner", "fence")) == [(n, "a", 1) for n in range(8)]


def test_a_newcomer_gets_its_fair_share_and_each_change_of_owner_raises_the_fence():
    a, b, c = (Partitions(name, 8, lease_s=600) for name in "abc")
    a.tend()
    assert b.tend() == (set(), set())  # nothing is free yet
    assert a.tend() == (set(), {4, 5, 6, 7})
    assert b.tend() == ({4, 5, 6, 7}, set())
    assert all(fence == 2 for fence in b.fences.values())
    for worker in (c, a, b, c):
        worker.tend()
    assert [len(w.fences) for w in (a, b, c)] == [3, 3, 2]
    assert sorted([*a.fences, *b.fences, *c.fences]) == [*range(8)]


def test_the_partitions_of_a_dead_worker_go_to_the_living():
    a, b = (Partitions(name, 4, lease_s=600) for name in "ab")
    for worker in (a, b, a, b):
        worker.tend()
    died("a")
    assert b.tend() == ({0, 1}, set())
    assert len(b.fences) == 4


def test_a_killed_worker_is_seen_by_its_session_long_before_its_lease_ends():
    a, b = (Partitions(name, 4, lease_s=600) for name in "ab")
    for worker in (a, b, a, b):
        worker.tend()
    WorkerProcess.objects.filter(name="a").update(backend=0)  # no such session
    assert b.tend() == ({0, 1}, set())
    assert len(b.fences) == 4


def test_another_session_under_the_same_number_does_not_keep_a_dead_worker_alive():
    a, b = (Partitions(name, 2, lease_s=600) for name in "ab")
    for worker in (a, b, a, b):
        worker.tend()
    start = WorkerProcess.objects.get(name="a").backend_start
    WorkerProcess.objects.filter(name="a").update(backend_start=start - timedelta(seconds=1))
    assert b.tend() == ({0}, set())


def test_a_planned_end_frees_the_partitions_at_once():
    a, b = (Partitions(name, 4, lease_s=600) for name in "ab")
    a.tend()
    a.release()
    assert not WorkerProcess.objects.exists()
    assert b.tend()[0] == {0, 1, 2, 3}


def test_a_lease_that_ran_out_goes_on_when_nobody_else_wants_it():
    a = Partitions("a", 4, lease_s=600)
    a.tend()
    fences = dict(a.fences)
    died("a")
    assert a.tend() == (set(), set())
    assert a.fences == fences
    hold(0, fences[0])


def test_a_worker_that_was_frozen_cannot_write_after_another_took_over():
    a, b = (Partitions(name, 4, lease_s=600) for name in "ab")
    a.tend()
    died("a")
    b.tend()
    with pytest.raises(Lost), transaction.atomic():
        hold(0, a.fences[0])
    taken, lost = a.tend()  # it wakes up: b gives half back only at its next tend
    assert (taken, lost) == (set(), {0, 1, 2, 3})
    hold(0, b.fences[0])


def test_taking_back_what_was_lost_counts_as_taken_anew():
    a, b = (Partitions(name, 1, lease_s=600) for name in "ab")
    a.tend()
    died("a")
    b.tend()
    b.release()
    assert a.tend() == ({0}, set())
    assert a.fences == {0: 3}


@pytest.mark.django_db(transaction=True)
def test_a_partition_is_not_taken_in_the_middle_of_its_owners_batch():
    a, b = (Partitions(name, 2, lease_s=600) for name in "ab")
    a.tend()
    died("a")
    taken = []

    def other() -> None:
        taken.append(b.tend()[0])
        connection.close()

    with transaction.atomic():
        hold(0, a.fences[0])
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert taken == [{1}]
    assert b.tend()[0] == {0}


def test_a_partition_that_its_living_owner_does_not_know_of_is_free_when_its_lease_ends():
    """The commit that took it went through, but the answer was lost."""
    a = Partitions("a", 8, lease_s=600)
    a.tend()
    fence = a.fences.pop(2)
    assert a.tend() == (set(), set())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE telemetry_partition SET until = now() - interval '1 s' WHERE id = 2")
    assert a.tend() == ({2}, set())
    assert a.fences[2] == fence + 1
