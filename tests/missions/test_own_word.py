"""What a robot says itself that it can do counts before its brand's: when missions are made, given out, and explained."""

from datetime import timedelta

import pytest
from django.db import transaction

from fleet.brands.actions import edit_brand
from fleet.models import Robot
from fleet.refusals import Refused
from fleet.robots import abilities, actions
from fleet.robots.facts import Offers
from missions.actions import dispatch_mission, queue_mission
from missions.drawing_up import draft_mission
from missions.forms.choices import choices_for
from missions.ledger import Ledger
from missions.models import Mission
from missions.queue import dispatching
from missions.queue.reasons import robot_obstacle
from missions.queue.standing import standing
from tests.actors import START, SYSTEM, online

CHARGE = [{"command": "charge", "params": {"place": "Charger 1"}}]
BEEP = [{"command": "custom", "params": {"name": "beep"}}]
GO = [{"command": "navigate", "params": {"place": "Dock A"}}]


@pytest.mark.parametrize(("need", "able", "can"), [
    ("pick", {"pick"}, True), ("pick", {"drop"}, False), ("custom:beep", {"custom"}, True),
    ("custom:beep", {"custom", "custom:beep"}, True), ("custom:beep", {"custom", "custom:horn"}, False),
    ("custom:beep", {"custom:beep"}, True), ("custom", {"custom:beep"}, True), ("custom", {"pick"}, False),
    ("custom:beep", set(), False), ("pick:x", {"pick"}, False),
])  # fmt: skip
def test_what_a_need_is_met_by(need, able, can):
    assert abilities.can(need, able) is can


def test_several_together_can_what_any_of_them_can():
    every, horn = {"custom", "pick"}, {"custom", "custom:horn"}
    assert abilities.can("custom:beep", abilities.together([every, horn]))
    assert not abilities.can("custom:beep", abilities.together([horn, {"pick"}]))
    assert abilities.can("pick", abilities.together([horn, {"pick"}]))
    assert abilities.together([]) == frozenset()


def offer(robot_id, *can):
    with transaction.atomic():
        ledger = Ledger.open([robot_id], now=START + timedelta(hours=1))
        ledger.tell_robot(robot_id, Offers(sorted(can)), SYSTEM)
        ledger.commit()


def draft(site, robot, steps, by=SYSTEM):
    return draft_mission(title="T", site=site, robot=robot, steps=steps, by=by)


def test_what_it_cannot_is_refused_when_the_mission_is_made_with_its_own_word(robot, site):
    draft(site, "RB-001", CHARGE)
    offer("RB-001", "navigate", "pick", "drop")
    with pytest.raises(Refused) as refused:
        draft(site, "RB-001", CHARGE)
    assert str(refused.value) == "Step 1, command: Ella cannot charge: it says that it can drop, navigate, pick."
    assert Mission.objects.count() == 1


def test_more_than_its_brand_as_well(robot, site):
    with pytest.raises(Refused, match="Robots of this brand cannot do custom"):
        draft(site, "RB-001", BEEP)
    offer("RB-001", "custom:beep")
    draft(site, "RB-001", BEEP)
    with pytest.raises(Refused, match=r"^Step 1, name: Ella cannot custom horn: it says that it can custom beep\.$"):
        draft(site, "RB-001", [{"command": "custom", "params": {"name": "horn"}}])


def test_a_brand_may_name_its_custom_commands_too(robot, site, brand):
    edit_brand(brand.pk, capabilities=["custom", "custom:horn"], by=SYSTEM)
    with pytest.raises(Refused, match=r"^Step 1, name: Robots of this brand cannot do custom beep; they can do custom"):
        draft(site, "RB-001", BEEP)


def test_a_mission_for_anybody_needs_one_who_can(robot, other_robot, site):
    offer("RB-001", "navigate")
    draft(site, None, CHARGE)  # the other one's brand can
    offer("RB-002", "pick")
    with pytest.raises(Refused, match="Step 1, command"):
        draft(site, None, CHARGE)


def test_it_is_given_to_one_who_can_and_the_reason_says_why_not_to_the_other(robot, other_robot, site):
    offer("RB-001", "navigate")
    pk = draft(site, None, CHARGE)
    online("RB-002", "offline")
    queue_mission(pk, by=SYSTEM)
    assert dispatching.decisions(START) == []
    online("RB-002")
    assert [decision.robot.id for decision in dispatching.decisions(START)] == ["RB-002"]
    actions.retire_robot("RB-002", by=SYSTEM)
    facts = standing([Mission.objects.get(pk=pk)], all_robots=True)
    reason = robot_obstacle(facts.robots["RB-001"], facts.missions[pk])
    assert reason.text == "Ella cannot charge: it says that it can navigate"
    assert dispatching.decisions(START) == []


def test_what_it_said_after_the_decision_counts_when_it_is_carried_out(robot, site):
    pk = draft(site, "RB-001", CHARGE)
    online("RB-001", "offline")
    queue_mission(pk, by=SYSTEM)
    online("RB-001")
    chosen = dispatching.decisions(START)
    assert len(chosen) == 1
    offer("RB-001", "navigate")
    with transaction.atomic():
        assert dispatching.carry_out(chosen, START) == []


def test_a_mission_of_before_is_not_dispatched_by_hand(robot, site):
    pk = draft(site, "RB-001", CHARGE)
    offer("RB-001", "navigate")
    with pytest.raises(Refused, match="Ella cannot charge: it says that it can navigate"):
        dispatch_mission(pk, by=SYSTEM)


def test_the_form_offers_what_it_says(robot, other_robot, site, supervisor):
    offer("RB-001", "custom:beep", "navigate")
    choices = choices_for(supervisor)
    assert choices.robots["RB-001"].can == ["custom", "navigate"]
    told = choices.for_page()  # to the script: it and the others of its brand are of two kinds
    for name, choice in choices.robots.items():
        assert told["kinds"][told["robots"][name]["kind"]]["can"] == tuple(choice.can)
    assert choices.capabilities(site.pk, "RB-001") == {"custom:beep", "navigate"}
    assert (choices.whose("RB-001"), choices.whose("")) == ("Ella", "")
    assert "Ella cannot custom horn" in choices.would_go_to(
        site.pk, "RB-001", [{"command": "custom", "params": {"name": "horn"}}]
    )


def test_pages_and_the_api_say_the_same(client, admin_person, robot):
    client.force_login(admin_person)
    assert "as its brand" in client.get("/admin/fleet/robot/RB-001/change/").content.decode()
    offer("RB-001", "navigate", "<b>")
    page = client.get("/admin/fleet/robot/RB-001/change/").content.decode()
    assert "as it says itself" in page and "&lt;b&gt;, navigate" in page and "<b>," not in page
    assert Robot.objects.get().capabilities == ["<b>", "navigate"]
