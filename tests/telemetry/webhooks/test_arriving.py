"""Webhooks: each event that is wanted arrives, in order, whatever the receiver does, and nobody waits for another."""

import ipaddress
import json
import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Alert, Event
from fleet.refusals import Refused
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from fleet.sites.actions import create_site
from missions import actions, drawing_up
from missions.letters import actions as letter_actions
from missions.models import DeadLetter
from telemetry.out import sending, wanted, webhooks
from telemetry.out.followers import LINES
from telemetry.out.group import Follow
from telemetry.out.lanes import Lanes, due
from telemetry.out.models import Sending, SendState, Webhook, WebhookLane
from telemetry.out.outcomes import wait_s
from telemetry.out.posting import Answer, Line
from telemetry.out.sending import Lane
from tests.actors import STEPS, SYSTEM
from tests.telemetry.receiver import receiver


@pytest.fixture(autouse=True)
def inside(settings):
    settings.WEBHOOK_NETS = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
def there():
    with receiver() as one:
        yield one


@pytest.fixture
def hook(there, db) -> Webhook:
    return webhooks.create_webhook(name="MES", url=there.url, site=None, kinds=["mission.*", "robot.*"], by=SYSTEM)


def fan_out() -> None:
    follow = Follow(wanted.GROUP)
    while follow.step(timezone.now()):
        pass


def send(hook, now=None, lane: Lane | None = None) -> int:
    """All that is due; how much that was."""
    lane, n = lane or Lane(hook.pk), 0
    now = now or timezone.now()
    while lane.step(now):
        n += 1
    lane.close()
    return n


def after(s: float):
    return timezone.now() + timedelta(seconds=s)


def states(**which) -> list[str]:
    return list(
        Sending.objects.filter(event_id__isnull=False, **which).order_by("event_id").values_list("state", flat=True)
    )


def test_what_it_wants_arrives_once_in_order_with_what_happened(hook, there, mission, supervisor):
    actions.queue_mission(mission.pk, by=by_user(supervisor))
    fan_out()
    fan_out()
    send(hook)
    expected = list(
        Event.objects.filter(kind__regex=r"^(mission|robot)\.", recorded_at__gte=hook.since)
        .order_by("id")
        .values_list("id", flat=True)
    )
    assert there.ids() == expected
    told = there.got[-1]
    event = Event.objects.get(pk=expected[-1])
    assert told["kind"] == event.kind
    assert told["about_id"] == event.aggregate.partition(":")[2]
    assert told["site"] == {"id": event.site_id, "name": "Hall 1"}
    assert told["data"] == json.loads(event.data)
    assert told["actor"]["name"] == event.actor_name
    assert set(states()) == {"delivered"}
    assert send(hook, after(7200)) == 0


@pytest.mark.parametrize("status", [200, 500])
def test_what_is_dropped_while_it_is_under_way_stays_dropped(hook, mission, supervisor, status):
    """Whatever comes of the try: whoever switched the webhook off wants nothing of it any more."""
    actions.queue_mission(mission.pk, by=by_user(supervisor))
    fan_out()

    class Slow(Line):
        def post(self, body, headers):
            webhooks.disable_webhook(hook.pk, by=SYSTEM)
            return Answer(status, "")

    assert send(hook, lane=Lane(hook.pk, Slow)) == 1
    assert set(states()) == {"dropped"}
    assert send(hook, after(7200)) == 0


def test_of_other_sites_of_before_and_of_other_kinds_it_hears_nothing(there, mission, site, other_site, brand):
    one = webhooks.create_webhook(name="Hall 2", url=there.url, site=other_site.pk, kinds=["robot.enrolled"], by=SYSTEM)
    fleet_actions.enrol_robot(id="RB-010", name="Here", site=site, brand=brand, by=SYSTEM)
    fleet_actions.enrol_robot(id="RB-011", name="There", site=other_site, brand=brand, by=SYSTEM)
    fan_out()
    send(one)
    assert [(told["about_id"], told["kind"]) for told in there.got] == [("RB-011", "robot.enrolled")]
    webhooks.disable_webhook(one.pk, by=SYSTEM)
    fleet_actions.enrol_robot(id="RB-012", name="Meanwhile", site=other_site, brand=brand, by=SYSTEM)
    webhooks.enable_webhook(one.pk, by=SYSTEM)
    fleet_actions.enrol_robot(id="RB-013", name="After", site=other_site, brand=brand, by=SYSTEM)
    fan_out()
    send(one)
    assert [told["about_id"] for told in there.got] == ["RB-011", "RB-013"]


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


