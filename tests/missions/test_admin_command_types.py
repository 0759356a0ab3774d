"""Command types: every type accepts what it should, names the field of what it refuses, and speaks in words."""

import json

import pytest

from missions.command_types import TYPES, Invalid, default_timeout_s, in_words, validate

PLACES = {"Dock A", "Rack <3>"}
ALL = list(TYPES)
deep = {}
for _ in range(20):
    deep = {"a": deep}


@pytest.mark.parametrize(
    ("command", "params", "stored", "words"),
    [
        ("navigate", {"place": "Dock A"}, {"place": "Dock A"}, "Drive to Dock A"),
        ("pick", {"place": "Rack <3>"}, {"place": "Rack <3>", "load": ""}, "Pick at Rack <3>"),
        ("drop", {"place": "Dock A", "load": "box"}, {"place": "Dock A", "load": "box"}, "Drop box at Dock A"),
        ("wait", {"seconds": 5}, {"seconds": 5.0}, "Wait 5 s"),
        ("wait", {"seconds": 86400}, {"seconds": 86400.0}, "Wait 86400 s"),
        ("charge", {}, {"place": "", "until_percent": 100}, "Charge to 100 %"),
        ("charge", {"place": "Dock A", "until_percent": 80}, {"place": "Dock A", "until_percent": 80}, "Charge at Dock A to 80 %"),
        ("custom", {"name": "beep"}, {"name": "beep", "args": {}}, "Run beep"),
        ("custom", {"name": "lift", "args": {"mm": [1, 2.5, None]}}, {"name": "lift", "args": {"mm": [1, 2.5, None]}}, 'Run lift with {"mm":[1,2.5,null]}'),
    ],
)  # fmt: skip
def test_accepts_and_says(command, params, stored, words):
    assert validate(command, params, places=PLACES, capabilities=ALL) == stored
    assert json.loads(json.dumps(stored)) == stored
    assert in_words(command, stored) == words


@pytest.mark.parametrize(
    ("command", "params", "field"),
    [
        ("fly", {}, "command"),
        ("", {}, "command"),
        (None, {}, "command"),
        (["navigate"], {}, "command"),
        ("navigate", [], "params"),
        ("navigate", None, "params"),
        ("navigate", {}, "place"),
        ("navigate", {"place": ""}, "place"),
        ("navigate", {"place": None}, "place"),
        ("navigate", {"place": 7}, "place"),
        ("navigate", {"place": "Mars"}, "place"),
        ("navigate", {"place": "Dock A", "state": "success"}, "state"),
        ("navigate", {"place": "Dock A", 1: 2, "z": 3}, "1"),
        ("pick", {"place": "Dock A", "load": "x" * 201}, "load"),
        ("pick", {"place": "Dock A", "load": "a\x00b"}, "load"),
        ("pick", {"place": "Dock A", "load": "\ud800"}, "load"),
        ("wait", {}, "seconds"),
        ("wait", {"seconds": 0}, "seconds"),
        ("wait", {"seconds": -1}, "seconds"),
        ("wait", {"seconds": 86400.5}, "seconds"),
        ("wait", {"seconds": float("nan")}, "seconds"),
        ("wait", {"seconds": float("inf")}, "seconds"),
        ("wait", {"seconds": "5"}, "seconds"),
        ("wait", {"seconds": True}, "seconds"),
        ("charge", {"until_percent": 0}, "until_percent"),
        ("charge", {"until_percent": 101}, "until_percent"),
        ("charge", {"until_percent": 50.5}, "until_percent"),
        ("charge", {"place": "Mars"}, "place"),
        ("custom", {"args": {}}, "name"),
        ("custom", {"name": "x", "args": []}, "args"),
        ("custom", {"name": "x", "args": {"a": "b\x00"}}, "args"),
        ("custom", {"name": "x", "args": {"\x00": 1}}, "args"),
        ("custom", {"name": "x", "args": {1: 1}}, "args"),
        ("custom", {"name": "x", "args": {"a": 2**63}}, "args"),
        ("custom", {"name": "x", "args": {"a": float("inf")}}, "args"),
        ("custom", {"name": "x", "args": {"a": object()}}, "args"),
        ("custom", {"name": "x", "args": {"a": "y" * 5000}}, "args"),
        ("custom", {"name": "x", "args": deep}, "args"),
    ],
)
def test_refuses_and_names_the_field(command, params, field):
    with pytest.raises(Invalid) as caught:
        validate(command, params, places=PLACES, capabilities=ALL)
    assert caught.value.field == field
    assert caught.value.reason.endswith(".")
    assert "`" not in caught.value.reason, "words for people, not for programmers"


@pytest.mark.parametrize("command", ALL)
def test_only_what_the_brand_can_do(command):
    with pytest.raises(Invalid) as caught:
        validate(command, {}, places=PLACES, capabilities=set(ALL) - {command})
    assert caught.value.field == "command"


def test_words_never_fail_on_stored_rows():
    assert in_words("teleport", {"a": 1}) == "teleport"
    assert in_words("navigate", {"somewhere": 1}) == "navigate"


def test_a_wait_is_given_longer_than_it_waits():
    assert default_timeout_s("wait", {"seconds": 300.5}) == 361
    assert default_timeout_s("wait", {"seconds": 86400.0}) == 86400
    assert {t: default_timeout_s(t, {}) for t in TYPES} == {t: known.timeout_s for t, known in TYPES.items()}


def test_inputs_cover_exactly_the_parameters():
    for known in TYPES.values():
        assert [i.name for i in known.inputs] == list(known.params.__struct_fields__)
        defaults = len(known.params.__struct_defaults__)
        required = len(known.inputs) - defaults
        assert [i.required for i in known.inputs] == [n < required for n in range(len(known.inputs))]
