"""From a row to the first message: the token is shown once, whatever the browser does, and the page says what comes."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Event, Robot, RobotCredential
from fleet.robots import actions
from fleet.robots.credentials import robot_of_token
from telemetry import snapshots
from telemetry.gateways.knocks import Stranger, record
from telemetry.pages.connecting import standing
from tests.actors import SYSTEM, online
from tests.together import together

ROBOT = "/admin/fleet/robot/RB-001/"


@pytest.fixture
def nothing_heard(db):
    snapshots.client().flushdb()


def form(client: Client) -> dict[str, str]:
    return {"reason": "key", "once": client.get(f"{ROBOT}connect/").context["once"]}


def test_a_reload_and_the_back_button_issue_no_second_token(client, admin_person, robot):
    client.force_login(admin_person)
    data = form(client)
    first = client.post(f"{ROBOT}issue/", data)
    token = first.context["token"]
    again = client.post(f"{ROBOT}issue/", data, follow=True)
    assert RobotCredential.objects.count() == 1
    assert again.redirect_chain == [(f"{ROBOT}connect/", 302)]
    assert "shown already" in str(next(iter(again.context["messages"])))
    assert token not in again.content.decode() and not again.context["token"]
    assert client.post(f"{ROBOT}issue/", form(client)).context["token"] != token  # another one is another form
    assert RobotCredential.objects.count() == 2


@pytest.mark.parametrize("once", [None, "", "x", "A" * 32, "0" * 31, "0" * 33, "0" * 31 + "\n"])
def test_a_form_that_was_never_shown_issues_nothing(client, admin_person, robot, once):
    client.force_login(admin_person)
    answer = client.post(f"{ROBOT}issue/", {} if once is None else {"once": once}, follow=True)
    assert "out of date" in str(next(iter(answer.context["messages"])))
    assert not RobotCredential.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_issue_one(robot, admin_person):
    client = Client()
    client.force_login(admin_person)
    data = form(client)

    def click():
        mine = Client()
        mine.force_login(admin_person)
        return mine.post(f"{ROBOT}issue/", data).status_code

    assert sorted(together(*[click] * 4)) == [200, 302, 302, 302]
    assert RobotCredential.objects.count() == 1


def test_the_lines_to_copy_hold_token_address_and_a_hello(client, admin_person, robot):
    client.force_login(admin_person)
    page = client.post(f"{ROBOT}issue/", form(client)).context
    for line in ("curl_line", "ws_line"):
        assert f"Bearer {page['token']}" in page[line]
        assert '"type": "hello"' in page[line] and '"robot": "RB-001"' in page[line]
    assert "http://testserver/robot/v1/events" in page["curl_line"]
    assert "ws://testserver/robot/v1/ws" in page["ws_line"]
    assert robot_of_token(page["token"]) == "RB-001"
    without = client.get(f"{ROBOT}connect/")
    assert "THE-TOKEN" in without.context["curl_line"]
    assert not re.search(r"drover_[\w-]{20}", without.content.decode())


def test_the_token_is_in_no_event_and_no_cause(client, admin_person, robot):
    client.force_login(admin_person)
    token = client.post(f"{ROBOT}issue/", form(client)).context["token"]
    for event in Event.objects.all():
        assert token not in event.data and token not in event.cause


def look(client: Client) -> dict[str, str]:
    return client.get("/fleet/robots/RB-001/connection").json()


def test_the_page_that_waits_says_each_stage(client, admin_person, site, brand, nothing_heard):
    actions.enrol_robot(id="RB-001", name="Ella", site=site, brand=brand, by=SYSTEM)
    client.force_login(admin_person)
    assert look(client)["says"] == "Waiting for its first message…"
    record([(Stranger("", "RB-001", "HTTP", "192.0.2.7"), 1, timezone.now())])
    knocked = look(client)
    assert knocked["token"] == "bad" and "no token" in knocked["says"] and "Authorization" in knocked["next"]
    later = timezone.now() + timedelta(seconds=1)
    snapshots.client().zadd("seen", {"RB-001": snapshots.milliseconds(later)})
    assert look(client)["token"] == "info"
    online("RB-001")
    assert (look(client)["token"], look(client)["says"][:10]) == ("ok", "Connected.")


def test_a_robot_that_was_here_before_is_said_so(robot, nothing_heard):
    online("RB-001", "offline")
    robot.refresh_from_db()
    long_ago = timezone.now() - timedelta(hours=2)
    snapshots.client().zadd("seen", {"RB-001": snapshots.milliseconds(long_ago)})
    said = standing(robot, timezone.now())
    assert (said.token, "2\xa0hours ago" in said.says) == ("warn", True)


def test_without_the_live_redis_the_page_says_so(robot, monkeypatch):
    online("RB-001", "offline")
    robot.refresh_from_db()
    monkeypatch.setattr(snapshots, "last_received", lambda robot_ids: None)
    assert "live Redis" in standing(robot, timezone.now()).says


def test_other_sites_and_other_roles(client, other_supervisor, supervisor, robot):
    client.force_login(other_supervisor)
    assert client.get("/fleet/robots/RB-001/connection").status_code == 404
    client.force_login(supervisor)
    assert client.get(f"{ROBOT}connect/").status_code == 403  # sees the robot, issues no credentials


# --- robots that are known by an address


@pytest.fixture
def forker(site):
    brand = create_brand("Forker", driver="vda5050", capabilities=["navigate"], by=SYSTEM)
    return actions.enrol_robot(id="F-7", name="<b>Fork", site=site, brand=brand, address="KIT/<i>", by=SYSTEM)


def test_a_robot_with_an_address_is_told_its_topics_and_no_token(client, admin_person, forker, settings):
    settings.MQTT_URL = "mqtt://drover:secret@broker.example:1884"
    client.force_login(admin_person)
    page = client.get("/admin/fleet/robot/F-7/connect/").content.decode()
    assert "uagv/v2/KIT/&lt;i&gt;/state" in page and "mqtt://broker.example:1884" in page
    assert "secret" not in page and "<i>/" not in page and "Issue a token" not in page
    answer = client.post("/admin/fleet/robot/F-7/issue/", {"once": "0" * 32}, follow=True)
    assert "shows no token" in str(next(iter(answer.context["messages"])))
    assert not RobotCredential.objects.exists()
    shown = client.get("/admin/fleet/robot/F-7/change/").content.decode()
    assert "KIT/&lt;i&gt;" in shown and "Credentials" not in shown


def test_without_a_broker_that_is_said(client, admin_person, forker, settings):
    settings.MQTT_URL = ""
    client.force_login(admin_person)
    assert "sets MQTT_URL" in client.get("/admin/fleet/robot/F-7/connect/").content.decode()


def test_the_native_protocol_is_offered_over_mqtt_where_there_is_a_broker(client, admin_person, robot, settings):
    client.force_login(admin_person)
    settings.MQTT_URL = ""
    assert "drover/v1/RB-001" not in client.get(f"{ROBOT}connect/").content.decode()
    settings.MQTT_URL = "mqtt://broker.example"
    assert "drover/v1/RB-001/events" in client.get(f"{ROBOT}connect/").content.decode()


def test_its_own_settings_are_kept_apart_from_its_brands(client, admin_person, forker, robot):
    client.force_login(admin_person)
    form = client.get("/admin/fleet/robot/F-7/edit/").context["form"]
    told = {name: form[name].value() or "" for name in form.fields} | {"setting-vda5050-pause_supported": "no"}
    assert client.post("/admin/fleet/robot/F-7/edit/", told).status_code == 302
    assert Robot.objects.get(pk="F-7").profile == {"pause_supported": False}
    wrong = client.post("/admin/fleet/robot/F-7/edit/", told | {"setting-vda5050-interface": "a/+"})
    assert list(wrong.context["form"].errors) == ["setting-vda5050-interface"]
    wrong = client.post("/admin/fleet/robot/F-7/edit/", told | {"address": "KIT"})
    assert "is none" in wrong.context["form"].errors["address"][0]
    moved = client.post("/admin/fleet/robot/F-7/edit/", told | {"brand": robot.brand_id, "address": ""})
    assert moved.status_code == 302
    assert (Robot.objects.get(pk="F-7").profile, Robot.objects.get(pk="F-7").address) == ({}, "")


@pytest.mark.parametrize("id", [".", "..", "...", "." * 64])
def test_no_robot_has_an_id_that_its_own_address_would_lose(client, admin_person, site, brand, id):
    """`/fleet/robots/../stop` is `/fleet/stop` to every browser: such a robot could not be stopped from its card."""
    client.force_login(admin_person)
    answer = client.post("/admin/fleet/robot/add/", {"id": id, "name": "Dot", "site": site.pk, "brand": brand.pk})
    assert "is not dots alone" in answer.content.decode()
    assert not Robot.objects.exists()
