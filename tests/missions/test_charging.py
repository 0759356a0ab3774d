"""Who is sent to charge, and where: the rule as a table, and one robot per charger whoever asks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.brands.actions import edit_brand
from fleet.models import Robot
from fleet.ports import live
from fleet.ports.live import Facts
from missions import actions, charging, drawing_up
from missions.charging import Charger, Run, needs_charge, runs
from missions.models import Mission
from missions.queue.reasons import RobotFacts
from tests.actors import SYSTEM
from tests.together import together

LOW = RobotFacts("RB-001", "Ella", 1, frozenset({"charge"}), battery=20.0, charge_below_pct=25, x=0.0, y=0.0)
BAY = Charger(1, "Charger 1", 5.0, 0.0)


@pytest.mark.parametrize(
    ("over", "wanted"),
    [
        ({}, True), ({"battery": 25.0}, False), ({"battery": None}, False), ({"charge_below_pct": None}, False),
        ({"mode": "running"}, False), ({"mode": "charging"}, False), ({"mode": "unknown"}, False),
        ({"running": "X"}, False), ({"held": "Stopped"}, False), ({"presence": "offline"}, False),
        ({"fault": "x"}, False), ({"capabilities": frozenset()}, False), ({"retired": True}, False),
        ({"battery": 3.0}, True),
    ],
)  # fmt: skip
def test_who_needs_to_charge(over, wanted):
    assert needs_charge(replace(LOW, **over)) is wanted
    assert bool(runs([replace(LOW, **over)], [BAY], {})) is wanted


def test_the_emptiest_first_and_the_nearest_charger():
    second = replace(LOW, id="RB-002", battery=12.0)
    near = replace(BAY, name="Charger 2", x=1.0)
    assert [(r.robot.id, r.charger.name) for r in runs([LOW, second], [BAY, near], {})] == [
        ("RB-002", "Charger 2"), ("RB-001", "Charger 1"),
    ]  # fmt: skip
    assert [r.robot.id for r in runs([LOW, second], [BAY], {})] == ["RB-002"]


@pytest.mark.parametrize(
    ("charger", "others", "at", "free"),
    [
        (BAY, [], {}, True),
        (replace(BAY, taken=True), [], {}, False),
        (replace(BAY, site_id=2), [], {}, False),
        (BAY, [replace(LOW, id="X", battery=90.0)], {"X": "Charger 1"}, False),
        (BAY, [replace(LOW, id="X", battery=90.0, x=5.2, y=0.3)], {}, False),
        (BAY, [replace(LOW, id="X", battery=90.0, running="Y")], {"X": "Charger 1"}, True),  # it is about to leave
        (BAY, [replace(LOW, id="X", battery=90.0, site_id=2)], {"X": "Charger 1"}, True),
        (BAY, [], {"RB-001": "Charger 1"}, True),  # where it needs to go it stands already
    ],
)
def test_a_charger_is_free_when_nobody_uses_it_or_stands_at_it(charger, others, at, free):
    assert bool(runs([LOW, *others], [charger], at)) is free


def test_one_that_was_sent_lately_is_not_sent_again():
    assert runs([LOW], [BAY], {}, ["RB-001"]) == []


# --- with the database


@pytest.fixture
def low(site, robot, monkeypatch):
    edit_brand(robot.brand_id, charge_below_pct=25, charge_until_pct=90, by=SYSTEM)
    from tests.telemetry.test_queueing import says

    says("RB-001", "idle")
    at = datetime(2026, 11, 29, tzinfo=UTC)
    batteries = {"RB-001": 20.0}
    monkeypatch.setattr(live, "source", lambda ids: {i: Facts(at, battery=batteries[i]) for i in ids if i in batteries})
    return batteries


def send(now=None) -> list[bool]:
    done = []
    for run in charging.look(now or timezone.now()):
        with transaction.atomic():
            done.append(charging.send(run, now or timezone.now()))
    return done


def test_a_mission_drawn_up_by_policy(low):
    assert send() == [True]
    mission = Mission.objects.get()
    assert (mission.title, mission.created_by, mission.charger, mission.robot_id) == (
        "Charge at Charger 1", "charge policy", "Charger 1", "RB-001",
    )  # fmt: skip
    assert mission.dispatched_at
    step = mission.steps.get()
    assert (step.command, step.params) == ("charge", {"place": "Charger 1", "until_percent": 90})
    assert send() == []


def test_a_cancelled_charge_is_not_drawn_up_again_at_once(low):
    send()
    actions.cancel_mission(Mission.objects.get().pk, by=SYSTEM)
    assert send() == []
    later = timezone.now() + timedelta(seconds=charging.AGAIN_S + 1)
    assert send(later) == [True]


def test_without_a_policy_nobody_asks_for_anything(low, django_assert_num_queries):
    edit_brand(Robot.objects.get().brand_id, charge_below_pct=None, by=SYSTEM)
    with django_assert_num_queries(1):
        assert charging.look(timezone.now()) == []


def test_peoples_missions_wait_for_the_charger_too(low, other_robot, site):
    send()
    steps = [{"command": "charge", "params": {"place": "Charger 1"}}]
    pk = drawing_up.draft_mission(title="By hand", site=site, robot="RB-002", steps=steps, by=SYSTEM)
    assert actions.queue_mission(pk, by=SYSTEM) == "waits: Charger 1 is taken by “Charge at Charger 1”"
    actions.cancel_mission(Mission.objects.get(created_by="charge policy").pk, by=SYSTEM)
    assert actions.queue_mission(pk, by=SYSTEM) == "dispatched to Bruno"


@pytest.mark.parametrize("_round", range(3))
@pytest.mark.django_db(transaction=True)
def test_two_robots_at_once_one_charger(low, other_robot, _round):
    from tests.telemetry.test_queueing import says

    says("RB-002", "idle")
    low["RB-002"] = 15.0
    now = timezone.now()
    (run,) = charging.look(now)
    rival = Run(replace(run.robot, id="RB-001"), run.charger)
    assert run.robot.id == "RB-002"

    def attempt(which):
        def call():
            with transaction.atomic():
                return charging.send(which, now)

        return call

    results = together(attempt(run), attempt(rival))
    assert sorted(map(type, results), key=str) == sorted([bool, IntegrityError], key=str)
    assert "mission_one_robot_per_charger" in str(next(r for r in results if isinstance(r, IntegrityError)))
    assert Mission.objects.count() == 1
    assert Robot.objects.count() == 2
