"""Brands in admin: capabilities from the command registry, three timings in order, charging, and their history."""

import pytest

from fleet.actions import Refused
from fleet.brand_actions import create_brand, edit_brand
from fleet.models import Brand
from missions.command_types import TYPES
from tests.actors import SYSTEM

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
        ("suspect_after_s", "0", "greater than or equal to 1"), ("suspect_after_s", "x", "whole number"),
        ("suspect_after_s", "99999999999", "less than or equal"), ("offline_after_s", "8", "at least 9"),
        ("abandon_after_s", "-1", "greater than or equal to 0"), ("charge_until_pct", "25", "charge to more than that"),
        ("charge_until_pct", "101", "less than or equal to 100"), ("charge_below_pct", "0", "greater than or equal to 1"),
        ("driver", "magic", "magic"),
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


def test_nothing_new_is_no_event(brand):
    edit_brand(brand.pk, name=brand.name, by=SYSTEM)
    assert Brand.objects.get().version == 1
    with pytest.raises(Refused, match="already"):
        create_brand(brand.name, by=SYSTEM)


def test_a_count_of_robots_tells_nothing_of_other_sites(client, other_supervisor, robot):
    client.force_login(other_supervisor)
    html = client.get("/admin/fleet/brand/").content.decode()
    assert "0 robots" in html and "1 robot<" not in html
