"""Brands in admin: capabilities from the command registry, three timings in order, charging, and their history."""

import json
import re

import pytest

from fleet.brands.actions import create_brand, edit_brand
from fleet.models import Brand
from fleet.ports import drivers
from fleet.refusals import Refused
from missions.actions import dispatch_mission
from missions.command_types import TYPES
from missions.drawing_up import draft_mission
from missions.facts import Delivered
from missions.models import Mission
from missions.timings import offline_policy
from tests.actors import STEPS, SYSTEM, tell

pytestmark = pytest.mark.django_db
GOOD = {
    "name": "Mule", "driver": "native", "capabilities": ["navigate", "wait"], "suspect_after_s": "9",
    "offline_after_s": "20", "abandon_after_s": "60", "charge_below_pct": "25", "charge_until_pct": "80",
}  # fmt: skip


def test_a_brand_is_made_and_changed_in_words(client, admin_person):
    client.force_login(admin_person)
    client.post("/admin/fleet/brand/add/", GOOD)
    brand = Brand.objects.get()
    assert (brand.capabilities, brand.suspect_after_s, brand.charge_below_pct) == (["navigate", "wait"], 9, 25)
    client.post(f"/admin/fleet/brand/{brand.pk}/edit/", GOOD | {"suspect_after_s": "5", "charge_below_pct": ""})
    brand.refresh_from_db()
    assert (brand.suspect_after_s, brand.charge_below_pct) == (5, None)
    entries = client.get(f"/admin/fleet/brand/{brand.pk}/change/").context["entries"]
    assert [e.words for e in entries] == [
        "Made: Mule", "Changed: suspect after (s) 9 → 5; charge below (%) 25 → none",
    ]  # fmt: skip
    assert entries[1].who == "Ada"


def test_the_boxes_are_the_command_types(client, admin_person):
    client.force_login(admin_person)
    form = client.get("/admin/fleet/brand/add/").context["form"]
    assert [value for value, _ in form.fields["capabilities"].choices] == list(TYPES)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "", "required"), ("capabilities", ["fly"], "fly"), ("capabilities", [], "required"),
        ("suspect_after_s", "0", "from 1 to 604800 seconds (a week)"), ("suspect_after_s", "x", "whole number"),
        ("suspect_after_s", "99999999999", "from 1 to 604800 seconds (a week)"), ("offline_after_s", "8", "at least 9"),
        ("abandon_after_s", "-1", "from 0 to 604800 seconds (a week)"),
        ("charge_until_pct", "25", "charge to more than that"),
        ("charge_until_pct", "101", "from 2 to 100 per cent"), ("charge_below_pct", "0", "from 1 to 99 per cent"),
        ("driver", "magic", "magic"), ("offline_policy", "pray", "pray"),
        ("accept_tries", "101", "from 1 to 100."), ("stops_after_silence_s", "0", "from 1 to 86400 seconds (one day)"),
        *((column, value, "A whole number from 1 to")
          for column in ("undelivered_s", "accept_s", "accept_tries", "finish_s", "answer_s", "stop_s", "paused_long_s",
                         "mission_timeout_s", "step_timeout-navigate", "stops_after_silence_s")
          for value in ("0", "-5", "1e3", "86401")),
    ],
)  # fmt: skip
def test_bad_input_is_said_at_its_field(client, admin_person, field, value, said):
    client.force_login(admin_person)
    errors = client.post("/admin/fleet/brand/add/", GOOD | {field: value}).context["form"].errors
    assert said in errors[field][0]
    assert not Brand.objects.exists()


@pytest.mark.parametrize(
    "columns",
    [
        {"suspect_after_s": 0}, {"suspect_after_s": 30}, {"offline_after_s": True}, {"charge_below_pct": 90},
        {"charge_until_pct": None}, {"capabilities": ["a\x00"]}, {"driver": "x" * 41}, {"name": " "},
    ],
)  # fmt: skip
def test_programs_are_refused_the_same(brand, columns):
    with pytest.raises(Refused):
        edit_brand(brand.pk, by=SYSTEM, **columns)
    assert Brand.objects.get().version == 1


TIMES = {
    "undelivered_s": "90", "accept_s": "12", "accept_tries": "3", "finish_s": "20", "answer_s": "6", "stop_s": "25",
    "paused_long_s": "300", "mission_timeout_s": "1200", "step_timeout-navigate": "200", "step_timeout-pick": "",
    "offline_policy": "hand_over", "stops_after_silence_s": "4", "strict_sequence": "on",
}  # fmt: skip


