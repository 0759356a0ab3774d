"""Every committed event reaches the stream `out`, in order, and a relay that cannot work holds nothing up."""

import json

import pytest
import redis
from django.db import connection

from fleet.models import Event, Outbox
from missions.models import Mission
from telemetry.out import relay
from tests.telemetry.robots_talk import message, say, work


def passed_on(durable) -> list[dict]:
    return [json.loads(fields[b"event"]) for _, fields in durable.xrange(relay.OUT)]


def test_events_are_passed_on_in_order_and_leave_the_outbox(worker, clock, dispatched, durable):
    say(message("RB-001", "mission.accepted", mission=dispatched))
    first = Outbox.objects.order_by("event_id").first()
    Outbox.objects.filter(pk=first.pk).delete()
    first.save(force_insert=True)  # where a row lies in its table says nothing of its turn
    with connection.cursor() as cursor:
        for way in ("indexscan", "bitmapscan", "mergejoin", "hashjoin"):  # nor does the way in which they are found
            cursor.execute(f"SET LOCAL enable_{way} = off")
    work(worker, clock)
    got = passed_on(durable)
    events = list(Event.objects.order_by("id").values_list("id", "aggregate", "seq", "kind", "data", "state_to"))
    assert [(e["id"], e["aggregate"], e["seq"], e["kind"], e["data"], e["state_to"]) for e in got] == events
    assert not Outbox.objects.exists()


def test_a_claim_is_bounded_and_the_rest_follows(dispatched, durable, monkeypatch):
    monkeypatch.setattr(relay, "CLAIM", 2)
    one = relay.Relay(durable)
    count = Outbox.objects.count()
    assert count > 2
    assert one.step(0.0) is True
    assert Outbox.objects.count() == count - 2
    while one.step(0.0):
        pass
    assert [e["id"] for e in passed_on(durable)] == sorted(Event.objects.values_list("id", flat=True))


def test_a_refused_append_keeps_the_events_waits_and_is_said_once(dispatched, durable, caplog):
    one = relay.Relay(durable)
    waiting = Outbox.objects.count()
    durable.set(relay.OUT, "not a stream")
    assert one.step(0.0) is False
    assert one.step(relay.RETRY_S - 0.1) is False
    assert one.step(relay.RETRY_S + 0.1) is False
    assert Outbox.objects.count() == waiting
    assert len([r for r in caplog.records if "outbox" in r.message]) == 1
    durable.delete(relay.OUT)
    assert one.step(3 * relay.RETRY_S) is True
    assert len(passed_on(durable)) == waiting


def test_a_broken_relay_does_not_hold_up_what_robots_say(worker, clock, dispatched, monkeypatch):
    def broken(rows):
        raise redis.ConnectionError("gone")

    monkeypatch.setattr(worker.relay, "_append", broken)
    say(message("RB-001", "mission.accepted", mission=dispatched))
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    assert Outbox.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_one_relay_works_at_a_time(dispatched, durable):
    import threading

    from django.db import connection, transaction

    found = []

    def other() -> None:
        found.append(relay.Relay(durable).step(0.0))
        connection.close()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [relay._LOCK])
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert found == [False]
    assert relay.Relay(durable).step(0.0) is True
