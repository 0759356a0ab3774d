"""Every page that makes or saves something: two clicks are one thing, and two people at one form are told of each other."""

import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from fleet.admin import once
from fleet.brands.actions import create_brand
from fleet.history import by_user
from fleet.models import ApiToken, Brand, Event, Place, Robot, Silence, Site
from fleet.people import actions as people
from fleet.robots import actions as robots
from fleet.sites.actions import set_map
from fleet.sites.maps import picture_of
from missions import actions
from missions.models import Mission, Template
from missions.templates import save_template
from telemetry.out.models import Sending, Webhook
from telemetry.out.webhooks.actions import create_webhook
from tests.actors import SYSTEM
from tests.fleet.pictures import png
from tests.together import together

KEY = "b" * 32
BRAND = {
    "name": "Forker", "driver": "native", "capabilities": "wait", "suspect_after_s": "9", "offline_after_s": "20",
    "abandon_after_s": "60", "charge_until_pct": "80",
}  # fmt: skip
WEBHOOK = {"name": "MES", "url": "https://hook.example.org/", "kinds": ["mission.*"]}
STEPS = {"steps-TOTAL_FORMS": "1", "steps-INITIAL_FORMS": "0", "steps-0-command": "navigate", "steps-0-place": "Dock A"}
TEMPLATE = {
    "title": "Round", "name": "Round", "priority": "0", "timeout_s": "60", "importance": "normal", **STEPS,
    "parameters-TOTAL_FORMS": "0", "parameters-INITIAL_FORMS": "0",
}  # fmt: skip
PASSWORDS = {"password1": "correct horse battery", "password2": "correct horse battery"}
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fleet/site": (Site, {"name": "Hall 9"}),
    "fleet/place": (Place, {"name": "Dock Z", "x": "0", "y": "0", "theta": "0"}),
    "fleet/brand": (Brand, BRAND),
    "fleet/robot": (Robot, {"id": "RB-009", "name": "Nine"}),
    "auth/user": (User, {"username": "Nina", "role": "", **PASSWORDS}),
    "fleet/apitoken": (ApiToken, {"label": "mes", "scopes": ["missions:read"]}),
    "fleet/silence": (Silence, {"hours": "4", "why": "new wheels"}),
    "telemetry/webhook": (Webhook, WEBHOOK),
    "missions/template": (Template, TEMPLATE),
}


@pytest.fixture
def admin(client, admin_person) -> Client:
    client.force_login(admin_person)
    return client


def said(answer) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


@pytest.mark.parametrize("path", FORMS)
def test_two_clicks_make_one_and_both_lead_to_it(admin, site, brand, robot, path):
    model, data = FORMS[path]
    data = {"site": site.pk, "brand": brand.pk, **data, "once": KEY}
    before = model._default_manager.count()
    first, second = (admin.post(f"/admin/{path}/add/", data) for _ in range(2))
    assert (first.status_code, second.status_code) == (302, 302), first.context and (
        first.context["form"].errors,
        first.context.get("problems"),
    )
    assert second["location"] == first["location"]
    assert model._default_manager.count() == before + 1
    assert "Your first click has saved it already: this is it." in said(admin.get(first["location"]))


@pytest.mark.parametrize("path", FORMS)
def test_every_form_carries_a_new_key(admin, path):
    keys = [re.search(rf'name="{once.NAME}" value="(\w{{32}})"', admin.get(f"/admin/{path}/add/").content.decode())[1]
            for _ in range(2)]  # fmt: skip
    assert keys[0] != keys[1]


def test_what_was_changed_is_another_wish(admin):
    for name in ("Hall 8", "Hall 9"):
        admin.post("/admin/fleet/site/add/", {"name": name, "once": KEY})
    assert Site.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_clicks_of_one_moment_issue_one_token_and_its_secret_is_shown(supervisor):
    browser = Client()
    browser.force_login(supervisor)
    clicks = [Client() for _ in range(3)]
    for click in clicks:
        click.cookies = browser.cookies
    data = {"label": "mes", "scopes": ["missions:read"], "once": KEY}
    answers = together(*(lambda c=c: c.post("/admin/fleet/apitoken/add/", data) for c in clicks))
    assert len({a["location"] for a in answers}) == 1 and ApiToken.objects.count() == 1
    assert "drover_api_" in browser.get(answers[0]["location"]).content.decode()