def test_after_a_day_it_is_given_up_and_what_follows_goes_on(hook, there, mission, supervisor):
    fan_out()
    send(hook)
    there.answers["mission.priority_set"] = 422
    actions.set_priority(mission.pk, priority=60, by=by_user(supervisor))
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    fan_out()
    send(hook, after(23.9 * 3600))
    assert "dead" not in states()
    send(hook, after(25.1 * 3600))
    assert states()[-2:] == ["dead", "delivered"]
    [letter] = DeadLetter.objects.all()
    assert (letter.direction, letter.robot_id, letter.kind, letter.state) == (
        "web",
        "RB-001",
        "mission.priority_set",
        "open",
    )
    assert json.loads(letter.body)["about_id"] == str(mission.pk)
    assert letter.reason == "the webhook “MES” did not take it: it answers 422"
    send_it_again(letter, by_user(supervisor))
    assert send(hook, after(23 * 3600)) == 1
    letter.refresh_from_db()
    assert letter.state == "requeued", "it is tried for another day"
    send(hook, after(60 * 3600))
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: it answers 422")
    there.answers.clear()
    send_it_again(letter, by_user(supervisor))
    assert send(hook, after(61 * 3600)) == 1
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("applied", "The receiver has taken it.")
    assert there.got[-1]["kind"] == "mission.priority_set"
    assert DeadLetter.objects.count() == 1


def send_it_again(letter, by) -> None:
    assert letter_actions.requeue_letter(letter.pk, by=by) == "requeued"
    assert letter_actions.requeue_letter(letter.pk, by=by) == "requeued already"


def test_a_letter_of_a_webhook_that_is_off_or_of_long_ago_is_not_sent_again(hook, there, mission, supervisor):
    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    with pytest.raises(Refused, match="switched off"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    Sending.objects.all().delete()
    with pytest.raises(Refused, match="not kept"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))


def test_a_requeued_letter_does_not_wait_for_a_webhook_that_is_switched_off(hook, there, mission, supervisor):
    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: its webhook was switched off")
    webhooks.enable_webhook(hook.pk, by=SYSTEM)
    there.answers[""] = 204
    assert letter_actions.requeue_letter(letter.pk, by=by_user(supervisor)) == "requeued"
    assert send(hook, after(26 * 3600)) == 1
    letter.refresh_from_db()
    assert letter.state == "applied"


def test_a_requeued_letter_whose_event_is_not_there_has_failed_again(hook, there, mission, supervisor, monkeypatch):
    def gone(_):
        raise LookupError("event 1")

    fan_out()
    there.answers[""] = 422
    send(hook, after(25 * 3600))
    letter = DeadLetter.objects.first()
    letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    monkeypatch.setattr(sending, "payload", gone)
    send(hook, after(26 * 3600))
    letter.refresh_from_db()
    assert (letter.state, letter.result) == ("failed", "It failed again: The event is not there.")
    with pytest.raises(Refused, match="not kept"):
        letter_actions.requeue_letter(letter.pk, by=by_user(supervisor))
    assert letter_actions.discard_letter(letter.pk, by=by_user(supervisor), why="long ago") == "discarded"


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


def test_a_test_goes_first_once_and_also_when_it_is_switched_off_or_rests(hook, there, mission):
    fan_out()
    there.answers[""] = 500
    send(hook)
    webhooks.send_test(hook.pk)
    with pytest.raises(Refused, match="followers"):
        webhooks.send_test(hook.pk)
    assert due(timezone.now()) == [hook.pk]
    send(hook)
    assert Sending.objects.get(event_id=None).state == SendState.DEAD
    there.answers.clear()
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    webhooks.send_test(hook.pk)
    assert send(hook) == 1
    assert there.got[-1]["kind"] == "webhook.test"
    assert there.got[-1]["id"].startswith("test-")
    assert due(timezone.now()) == []


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
    lane = Lane(hook.pk, line=lambda url: Line(url, within_s=0.3))
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


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_one_sends_for_a_webhook(hook, there, mission):
    fan_out()
    here, go = threading.Event(), threading.Event()

    def hold(handler):
        here.set()
        go.wait(10)
        handler.send_response(204)
        handler.end_headers()

    there.answers[""] = hold
    one, two = Lanes(), Lanes()
    one.step(timezone.now())
    assert here.wait(10)
    two.step(timezone.now())
    two.join(10)
    assert len(there.raw) == 1
    go.set()
    one.join(10)
    assert set(states()) == {"delivered"}
    assert len(there.raw) == len(states())
    connections.close_all()


