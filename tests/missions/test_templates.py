"""A template makes missions; its parameters are typed, and what it would make can be drawn up."""

import pytest

from fleet.history import AGGREGATES, fold, sentence
from fleet.models import Event, Place
from fleet.refusals import Refused
from fleet.sites.actions import remove_place
from missions import templates
from missions.models import Mission, Template
from tests.actors import SYSTEM

STEPS = [
    {"command": "navigate", "params": {"place": "{from_place}"}},
    {"command": "pick", "params": {"place": "{from_place}", "load": "{load} for {who}"}},
    {"command": "wait", "params": {"seconds": "{pause}"}},
]
PARAMETERS = [
    {"name": "from_place", "type": "place", "default": "Dock A"},
    {"name": "load", "type": "text"},
    {"name": "who", "type": "text", "default": "Ana"},
    {"name": "pause", "type": "number", "default": 2.5},
]


def save(site, **over):
    said = {"name": "Fetch", "site": site, "title": "Fetch {load}", "steps": STEPS, "parameters": PARAMETERS}
    return templates.save_template(**said | over, by=SYSTEM)


def test_a_mission_of_it_has_the_values_in_place_typed(site, robot):
    pk = templates.mission_of_template(save(site), {"load": "crate 7", "pause": "3"}, by=SYSTEM)
    mission = Mission.objects.get(pk=pk)
    assert (mission.title, mission.origin_kind) == ("Fetch crate 7", "template")
    assert mission.template == Template.objects.get()
    assert [step.params for step in mission.steps.all()] == [
        {"place": "Dock A"}, {"place": "Dock A", "load": "crate 7 for Ana"}, {"seconds": 3.0},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "load: This is needed"),
        ({"load": "x", "colour": "red"}, "colour: The template has no such parameter"),
        ({"load": "x", "pause": "soon"}, "pause: A number"),
        ({"load": "x", "pause": True}, "pause: A number"),
        ({"load": "x", "pause": "nan"}, "pause: A number"),
        ({"load": "x", "from_place": "Nowhere"}, "Step 1, place: Nowhere is no place of this site"),
        ({"load": 7}, "load: Text"),
    ],
)
def test_values_that_do_not_fit(site, robot, values, why):
    pk = save(site)
    with pytest.raises(Refused, match=why):
        templates.mission_of_template(pk, values, by=SYSTEM)
    assert not Mission.objects.exists()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"title": "{nothing}"}, "title: {nothing} is no parameter"),
        ({"steps": [{"command": "fly"}]}, "Step 1, command"),
        ({"steps": [{"command": "wait", "params": {"seconds": "{x}"}}]}, "Step 1: {x} is no parameter"),
        ({"steps": []}, "steps: A template has"),
        ({"steps": [{"command": "wait", "params": {"seconds": -1}}]}, "Step 1, seconds"),
        ({"parameters": [{"name": "a b"}]}, "parameters: “a b” must be a name"),
        ({"parameters": [*PARAMETERS, {"name": "load"}]}, "parameters: “load” must be a name"),
        ({"parameters": [{"name": "a", "type": "robot"}]}, "parameters: a is of type"),
        ({"name": " "}, "name: Give it a name"),
    ],
)
def test_what_no_template_may_say(site, robot, said, why):
    with pytest.raises(Refused) as refused:
        save(site, **said)
    assert why in str(refused.value)


def test_braces_in_a_value_stay_what_they_are(site, robot):
    pk = templates.mission_of_template(save(site), {"load": "{who} {settings.SECRET_KEY}"}, by=SYSTEM)
    assert Mission.objects.get(pk=pk).title == "Fetch {who} {settings.SECRET_KEY}"


def test_a_name_once_per_site_until_it_is_out_of_use(site, robot):
    first = save(site)
    with pytest.raises(Refused, match="has a template called Fetch already"):
        save(site)
    templates.retire_template(first, by=SYSTEM)
    with pytest.raises(Refused, match="out of use"):
        templates.mission_of_template(first, {"load": "x"}, by=SYSTEM)
    save(site)


def test_a_change_is_versioned_and_in_the_history(site, robot):
    pk = save(site)
    save(site, template_id=pk, version=1, title="Bring {load}", steps=STEPS[:1])
    with pytest.raises(Refused, match="has changed since"):
        save(site, template_id=pk, version=1)
    events = list(Event.objects.filter(aggregate=f"template:{pk}").order_by("seq"))
    assert [sentence(e) for e in events] == ["Drawn up: Fetch", "Edited"]
    assert [e.site_id for e in events] == [site.pk] * 2
    assert fold(AGGREGATES["template"], pk, events).row.title == "Bring {load}"


def test_a_place_that_is_gone_is_said_when_a_mission_is_made(site, robot):
    pk = save(site)
    remove_place(Place.objects.get(name="Dock A").pk, by=SYSTEM)
    with pytest.raises(Refused, match="Step 1, place: Dock A is no place"):
        templates.mission_of_template(pk, {"load": "x"}, by=SYSTEM)