def test_a_secret_that_is_renewed_by_two_clicks_is_the_one_that_is_shown(admin):
    hook = create_webhook(name="MES", url=WEBHOOK["url"], site=None, kinds=["mission.*"], by=SYSTEM)
    url = f"/admin/telemetry/webhook/{hook.pk}/"
    for _ in range(2):
        assert admin.post(f"{url}renew/", {"once": KEY}).status_code == 302
    assert Webhook.objects.get().version == 2
    assert Webhook.objects.get().secret in admin.get(f"{url}change/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_two_tests_at_once_send_one(supervisor):
    from telemetry.out.webhooks.actions import send_test

    hook = create_webhook(name="MES", url=WEBHOOK["url"], site=None, kinds=["mission.*"], by=SYSTEM)
    results = together(*[lambda: send_test(hook.pk)] * 4)
    assert results.count(None) == 1 and Sending.objects.count() == 1


def test_whoever_hands_over_twice_is_led_to_the_mission_that_goes_on(admin, dispatched):
    url = f"/admin/missions/mission/{dispatched.pk}/hand_over/"
    first, second = (admin.post(url) for _ in range(2))
    made = Mission.objects.get(origin_kind="hand_over")
    assert first["location"] == second["location"] == f"/admin/missions/mission/{made.pk}/change/"


# --- two people


def edit(admin, url, **over):
    """The form as it is shown now, to be sent later."""
    page = admin.get(url)
    form = page.context["form"]
    data = {name: form[name].value() for name in form.fields}
    data = {n: v for n, v in data.items() if v not in (None, False, "")} | {"was": page.context["was"]}
    return lambda **more: admin.post(url, data | over | more)


def test_rights_that_were_taken_away_do_not_come_back_with_a_form_of_before(admin, supervisor):
    save = edit(admin, f"/admin/auth/user/{supervisor.pk}/edit/", email="ana@example.org")
    people.grant_access(supervisor, role="", sites=[], by=SYSTEM)
    answer = save()
    [told] = answer.context["form"].non_field_errors()
    assert told.startswith("Somebody else saved it while this form was open.") and "role" in told
    user = User.objects.select_related("person").get(pk=supervisor.pk)
    assert (user.person.role, user.email) == ("", "")
    assert answer.context["form"]["email"].value() == "ana@example.org", "what was typed is lost"
    again = save(was=re.search(r'name="was" value="(\w+)"', answer.content.decode())[1])
    assert again.status_code == 302, "sent once more, it is meant"
    assert User.objects.get(pk=supervisor.pk).email == "ana@example.org"


def test_a_map_is_saved_once_and_not_over_somebody_elses(admin, site):
    url, at = f"/admin/fleet/site/{site.pk}/map/", {"x": "1", "y": "0", "m_per_px": "0.05", "rotation": "0"}

    def save(page, **more):
        plan = SimpleUploadedFile("plan.png", png())
        return admin.post(url, at | {"picture": plan, "once": KEY, "was": page.context["was"]} | more, follow=True)

    page = admin.get(url)
    answers = [save(page), save(page)]
    assert [said(answer)[0][:24] for answer in answers] == ["The map of Hall 1 is sav", "Your first click has sav"]
    assert Event.objects.filter(kind="site.map_set").count() == 1
    another = save(page, picture=SimpleUploadedFile("plan.png", png(50, 20)))
    assert another.context["form"].non_field_errors(), "it is another wish, of who saw the site without a map"
    page = admin.get(url)
    set_map(site.pk, picture_of(io.BytesIO(png(30, 20)), 1), x=1, y=0, m_per_px=0.05, rotation=0, by=SYSTEM)
    told = save(page, x="2")
    assert told.context["form"].non_field_errors()[0].startswith("Somebody else saved it while this form was open.")
    again = "Choose the picture again: no browser keeps it."
    assert told.context["form"].errors["picture"] == [again], "a save without it would have theirs, where ours lies"
    assert save(page, x="far").context["form"].errors["picture"] == [again]
    assert Site.objects.get().map_width == 30
    assert save(told, x="2").redirect_chain, "sent once more, it is meant"
    assert (Site.objects.get().map_width, Site.objects.get().map_x) == (40, 2)


def test_a_robot_renamed_meanwhile_is_told_and_its_own_words_are_no_change(admin, robot, site, brand):
    from fleet.robots import facts
    from fleet.robots.telling import tell

    save = edit(admin, "/admin/fleet/robot/RB-001/edit/", name="Ella 2")
    tell("RB-001", facts.Retire(), SYSTEM)  # its version has moved on, what the form shows has not
    tell("RB-001", facts.Reinstate(), SYSTEM)
    assert save().status_code == 302
    save = edit(admin, "/admin/fleet/robot/RB-001/edit/", name="Ella 3")
    robots.edit_robot("RB-001", name="Emma", site=site, brand=brand, by=SYSTEM)
    assert "name “Emma”" in save().context["form"].non_field_errors()[0]


def test_nobody_else_saved_any_of_these(admin, site, robot, mission, supervisor):
    """Each form, as it is shown, is saved as it is: what it carries fits what is compared."""
    hook = create_webhook(name="MES", url=WEBHOOK["url"], site=None, kinds=["mission.*"], by=SYSTEM)
    round_ = save_template(name="Round", site=site, title="Round", by=SYSTEM, steps=[
        {"command": "navigate", "params": {"place": "Dock A"}}
    ])  # fmt: skip
    place = Place.objects.get(site=site, name="Dock A")
    for path, key in (
        ("fleet/site", site.pk), ("fleet/place", place.pk), ("fleet/robot", "RB-001"), ("telemetry/webhook", hook.pk),
        ("auth/user", supervisor.pk), ("missions/mission", mission.pk), ("missions/template", round_),
    ):  # fmt: skip
        url = f"/admin/{path}/{key}/edit/"
        page = admin.get(url)
        sets = [
            page.context[name]
            for name in ("steps", "parameters")
            if path.startswith("missions/") and name in page.context
        ]
        data: dict[str, Any] = {f"{rows.prefix}-INITIAL_FORMS": 0 for rows in sets}
        data |= {f"{rows.prefix}-TOTAL_FORMS": rows.total_form_count() for rows in sets}
        for form in (page.context["form"], *(form for rows in sets for form in rows)):
            said = {form[name].html_name: form[name].value() for name in form.fields}
            data |= {name: value for name, value in said.items() if value not in (None, "") and value is not False}
        was = re.search(r'name="was" value="(\w+)"', page.content.decode())
        answer = admin.post(url, data | ({"was": was[1]} if was else {}))
        assert answer.status_code == 302, (path, answer.context["form"].errors, answer.context.get("problems"))


def test_a_click_twice_on_save_of_a_mission_is_one_change(admin, mission, supervisor):
    url = f"/admin/missions/mission/{mission.pk}/edit/"
    data = {"title": "Other", "site": mission.site_id, "robot": "RB-001", "priority": "0", "timeout_s": "60",
            "importance": "normal", **STEPS, "version": str(mission.version), "once": KEY}  # fmt: skip
    assert [admin.post(url, data).status_code for _ in range(2)] == [302, 302]


def test_a_brand_is_compared_by_what_it_is(admin):
    brand = create_brand("Forker", driver="native", capabilities=["wait"], by=SYSTEM)
    assert edit(admin, f"/admin/fleet/brand/{brand.pk}/edit/", name="Forker 2")().status_code == 302


@pytest.mark.parametrize("action", ["run", "approve", "resume"])
def test_what_was_not_looked_at_is_not_set_off(admin, mission, supervisor, action):
    """A list's question carries the versions it showed; a page that carries none is out of date."""
    data = {"action": action, "_selected_action": str(mission.pk), "confirmed": "1"}
    assert "This page is out of date" in said(admin.post("/admin/missions/mission/", data, follow=True))[0]
    actions.set_priority(mission.pk, priority=5, by=by_user(supervisor))
    stale = data | {"seen": f"{mission.pk}:{mission.version}"}
    assert "It has changed since you looked" in said(admin.post("/admin/missions/mission/", stale, follow=True))[0]
    assert not Mission.objects.get(pk=mission.pk).queued_at


@pytest.mark.parametrize("path", ["missions/mission", "missions/deadletter", "fleet/robot"])
@pytest.mark.parametrize("key", ["-inf", "x", "9" * 30, "a%00b".replace("%00", chr(0)), "\u202e"])
def test_a_list_is_not_thrown_by_rows_that_cannot_be(admin, robot, path, key):
    """Django hands the ticked keys to the database as they come."""
    action = {"missions/mission": "cancel", "missions/deadletter": "discard", "fleet/robot": "stop"}[path]
    data = {"action": action, "_selected_action": [key], "index": "0"}
    assert admin.post(f"/admin/{path}/", data).status_code in (200, 302)
