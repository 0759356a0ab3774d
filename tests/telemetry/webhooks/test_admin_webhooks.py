"""Admin pages of webhooks: made, edited, switched, tested; the secret once; what was sent as text; own sites only."""

import ipaddress
import re

import pytest
from django.utils import timezone

from fleet.history import KINDS
from missions import actions
from telemetry.out.models import Sending, Webhook, WebhookLane
from telemetry.out.webhooks import actions as webhooks
from telemetry.out.webhooks.admin import groups
from tests.actors import SYSTEM, user
from tests.telemetry.receiver import receiver
from tests.telemetry.webhooks.sending import fan_out, send

URL = "https://hook.example.org/drover"
LIST = "/admin/telemetry/webhook/"


@pytest.fixture
def admin(client, admin_person):
    client.force_login(admin_person)
    return client


def page(client, url: str) -> str:
    answer = client.get(url, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def made(**more) -> Webhook:
    return webhooks.create_webhook(
        **{"name": "MES", "url": URL, "site": None, "kinds": ["mission.*"], "by": SYSTEM, **more}
    )


def test_made_in_a_form_with_its_secret_shown_once(admin, db):
    assert "No webhooks yet" in page(admin, LIST)
    form = {"name": "MES", "url": URL, "site": "", "kinds": ["mission.*", "robot.faulted"]}
    shown = admin.post(f"{LIST}add/", form, follow=True).content.decode()
    one = Webhook.objects.get()
    assert (one.url, one.site, one.kinds, one.created_by) == (URL, None, ["mission.*", "robot.faulted"], "Ada")
    assert one.secret in shown
    again = page(admin, f"{LIST}{one.pk}/change/")
    assert one.secret not in again
    assert "Nothing yet" in again
    assert "hook.example.org is told of mission.*, robot.faulted" in again, "its history"
    admin.post(f"{LIST}add/", form | {"name": "All", "kinds": ["*"]})
    assert re.search(r'<td [^>]*class="field-what">everything</td>', page(admin, LIST))
    assert "hook.example.org is told of everything" in page(
        admin, f"{LIST}{Webhook.objects.get(name='All').pk}/change/"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://hook.example.org/"}, "Only https"),
        ({"url": "https://10.0.0.1/"}, "is not on the internet"),
        ({"url": "https://a:b@hook.example.org/"}, "No name or password"),
        ({"kinds": []}, "Choose at least one"),
        ({"kinds": ["mission.flown"]}, "not one of the available choices"),
        ({"name": ""}, "required"),
    ],
)
def test_what_cannot_be_is_said_at_its_field_and_nothing_is_lost(admin, db, change, said):
    form = {"name": "MES", "url": URL, "site": "", "kinds": ["mission.aborted"]} | change
    shown = admin.post(f"{LIST}add/", form).content.decode()
    assert said in shown
    assert not Webhook.objects.exists()
    assert said in admin.post(f"{LIST}add/", form | {"site": "x"}).content.decode(), "all that is wrong at once"
    if form["kinds"] == ["mission.aborted"]:
        assert 'value="mission.aborted" checked' in shown


def test_edited_switched_renewed_and_tested_by_buttons(admin, db):
    one = made()
    first = Webhook.objects.get().secret
    form = {"name": "MES 2", "url": URL, "site": "", "kinds": ["*"]}
    assert "MES 2 is saved" in admin.post(f"{LIST}{one.pk}/edit/", form, follow=True).content.decode()
    assert "told nothing any more" in admin.post(f"{LIST}{one.pk}/disable/", follow=True).content.decode()
    assert "╳" in page(admin, LIST)
    assert "from now on" in admin.post(f"{LIST}{one.pk}/enable/", follow=True).content.decode()
    shown = admin.post(f"{LIST}{one.pk}/renew/", follow=True).content.decode()
    second = Webhook.objects.get().secret
    assert second != first
    assert second in shown
    assert "on its way" in admin.post(f"{LIST}{one.pk}/test/", follow=True).content.decode()
    assert "followers" in admin.post(f"{LIST}{one.pk}/test/", follow=True).content.decode()
    assert Sending.objects.get().event_id is None
    assert "not yet" in page(admin, f"{LIST}{one.pk}/change/")


def test_what_was_sent_is_listed_with_the_answer_as_text(admin, mission, supervisor, settings):
    settings.WEBHOOK_NETS = [ipaddress.ip_network("127.0.0.0/8")]

    def answer(handler):
        body = b"<script>alert(1)</script>"
        handler.send_response(500)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with receiver() as there:
        there.answers[""] = answer
        one = made(url=there.url)
        actions.cancel_mission(mission.pk, by=SYSTEM)
        fan_out()
        send(one)
        shown = page(admin, f"{LIST}{one.pk}/change/")
        assert "&lt;script&gt;alert(1)" in shown
        assert "<script>alert(1)" not in shown
        assert "1 try" in shown
        assert "Trying again" in shown
        WebhookLane.objects.update(failing_since=timezone.now() - timezone.timedelta(minutes=6))
        assert "Fails" in page(admin, LIST)


def test_an_admin_of_one_site_makes_and_sees_only_webhooks_of_it(client, site, other_site):
    everywhere, elsewhere, here = (
        made(name="Everywhere"),
        made(name="Elsewhere", site=other_site.pk),
        made(name="Here", site=site.pk),
    )
    client.force_login(user("Hana", "admin", site))
    shown = page(client, LIST)
    assert "Here" in shown
    assert "Elsewhere" not in shown
    assert "Everywhere" not in shown
    for hidden in (everywhere, elsewhere):
        assert client.get(f"{LIST}{hidden.pk}/change/").status_code == 404
        assert client.post(f"{LIST}{hidden.pk}/test/").status_code == 404
    form = {"name": "x", "url": URL, "kinds": ["mission.*"]}
    for wanted in ("", other_site.pk):
        assert client.post(f"{LIST}add/", form | {"site": wanted}).status_code == 200, "with an error"
        assert client.post(f"{LIST}{here.pk}/edit/", form | {"site": wanted}).status_code == 200
    assert Webhook.objects.count() == 3
    assert client.post(f"{LIST}add/", form | {"site": site.pk}).status_code == 302


def test_the_form_offers_every_kind_of_the_catalogue_once():
    offered = [choice.value for group in groups(()) for choice in (group.whole, *group.single)]
    assert len(offered) == len(set(offered))
    assert set(KINDS) <= set(offered)
