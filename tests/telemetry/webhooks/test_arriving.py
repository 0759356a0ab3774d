"""Webhooks: each event that is wanted arrives, once and in order, and only what is wanted."""

import json
import threading

import pytest
from django.db import connections
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Event
from fleet.refusals import Refused
from fleet.robots import actions as fleet_actions
from fleet.sites.actions import create_site
from missions import actions
from telemetry.out.followers import LINES
from telemetry.out.group import Follow
from telemetry.out.models import Sending, SendState, Webhook
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks import sending, wanted
from telemetry.out.webhooks.lanes import Lanes, due
from telemetry.out.webhooks.posting import Answer, Connection
from telemetry.out.webhooks.sending import Lane
from tests.actors import SYSTEM
from tests.telemetry.webhooks.sending import after, fan_out, send, states


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

    class Slow(Connection):
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
