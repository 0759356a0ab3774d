"""Whatever a receiver does, it gets all in order when it is well again, and nobody waits for it."""

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Alert
from fleet.robots import stopping
from missions import actions, drawing_up
from missions.models import DeadLetter
from telemetry.out.models import Sending, WebhookLane
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks.lanes import Lanes
from telemetry.out.webhooks.outcomes import wait_s
from telemetry.out.webhooks.posting import Connection
from telemetry.out.webhooks.sending import Lane
from tests.actors import STEPS, SYSTEM
from tests.telemetry.receiver import receiver
from tests.telemetry.webhooks.sending import fan_out, send, states


def test_the_pauses_of_a_receiver_in_trouble():
    assert [wait_s(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 32, 64]
    assert wait_s(13) == 3600 == wait_s(10_000)


def test_a_receiver_that_fails_then_recovers_gets_everything_in_order(hook, there, mission, supervisor):
    fan_out()
    there.answers[""] = 503
    begin = timezone.now()
    assert send(hook, begin) == 1, "one try; the rest waits without being tried"
    assert send(hook, begin + timedelta(seconds=0.9)) == 0
    assert send(hook, begin + timedelta(seconds=1)) == 1
    assert send(hook, begin + timedelta(seconds=2.9)) == 0
    assert send(hook, begin + timedelta(seconds=3)) == 1
    there.answers[""] = 200
    actions.queue_mission(mission.pk, by=by_user(supervisor))
    fan_out()
    newest = Sending.objects.order_by("event_id").last()
    Sending.objects.filter(pk=newest.pk).update(due_at=begin + timedelta(hours=1))  # as after many tries
    assert send(hook, begin + timedelta(seconds=7)) == len(states()) >= 3
    assert there.ids() == sorted(there.ids())
    assert set(states()) == {"delivered"}
    lane = WebhookLane.objects.get(pk=hook.pk)
    assert (lane.failures, lane.failing_since, lane.rests_until) == (0, None, None)


def test_it_waits_as_long_as_the_receiver_asks(hook, there, mission):
    def busy(handler):
        handler.send_response(429)
        handler.send_header("Retry-After", "120")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    fan_out()
    there.answers[""] = busy
    begin = timezone.now()
    send(hook, begin)
    there.answers[""] = 200
    assert send(hook, begin + timedelta(seconds=119)) == 0
    assert send(hook, begin + timedelta(seconds=120)) > 0


@pytest.mark.parametrize(("asked", "rests_s"), [("9" * 5000, 3600), ("9" * 30, 3600), ("-5", 1), ("tomorrow", 1)])
def test_whatever_the_receiver_asks_for_it_rests_and_never_for_longer_than_an_hour(
    hook, there, mission, asked, rests_s
):
    def answer(handler):
        handler.send_response(503)
        handler.send_header("Retry-After", asked)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    fan_out()
    there.answers[""] = answer
    now = timezone.now()
    assert send(hook, now) == 1
    assert WebhookLane.objects.get().rests_until == now + timedelta(seconds=rests_s)


def test_an_event_that_is_refused_holds_up_only_what_comes_after_it_about_the_same(
    hook, there, mission, supervisor, site
):
    other = drawing_up.draft_mission(title="Other", site=site, robot="RB-001", steps=STEPS, by=by_user(supervisor))
    fan_out()
    send(hook)
    there.answers["mission.priority_set"] = 422
    actions.set_priority(mission.pk, priority=60, by=by_user(supervisor))
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    actions.cancel_mission(other, by=by_user(supervisor))
    fan_out()
    begin = timezone.now()
    assert send(hook, begin) == 2
    assert there.got[-1]["about_id"] == str(other)
    assert WebhookLane.objects.get(pk=hook.pk).failures == 0
    there.answers.clear()
    assert send(hook, begin + timedelta(seconds=1)) >= 2
    mine = [told["kind"] for told in there.got if told["about_id"] == str(mission.pk)]
    assert mine[-2:] == ["mission.priority_set", "mission.aborted"]


def test_somebody_is_told_and_after_a_day_without_success_it_is_switched_off(hook, there, mission):
    fan_out()
    there.answers[""] = 500
    begin = timezone.now()
    send(hook, begin)
    send(hook, begin + timedelta(minutes=4))
    assert not Alert.objects.exists()
    send(hook, begin + timedelta(minutes=6))
    [alert] = Alert.objects.filter(cleared_at=None)
    assert "MES" in alert.text
    assert "127.0.0.1 took nothing" in alert.text
    there.answers[""] = 200
    send(hook, begin + timedelta(minutes=20))
    assert not Alert.objects.filter(cleared_at=None).exists()
    there.answers[""] = 500
    stopping.stop_robot("RB-001", by=SYSTEM)
    fan_out()
    send(hook, begin + timedelta(hours=1))
    send(hook, begin + timedelta(hours=25.5))
    hook.refresh_from_db()
    assert hook.enabled is False
    [alert] = Alert.objects.filter(cleared_at=None)
    assert "switched off" in alert.text
    assert "open" not in states()
    assert DeadLetter.objects.filter(state="open").count() == states().count("dead") >= 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (301, "301"),
        (lambda handler: setattr(handler, "close_connection", True), "RemoteDisconnected"),
        (lambda handler: handler.wfile.write(b"\xff\x00 not http at all\r\n\r\n"), "BadStatusLine"),
    ],
)
def test_what_is_no_answer_is_said_and_no_redirect_is_followed(hook, there, mission, answer, said):
    there.answers[""] = answer
    fan_out()
    send(hook)
    row = Sending.objects.exclude(tried_at=None).get()
    assert row.state == "open"
    assert said in (str(row.status) if row.status else row.answer)
    assert "\x00" not in row.answer
    assert len(there.raw) == 1