def test_every_time_and_policy_is_stored_shown_and_left_as_usual_when_empty(client, admin_person):
    client.force_login(admin_person)
    client.post("/admin/fleet/brand/add/", GOOD | TIMES)
    brand = Brand.objects.get()
    stored = {name: getattr(brand, name) for name in TIMES if hasattr(brand, name)}
    assert {name: str(value) for name, value in stored.items()} == {
        **{name: value for name, value in TIMES.items() if hasattr(brand, name)}, "strict_sequence": "True",
    }  # fmt: skip
    assert (brand.step_timeouts, brand.idle_cancel) == ({"navigate": 200}, False)
    form = client.get(f"/admin/fleet/brand/{brand.pk}/edit/").context["form"]
    assert {name: form[name].value() for name in ("accept_s", "step_timeout-navigate", "offline_policy")} == {
        "accept_s": 12, "step_timeout-navigate": 200, "offline_policy": "hand_over",
    }  # fmt: skip
    shown = client.get(f"/admin/fleet/brand/{brand.pk}/change/").content.decode()
    for words in ("within 12 s; sent 3 times", "except Navigate 200 s", "has 1200 s", "goes to another robot",
                  "after 4 s without a word", "within 25 s; then “stop not confirmed”", "is taken as done"):  # fmt: skip
        assert words in shown
    client.post(f"/admin/fleet/brand/{brand.pk}/edit/", GOOD)
    brand.refresh_from_db()
    assert (brand.accept_s, brand.mission_timeout_s, brand.step_timeouts, brand.offline_policy) == (
        10,
        600,
        {},
        "abort",
    )
    assert (brand.stops_after_silence_s, brand.strict_sequence) == (None, False)


def test_every_column_of_a_brand_has_its_field_and_says_what_happens(client, admin_person):
    client.force_login(admin_person)
    form = client.get("/admin/fleet/brand/add/").context["form"]
    grouped = [field.name for group in form.groups() for field in group.fields]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(form.fields)
    columns = {f.name for f in Brand._meta.concrete_fields} - {"id", "version", "step_timeouts", "profile"}
    assert columns <= set(grouped)
    assert all(field.help_text for field in form.fields.values())


def test_nothing_new_is_no_event(brand):
    edit_brand(brand.pk, name=brand.name, by=SYSTEM)
    assert Brand.objects.get().version == 1
    with pytest.raises(Refused, match="already"):
        create_brand(brand.name, by=SYSTEM)


def test_a_count_of_robots_tells_nothing_of_other_sites(client, other_supervisor, robot):
    client.force_login(other_supervisor)
    html = client.get("/admin/fleet/brand/").content.decode()
    assert "0 robots" in html and "1 robot<" not in html


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"accept_s": 0}, "accept_s: From 1"), ({"accept_tries": 0}, "accept_tries: From 1 to 100 tries"),
        ({"stop_s": "15"}, "stop_s: From 1"), ({"stops_after_silence_s": 0}, "stops_after_silence_s: From 1"),
        ({"offline_policy": "hope"}, "offline_policy: Choose one of abort, wait, hand_over"),
        ({"strict_sequence": 1}, "strict_sequence: Yes or no"), ({"idle_cancel": None}, "idle_cancel: Yes or no"),
        ({"step_timeouts": [60]}, "step_timeouts: Command types"), ({"step_timeouts": {"navigate": 0}}, "step_timeouts: From 1"),
    ],
)  # fmt: skip
def test_what_a_brand_says_about_missions_is_checked(brand, columns, said):
    with pytest.raises(Refused, match=said):
        edit_brand(brand.pk, by=SYSTEM, **columns)