def test_the_secret_is_nowhere_but_in_its_column_and_a_new_one_counts_at_once(hook, there, mission, caplog):
    caplog.set_level("DEBUG")
    first = Webhook.objects.get(pk=hook.pk).secret
    second = webhooks.renew_secret(hook.pk, by=SYSTEM)
    assert first.startswith("whsec_")
    assert Webhook.objects.get(pk=hook.pk).secret == second != first
    fan_out()
    send(hook)
    headers, body = there.raw[0]
    at = int(headers["Drover-Signature"].split(",")[0].removeprefix("t="))
    assert headers["Drover-Signature"] == sending.signature(second, body, at)
    assert sending.signature(first, body, at) != sending.signature(second, body, at)
    history = "".join(Event.objects.filter(aggregate=f"webhook:{hook.pk}").values_list("data", flat=True))
    assert first not in history + caplog.text + repr(there.raw)
    assert second not in history + caplog.text + repr(there.raw)


def test_every_change_is_in_its_history_with_who(hook, there, supervisor, db):
    by = by_user(supervisor)
    webhooks.edit_webhook(hook.pk, name="MES 2", url=there.url, site=None, kinds=["mission.aborted"], by=by)
    webhooks.edit_webhook(hook.pk, name="MES 2", url=there.url, site=None, kinds=["mission.aborted"], by=by)
    webhooks.disable_webhook(hook.pk, by=by)
    webhooks.disable_webhook(hook.pk, by=by)
    webhooks.enable_webhook(hook.pk, by=by)
    webhooks.renew_secret(hook.pk, by=by)
    events = Event.objects.filter(aggregate=f"webhook:{hook.pk}").order_by("seq")
    assert list(events.values_list("kind", flat=True)) == [
        f"webhook.{what}" for what in ("created", "edited", "disabled", "enabled", "secret_renewed")
    ]
    assert {e.actor_name for e in events[1:]} == {"Ana"}


def test_what_waits_is_dropped_when_it_is_switched_off(hook, there, mission):
    fan_out()
    webhooks.disable_webhook(hook.pk, by=SYSTEM)
    assert set(states()) == {"dropped"}
    webhooks.enable_webhook(hook.pk, by=SYSTEM)
    assert send(hook) == 0


@pytest.mark.parametrize("kinds", [[], ["mission.flown"], ["robot"], ["mission.*", "nothing.*"]])
def test_only_events_that_there_are(kinds, there, db):
    with pytest.raises(Refused, match="^kinds: "):
        webhooks.create_webhook(name="x", url=there.url, site=None, kinds=kinds, by=SYSTEM)


def test_a_webhook_that_is_made_while_the_group_is_stopped_misses_nothing(there, site, db):
    follow = Follow(wanted.GROUP)
    while follow.step(timezone.now()):
        pass
    one = webhooks.create_webhook(name="Late", url=there.url, site=None, kinds=["site.*"], by=SYSTEM)
    create_site("New", by=SYSTEM)
    while follow.step(timezone.now()):
        pass
    send(one)
    assert [told["kind"] for told in there.got] == ["site.created"]


def test_the_groups_name_is_one_that_is_watched():
    assert [line.group.name for line in LINES] == ["statistics", "e-mail", "webhooks"]


def test_the_example_of_the_docs_knows_what_is_ours_and_nothing_else(hook, there, mission, monkeypatch):
    import re
    import time
    from pathlib import Path

    from django.conf import settings

    text = (Path(settings.BASE_DIR) / "docs" / "webhooks.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, re.S)
    told: dict = {}
    exec(code, told)  # noqa: S102  (our own page)
    is_from_drover = told["is_from_drover"]
    fan_out()
    send(hook)
    headers, body = there.raw[0]
    secret, signature = Webhook.objects.get(pk=hook.pk).secret, headers["Drover-Signature"]
    assert is_from_drover(secret, signature, body)
    assert not is_from_drover(secret, signature, body + b" ")
    assert not is_from_drover("whsec_other", signature, body)
    at = int(time.time())
    assert not is_from_drover(secret, signature.replace(signature.split(",")[0], f"t={at + 1}"), body)
    monkeypatch.setattr(time, "time", lambda: at + 301)
    assert not is_from_drover(secret, signature, body), "somebody sends again what they overheard"
    [shown] = re.findall(r"```json\n(.*?)```", text, re.S)
    assert json.loads(shown).keys() == there.got[0].keys()
