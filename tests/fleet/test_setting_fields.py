"""A driver's settings as inputs and back: what is usual is not stored, what is wrong is said at its field."""

import pytest
from django import forms

from fleet.brands import setting_fields
from fleet.ports.drivers import Driver, Setting

SETTINGS = (
    Setting("prefix", "Prefix", "text", "uagv", "Before every topic."),
    Setting("note", "Note", "text", ""),
    Setting("key", "Key", "choice", "both", choices=("both", "actions")),
    Setting("pause", "Can pause", "yes_no", True),
    Setting("ahead", "Ahead", "whole", 2),
    Setting("near_m", "Near (m)", "number", 0.5),
    Setting("silent_s", "Silent (s)", "whole", None, optional=True),
    Setting("tools", "Tools", "list", []),
    Setting("names", "Names", "map", {}),
    Setting("more", "More", "json", {}),
)


def wrong(profile):
    found = {}
    if profile.get("prefix") == "":
        found["prefix"] = "It is needed."
    if profile.get("ahead", 1) < 1:
        found["ahead"] = "At least 1."
    return found


DRIVER = Driver("post", "Post", settings=SETTINGS, wrong=wrong)


def filled(told=None, profile=None, over=None):
    """A form with these settings, filled in as it was shown but for what is told."""
    form = forms.Form()
    form.fields = setting_fields.fields(DRIVER, profile or {}, over=over)
    shown = {name: field.initial for name, field in form.fields.items()}
    data = shown | {f"setting-post-{name}": value for name, value in (told or {}).items()}
    bound = forms.Form({name: "" if value is None else value for name, value in data.items()})
    bound.fields = form.fields
    bound.is_valid()
    return bound, setting_fields.profile_of(bound, DRIVER, over=over)


def test_as_shown_nothing_is_stored():
    form, profile = filled()
    assert (profile, form.errors) == ({}, {})
    assert all(field.help_text for field in form.fields.values())
    assert "Usually uagv." in form.fields["setting-post-prefix"].help_text


TOLD = {
    "prefix": "fleet", "note": "hi", "key": "actions", "pause": "no", "ahead": "3", "near_m": "0.75", "silent_s": "9",
    "tools": "fork, clamp,", "names": "pick = lift\n drop=lower=x ", "more": '{"a": {"b": 1}}',
}  # fmt: skip
STORED = {
    "prefix": "fleet", "note": "hi", "key": "actions", "pause": False, "ahead": 3, "near_m": 0.75, "silent_s": 9,
    "tools": ["fork", "clamp"], "names": {"pick": "lift", "drop": "lower=x"}, "more": {"a": {"b": 1}},
}  # fmt: skip


def test_what_is_not_as_usual_is_stored_typed_and_shown_again():
    form, profile = filled(TOLD)
    assert (form.errors, profile) == ({}, STORED)
    assert filled(profile=STORED)[1] == STORED
    assert len(setting_fields.in_words(DRIVER, STORED)) == len(STORED)


@pytest.mark.parametrize("name", ["prefix", "ahead", "silent_s", "note", "key", "tools", "more"])
def test_emptied_is_as_usual(name):
    form, profile = filled({name: ""}, profile={name: STORED[name]})
    assert (profile, form.errors) == ({}, {})


def test_where_empty_means_something_it_is_stored():
    form, profile = filled({"prefix": ""}, profile={})
    assert (profile, form.errors) == ({}, {})
    with_usual = DRIVER._replace(settings=(Setting("station", "Station", "text", "stationName"),))
    form = forms.Form({"setting-post-station": ""})
    form.fields = setting_fields.fields(with_usual, {})
    form.is_valid()
    assert setting_fields.profile_of(form, with_usual) == {"station": ""}


@pytest.mark.parametrize(("name", "value"), [
    ("ahead", "0"), ("ahead", "x"), ("near_m", "nan"), ("key", "magic"), ("pause", "perhaps"), ("names", "no sign"),
    ("more", "{"), ("more", "[" * 5000), ("silent_s", "1e3"),
])  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(name, value):
    form, _ = filled({name: value})
    assert list(form.errors) == [f"setting-post-{name}"]


def test_of_a_robot_only_what_it_has_itself_is_stored():
    brand = {"prefix": "fleet", "pause": False}
    form, profile = filled(over=brand)
    assert (profile, form.errors) == ({}, {})
    assert "Empty: fleet, as its brand." in form.fields["setting-post-prefix"].help_text
    form, profile = filled({"pause": "yes", "ahead": "2"}, over=brand)
    assert profile == {"pause": True, "ahead": 2}
    assert filled(profile=profile, over=brand)[1] == profile
    assert filled({"pause": ""}, profile=profile, over=brand)[1] == {"ahead": 2}


def test_empty_has_one_meaning_in_a_robots_form():
    driver = Driver(
        "post", "Post", settings=(Setting("load", "Load", "text", "loadId", "Of pick. Empty: it is not told."),)
    )
    [brands] = setting_fields.fields(driver, {}).values()
    assert brands.help_text == "Of pick. Empty: it is not told. Usually loadId."
    [robots] = setting_fields.fields(driver, {}, over={}).values()
    assert robots.help_text == "Of pick. Empty: loadId, as its brand."
    [silent] = setting_fields.fields(driver, {}, over={"load": ""}).values()
    assert silent.help_text == "Of pick. Empty: it is not told."
