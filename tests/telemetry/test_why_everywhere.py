"""Why a mission waits is the same sentence in admin, API and on the live page: one rule, two ways to its facts (I5)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.brands.actions import create_brand, edit_brand
from fleet.ports import live
from fleet.ports.live import Facts
from fleet.robots.actions import edit_robot, enrol_robot, tell
from fleet.robots.facts import Retire
from fleet.robots.stopping import stop_robot
from missions import actions
from missions.models import OPEN, Mission
from missions.queue.waiting import why_waiting, why_waiting_all
from telemetry.live import loading
from telemetry.live.board import Board, Dirty
from telemetry.live.looks import mission_look
from telemetry.snapshots import Snapshot
from tests.actors import SYSTEM, online
from tests.telemetry.test_queueing import draw_up, says

BATTERIES = {"RB-001": 62.4, "RB-003": 8.0}


@pytest.fixture
def batteries(monkeypatch):
    at = datetime(2026, 11, 29, tzinfo=UTC)
    monkeypatch.setattr(live, "source", lambda ids: {i: Facts(at, battery=BATTERIES[i]) for i in ids if i in BATTERIES})


def on_the_page() -> dict[str, str]:
    """What the live page says about every open mission, from its own statement."""
    board = Board()
    snapshots = {robot: Snapshot(at=1, battery=battery) for robot, battery in BATTERIES.items()}
    with CaptureQueriesContext(connection) as asked:
        rows = loading.load(None)
    assert len(asked) == 1
    board.put(Dirty(True, set(), set(), set()), rows, snapshots, 0.0)
    board.waiting.for_any()
    found = {}
    for pk, row in board.missions.items():
        if row.robot or row.waits is None:
            look = mission_look(row, board.waiting.facts(row.robot) if row.robot else None)
        else:
            look = mission_look(board.waiting.placed(row), None, board.waiting.robots_at(row.site))
        found[pk] = look.said
    return found


def queue(pk):
    actions.queue_mission(pk, by=SYSTEM)
    return pk


def test_every_reason_is_the_same_sentence(batteries, site, brand, robot, other_robot, supervisor):
    edit_brand(brand.pk, charge_below_pct=25, by=SYSTEM)
    says("RB-001", "charging")
    enrol_robot(id="RB-003", name="Cora", site=site, brand=brand, by=SYSTEM)
    online("RB-003")
    says("RB-003", "idle")
    for n, (mode, presence) in enumerate(
        [("fault", "online"), ("manual", "online"), ("paused", "online"), ("idle", "offline")]
    ):
        enrol_robot(id=f"RB-1{n}", name=f"R{n}", site=site, brand=brand, by=SYSTEM)
        online(f"RB-1{n}")
        says(f"RB-1{n}", mode)
        if presence != "online":
            online(f"RB-1{n}", presence)
    enrol_robot(id="RB-20", name="New", site=site, brand=brand, by=SYSTEM)
    enrol_robot(id="RB-21", name="Weak", site=site, brand=brand, by=SYSTEM)
    enrol_robot(id="RB-22", name="Old", site=site, brand=brand, by=SYSTEM)
    enrol_robot(id="RB-23", name="Held", site=site, brand=brand, by=SYSTEM)
    online("RB-21")
    online("RB-23")
    stop_robot("RB-23", by=SYSTEM, why="spill")
    first = queue(draw_up(site, title="First", robot="RB-002"))
    for robot_id in (
        "RB-001",
        "RB-003",
        "RB-10",
        "RB-11",
        "RB-12",
        "RB-13",
        "RB-20",
        "RB-21",
        "RB-22",
        "RB-23",
        "RB-002",
    ):
        for priority in (0, 3, 0):
            queue(draw_up(site, title=f"{robot_id} {priority}", robot=robot_id, priority=priority))
    retire = Mission.objects.filter(robot="RB-22", dispatched_at__isnull=False)
    for mission in retire:
        actions.cancel_mission(mission.pk, by=SYSTEM)
    tell("RB-22", Retire(), by=SYSTEM)  # rows of before this was refused while missions wait
    weak = create_brand("Weak", capabilities=["navigate"], by=SYSTEM)
    edit_robot("RB-21", name="Weak", site=site, brand=weak, by=SYSTEM)
    draw_up(site, title="Draft", robot="RB-002")
    draw_up(site, title="Approve me", robot="RB-002", needs_approval=True)
    queue(draw_up(site, title="After", robot="RB-003", after=[first]))
    queue(draw_up(site, title="Tonight", robot="RB-003", not_before=timezone.now() + timedelta(hours=3)))
    charge = [{"command": "charge", "params": {"place": "Charger 1"}}]
    queue(draw_up(site, title="Charge A", steps=charge, robot="RB-003"))
    queue(draw_up(site, title="Charge B", steps=charge, robot="RB-002"))
    for priority in (0, 0, 2):
        queue(draw_up(site, title=f"Anyone {priority}", priority=priority))
    queue(draw_up(site, title="Picked", steps=[{"command": "pick", "params": {"place": "Dock A"}}]))
    missions = list(Mission.objects.filter(state__in=OPEN).select_related("robot"))
    told, shown = why_waiting_all(missions), on_the_page()
    assert len(missions) > 35
    reasons = set()
    for mission in missions:
        words = told[mission.pk]
        assert words, mission
        reasons.add(words.replace(str(mission.robot), "R"))
        short = words if len(words) <= 160 else words[:159] + "…"
        assert shown[str(mission.pk)] == short, mission
    assert len(reasons) >= 20


def test_as_many_questions_for_two_hundred_as_for_five(batteries, site, robot, other_robot):
    counts = []
    for more in (5, 195):
        for n in range(more):
            pk = draw_up(site, title=f"M{n}", robot=[None, "RB-001", "RB-002"][n % 3])
            if n % 2:
                queue(pk)
        rows = list(Mission.objects.select_related("robot"))
        with CaptureQueriesContext(connection) as asked:
            why_waiting_all(rows)
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 8


def test_nothing_is_asked_about_what_runs_or_has_ended(dispatched, django_assert_num_queries):
    rows = list(Mission.objects.select_related("robot"))
    with django_assert_num_queries(0):
        assert why_waiting_all(rows) == {dispatched.pk: "Waiting for Ella to take it"}
    actions.cancel_mission(dispatched.pk, by=SYSTEM)
    assert why_waiting(Mission.objects.get()) == ""
