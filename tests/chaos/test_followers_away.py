"""Followers that were away for a day: real processes, killed on the way, a trimmed stream, a Redis that forgot."""

import ipaddress
import threading
from datetime import timedelta

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from fleet import triggers
from fleet.models import Event, Outbox
from missions.models import DeadLetter
from telemetry.out import relay
from telemetry.out.group import Follow
from telemetry.out.models import Follower, Sending, Tally
from telemetry.out.statistics import counting
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks import wanted
from tests.actors import SYSTEM
from tests.eventually import eventually
from tests.telemetry.receiver import receiver

pytestmark = [pytest.mark.processes, pytest.mark.tampers]
EVENTS = 200_000
RARE = 500  # every so many-th event is one that the webhook wants
MAXLEN = 500


@pytest.fixture(autouse=True)
def inside(monkeypatch):
    monkeypatch.setattr(settings, "WEBHOOK_NETS", [ipaddress.ip_network("127.0.0.1")])


def a_day_of(mission, count: int) -> None:
    """Committed events in the history and in the outbox, as workers would have left them; without their hashes."""
    triggers.drop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fleet_event (aggregate, seq, site_id, kind, schema, data, state_from, state_to, actor_kind, actor_id,"
            " actor_name, cause, trace_id, span_id, occurred_at, recorded_at, prev_hash, hash)"
            " SELECT 'mission:' || %s, 1000 + n, %s, CASE WHEN n %% %s = 0 THEN 'mission.late_receipt' ELSE"
            " 'mission.step_completed' END, 1, '{\"step\": ' || (n %% 3 + 1) || '}', '', '', 'robot', 'RB-001', 'Ella', '', '', '',"
            " now(), now(), ''::bytea, ''::bytea FROM generate_series(1, %s) AS n",
            [str(mission.pk), mission.site_id, RARE, count],
        )
        cursor.execute("INSERT INTO fleet_outbox SELECT id FROM fleet_event WHERE seq > 1000")
        cursor.execute("ANALYZE fleet_event, fleet_outbox")
    triggers.create()


def position(name: str) -> int:
    return Follower.objects.get(name=name).position


@pytest.mark.django_db(transaction=True)
def test_a_day_away_is_caught_up_exactly_once_through_kills_and_a_flush(mission, manage, monkeypatch):
    now = timezone.now()
    durable = redis.from_url(settings.REDIS_URL)
    with receiver() as there:
        environment = {"WEBHOOK_NETS": "127.0.0.1"}
        webhooks.create_webhook(name="MES", url=there.url, site=None, kinds=["mission.late_receipt"], by=SYSTEM)
        for group in (counting.GROUP, wanted.GROUP):
            follow = Follow(group)
            while follow.step(now):
                pass
        begin = position("statistics")
        Tally.objects.all().delete()
        a_day_of(mission, EVENTS)
        last = Event.objects.latest("id").pk

        monkeypatch.setattr(relay, "MAXLEN", MAXLEN)
        passed = relay.Relay(durable)
        while passed.step(0.0):
            pass
        assert not Outbox.objects.exists()
        assert durable.xlen(relay.OUT) < EVENTS / 50, "trimmed: nearly all of it is in the database only"

        for part in (0.2, 0.5):  # kill -9 on the way, twice
            process = manage("followers", more=environment)
            eventually(lambda part=part: position("statistics") > begin + part * EVENTS)
            process.kill()
            process.wait()
        assert position("statistics") < last, "killed before it had caught up"
        durable.flushdb()
        manage("followers", more=environment)
        eventually(lambda: min(position("statistics"), position("webhooks")) >= last, 90)
        eventually(lambda: not Sending.objects.filter(state="open").exists(), 90)

    counted = dict(Tally.objects.values_list("command").annotate(Sum("n")))
    assert sum(counted.values()) == EVENTS - EVENTS // RARE
    assert set(counted) == {"navigate", "pick", "drop"}
    way = list(
        Tally.objects.order_by("hour", "what", "detail", "command").values_list(
            "hour", "brand_id", "detail", "command", "n"
        )
    )
    counting.rebuild()
    anew = list(
        Tally.objects.order_by("hour", "what", "detail", "command").values_list(
            "hour", "brand_id", "detail", "command", "n"
        )
    )
    assert way == anew

    rare = list(
        Event.objects.filter(seq__gt=1000, kind="mission.late_receipt").order_by("id").values_list("id", flat=True)
    )
    assert len(rare) == EVENTS // RARE
    assert list(Sending.objects.order_by("event_id").values_list("event_id", flat=True)) == rare, "one row each"
    assert sorted(set(there.ids())) == rare
    assert len(there.ids()) <= len(rare) + 2, "again only what was under way when it was killed"
    assert not DeadLetter.objects.exists()
    assert timezone.now() - now < timedelta(minutes=5)


@pytest.mark.django_db(transaction=True)
def test_it_ends_at_once_when_told_to_also_while_a_receiver_hangs(mission, manage):
    go, inside = threading.Event(), threading.Event()
    with receiver() as there:
        there.answers[""] = lambda handler: [inside.set(), go.wait(20)]
        hook = webhooks.create_webhook(name="MES", url=there.url, site=None, kinds=["mission.*"], by=SYSTEM)
        webhooks.send_test(hook.pk)
        process = manage("followers", more={"WEBHOOK_NETS": "127.0.0.1"})
        assert inside.wait(30)
        process.terminate()
        assert process.wait(15) == 0  # the receiver lets go after 20 s
        go.set()