def test_a_brands_times_are_those_of_its_missions(brand, robot, supervisor):
    edit_brand(
        brand.pk, by=SYSTEM, step_timeouts={"navigate": 7}, mission_timeout_s=77, accept_s=3, offline_policy="wait"
    )
    pk = draft_mission(title="Fetch", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    nobodys = draft_mission(title="Fetch", site=robot.site, steps=STEPS, by=SYSTEM)
    for drawn_up in (pk, nobodys):  # without a robot: the longest of those that could
        mission = Mission.objects.get(pk=drawn_up)
        assert mission.timeout_s == 77
        assert list(mission.steps.values_list("timeout_s", flat=True)) == [7, 60, 60]
    dispatch_mission(pk, by=SYSTEM)
    edit_brand(brand.pk, by=SYSTEM, accept_s=99, offline_policy="abort")
    tell(Mission.objects.get(pk=pk), Delivered())
    mission = Mission.objects.get(pk=pk)
    assert (mission.accepted_due_at - mission.delivered_at).total_seconds() == 3
    assert offline_policy(mission) == "wait"


# --- drivers


VDA = GOOD | {"driver": "vda5050"}


def settings_of(html, driver="vda5050"):
    return {name.removeprefix(f"setting-{driver}-") for name in re.findall(rf'name="(setting-{driver}-[^"]+)"', html)}


def test_the_drivers_that_are_installed_can_be_chosen_each_with_its_settings(client, admin_person):
    client.force_login(admin_person)
    page = client.get("/admin/fleet/brand/add/")
    known = drivers.known()
    assert page.context["form"].fields["driver"].choices == [(d.name, d.label) for d in known.values()]
    html = page.content.decode()
    assert settings_of(html) == {s.name for s in known["vda5050"].settings}
    assert re.search(r'<section class="panel"[^>]* data-driver="vda5050"', html)
    assert "style=" not in html and json.loads(re.search(r'id="driver-timings"[^>]*>(.*?)</script>', html)[1])


@pytest.mark.parametrize(("driver", "suspect"), [("", 9), ("native", 9), ("vda5050", 35), ("magic", 9)])
def test_the_form_of_a_new_brand_begins_with_the_times_of_its_driver(client, admin_person, driver, suspect):
    client.force_login(admin_person)
    form = client.get("/admin/fleet/brand/add/", {"driver": driver} if driver else {}).context["form"]
    assert form["suspect_after_s"].value() == suspect
    assert form["driver"].value() == ("vda5050" if driver == "vda5050" else "native")


def test_times_that_are_left_empty_are_as_usual_for_the_driver(client, admin_person):
    client.force_login(admin_person)
    client.post("/admin/fleet/brand/add/", VDA | {"suspect_after_s": "", "offline_after_s": ""})
    brand = Brand.objects.get()
    assert (brand.driver, brand.suspect_after_s, brand.offline_after_s) == ("vda5050", 35, 65)


def test_settings_of_the_chosen_driver_are_stored_where_they_are_not_as_usual(client, admin_person):
    client.force_login(admin_person)
    own = {"setting-vda5050-interface": "fleet", "setting-vda5050-pause_supported": "no", "setting-vda5050-major": "v2"}
    client.post("/admin/fleet/brand/add/", VDA | own)
    brand = Brand.objects.get()
    assert brand.profile == {"interface": "fleet", "pause_supported": False}
    form = client.get(f"/admin/fleet/brand/{brand.pk}/edit/").context["form"]
    assert [form[name].value() for name in own] == ["fleet", "no", "v2"]
    page = client.get(f"/admin/fleet/brand/{brand.pk}/change/").content.decode()
    assert "VDA 5050" in page and ": fleet" in page
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    client.post(f"/admin/fleet/brand/{brand.pk}/edit/", shown | {"setting-vda5050-pause_supported": "yes"})
    brand.refresh_from_db()
    assert (brand.profile, brand.version) == ({"interface": "fleet"}, 2)


@pytest.mark.parametrize(("name", "value"), [
    ("interface", "a/b"), ("interface", "+"), ("major", "2"), ("base_steps", "0"), ("base_steps", "x"), ("instant_key", "magic"),
    ("parameters", "{"), ("deviation_xy_m", "0.1"), ("version", "two"),
])  # fmt: skip
def test_a_wrong_setting_is_said_at_its_field_and_only_where_its_driver_is_chosen(client, admin_person, name, value):
    client.force_login(admin_person)
    field = f"setting-vda5050-{name}"
    errors = client.post("/admin/fleet/brand/add/", VDA | {field: value}).context["form"].errors
    assert list(errors) == [field]
    assert not Brand.objects.exists()
    client.post("/admin/fleet/brand/add/", GOOD | {field: value})
    assert Brand.objects.get().profile == {}


def test_a_driver_that_is_not_installed_any_more_stays_chosen(client, admin_person, monkeypatch):
    client.force_login(admin_person)
    client.post("/admin/fleet/brand/add/", VDA | {"setting-vda5050-interface": "fleet"})
    brand = Brand.objects.get()
    only = {"native": drivers.known()["native"]}
    monkeypatch.setattr(drivers, "source", lambda: only)
    form = client.get(f"/admin/fleet/brand/{brand.pk}/edit/").context["form"]
    assert ("vda5050", "vda5050 (not installed)") in form.fields["driver"].choices
    client.post(f"/admin/fleet/brand/{brand.pk}/edit/", VDA | {"suspect_after_s": "5"})
    brand.refresh_from_db()
    assert (brand.suspect_after_s, brand.profile) == (5, {"interface": "fleet"})