def test_a_receiver_that_drips_is_cut_off(hook, there, mission):
    """Each byte comes in time and the answer never does."""
    stop = threading.Event()

    def drip(handler):
        while not stop.wait(0.02):
            try:
                handler.wfile.write(b"H")
                handler.wfile.flush()
            except OSError:
                return

    there.answers[""] = drip
    fan_out()
    lane = Lane(hook.pk, connect=lambda url: Connection(url, within_s=0.3))
    try:
        assert lane.step(timezone.now()) is True
    finally:
        stop.set()
        lane.close()
    row = Sending.objects.exclude(tried_at=None).get()
    assert row.answer == "no answer within 0.3 s"


@pytest.mark.django_db(transaction=True)
def test_a_slow_receiver_holds_up_nobody_else(there, mission, supervisor):
    asked, go = threading.Event(), threading.Event()
    with receiver() as slow:
        slow.answers[""] = lambda handler: [asked.set(), go.wait(10), handler.send_response(204), handler.end_headers()]
        first = webhooks.create_webhook(name="Slow", url=slow.url, site=None, kinds=["*"], by=SYSTEM)
        second = webhooks.create_webhook(name="Fast", url=there.url, site=None, kinds=["mission.*"], by=SYSTEM)
        actions.set_priority(mission.pk, priority=60, by=by_user(supervisor))
        fan_out()
        lanes = Lanes()
        try:
            lanes.step(timezone.now())
            lanes._running[second.pk].join(10)
            assert set(states(webhook=second.pk)) <= {"delivered"}
            assert asked.wait(10) and not slow.got
            actions.queue_mission(mission.pk, by=by_user(supervisor))
            fan_out()
            lanes.step(timezone.now())
            lanes._running[second.pk].join(10)
            assert set(states(webhook=second.pk)) == {"delivered"}
            assert lanes._running[first.pk].is_alive()
        finally:
            go.set()
            lanes.join(10)
        assert len(there.got) == 3
