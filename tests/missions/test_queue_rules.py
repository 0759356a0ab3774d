"""The queue as tables: why a mission waits, which goes next, which robot is best. Pure, no database."""

import itertools
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from fleet.history import AGGREGATES, Change
from fleet.models import Hold, Robot
from missions.facts import DependencyFailed, Queue
from missions.ledger import Ledger
from missions.models import Mission
from missions.queue import because, choosing
from missions.queue.choosing import AT_ONCE, NAMED, choose, order, plan
from missions.queue.dispatching import locked
from missions.queue.reasons import MissionFacts, RobotFacts, Robots, obstacle, robot_obstacle, why
from missions.queue.standing import Standing
from missions.timings import WAITS_LONG_S, WAITS_MOST_S
from tests.missions.machine import Machine

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
CAN = frozenset({"navigate", "pick", "charge"})
ELLA = RobotFacts("RB-001", "Ella", 1, CAN, charge_below_pct=25)
GO = MissionFacts("m1", "Fetch", 1, robot=ELLA, commands=frozenset({"navigate"}), queued_at=NOW - timedelta(minutes=4))


def ella(**over) -> MissionFacts:
    return replace(GO, robot=replace(ELLA, **over))


@pytest.mark.parametrize(
    ("mission", "words"),
    [
        (GO, "Next: it is dispatched in a moment"),
        (replace(GO, queued_at=None), "Ready: it runs when somebody asks it to"),
        (replace(GO, state="executing"), ""),
        (replace(GO, state="aborted"), ""),
        (replace(GO, dispatched=True), "Waiting for Ella to take it"),
        (replace(ella(presence="offline"), dispatched=True), "Waiting for Ella to take it (not online)"),
        (replace(GO, dispatched=True, delivered=True), "Ella has it and has not accepted yet"),
        (replace(GO, stopping=True), "Stopping: waiting for Ella to say that it stands"),
        (replace(GO, unapproved=True), "It needs approval"),
        (replace(GO, after=(("A", "executing"),)), "It comes after “A”"),
        (replace(GO, after=(("A", "pending"), ("B", "pending"))), "It comes after “A” and 1 more"),
        (replace(GO, after=(("A", "pending"), ("B", "aborted"))), "“B”, which it depends on, did not succeed"),
        (replace(GO, not_before=NOW + timedelta(hours=2)), "It may not start before 29 Nov 14:00 UTC"),
        (replace(GO, expires_at=NOW), "It had to start by 29 Nov 12:00 UTC"),
        (replace(GO, expires_at=NOW + timedelta(seconds=1)), "Next: it is dispatched in a moment"),
        (replace(GO, not_before=NOW), "Next: it is dispatched in a moment"),
        (replace(GO, charger="Charger 1", charger_taken_by="Charge"), "Charger 1 is taken by “Charge”"),
        (ella(retired=True), "Ella is retired"),
        (ella(site_id=2), "Ella works at another site"),
        (replace(GO, commands=frozenset({"drop", "pick", "custom"})), "Ella cannot custom and drop"),
        (ella(held="Stopped by Ana: spill"), "Ella is on hold. Stopped by Ana: spill"),
        (ella(running="Round"), "Ella is busy with “Round”"),
        (replace(ella(running="Round"), ahead=1, behind="Next"),
         "Ella is busy with “Round”; 2nd in Ella's queue, behind “Next”"),
        (replace(ella(running="Charge at Charger 1", mode="charging", battery=62.4)), "Ella is charging (62 %)"),
        (ella(presence="offline", presence_since=NOW), "Ella is offline since 29 Nov 12:00 UTC"),
        (ella(presence="unknown"), "Ella has not been heard of"),
        (ella(fault="wheel stuck"), "Ella has a fault: wheel stuck"),
        (ella(mode="fault"), "Ella has a fault"),
        (ella(mode="manual"), "Ella is driven by hand"),
        (ella(mode="paused"), "Ella is paused"),
        (ella(mode="charging", battery=62), "Ella is charging (62 %, free at 80 %)"),
        (ella(mode="charging", battery=80), "Next: it is dispatched in a moment"),
        (ella(mode="charging"), "Ella is charging (to 80 %)"),
        (ella(mode="charging", battery=62, charge_below_pct=None), "Next: it is dispatched in a moment"),
        (replace(ella(mode="charging", battery=26), important=True), "Next: it is dispatched in a moment"),
        (replace(ella(mode="charging", battery=24), important=True), "Ella is charging (24 %, free at 25 %)"),
        (ella(battery=9), "Ella has 9 % battery and must charge first"),
        (replace(ella(battery=9), commands=frozenset({"charge"})), "Next: it is dispatched in a moment"),
        (replace(GO, ahead=2, behind="Pallet"), "3rd in Ella's queue, behind “Pallet”"),
        (replace(GO, ahead=11, behind="Pallet"), "12th in Ella's queue, behind “Pallet”"),
    ],
)  # fmt: skip
def test_why_it_waits(mission, words):
    assert why(mission, NOW) == words
    ready = words.startswith(("Next:", "Ready:")) or (mission.ahead and not mission.robot.running)
    if mission.state == "pending" and not mission.dispatched and not mission.stopping:
        assert (obstacle(mission, NOW) is None) == bool(ready)


def test_why_it_waits_when_no_robot_is_named():
    anyone = replace(GO, robot=None)
    bruno = replace(ELLA, id="RB-002", name="Bruno", running="Round")
    held = replace(ELLA, held="Stopped by Ana")
    weak = replace(ELLA, id="RB-003", name="Weak", capabilities=frozenset({"wait"}))
    assert why(anyone, NOW, [weak]) == "No robot of its site can navigate"
    assert why(anyone, NOW, []) == "No robot of its site can navigate"
    assert why(anyone, NOW, [held, bruno, weak]) == (
        "No robot is free: Ella is on hold. Stopped by Ana; Bruno is busy with “Round”"
    )
    many = [replace(bruno, id=f"RB-1{n}", name=f"R{n}") for n in range(6)]
    assert why(anyone, NOW, many).endswith("R2 is busy with “Round”; and 3 more")
    assert why(anyone, NOW, [bruno, ELLA]) == "Next: it is dispatched in a moment"
    behind = replace(anyone, ahead=1, behind="B")
    assert why(behind, NOW, [ELLA]) == "2nd in the queue for any robot, behind “B”"


def test_a_person_takes_the_battery_upon_themselves_and_nothing_else():
    assert obstacle(ella(battery=5), NOW, insist=True) is None
    assert obstacle(ella(battery=5, held="Stopped"), NOW, insist=True) is not None


FIRST = replace(GO, robot=None, first_place=(0.0, 0.0))


def robot(n: int, **over) -> RobotFacts:
    return replace(ELLA, **{"id": f"RB-00{n}", "name": f"R{n}"} | over)


@pytest.mark.parametrize(
    ("candidates", "best", "because"),
    [
        ([], None, ""),
        ([robot(1)], "RB-001", "R1: the only one that can now"),
        ([robot(1, x=3.0, y=4.0, battery=80.0)], "RB-001", "R1: the only one that can now (5 m), 80 % battery"),
        ([robot(1, x=9.0, y=0.0), robot(2, x=3.0, y=0.0)], "RB-002", "R2: nearest of 2 that can (3 m)"),
        ([robot(2), robot(1)], "RB-001", "R1: best of 2 that can"),
        ([robot(1), robot(2, x=50.0, y=0.0)], "RB-002", "R2: nearest of 2 that can (50 m)"),
        ([robot(1, load=2), robot(2, load=1)], "RB-002", "R2: best of 2 that can"),
        ([robot(1, x=1.0, y=0.0, battery=28.0), robot(2, x=9.0, y=0.0, battery=70.0)], "RB-002",
         "R2: best of 2 that can (9 m), 70 % battery"),
        ([robot(1, battery=28.0), robot(2)], "RB-002", "R2: best of 2 that can"),
        ([robot(1), robot(2, battery=70.0)], "RB-002", "R2: best of 2 that can, 70 % battery"),
        ([robot(1, x=1.0, y=0.0, running="X"), robot(2, x=9.0, y=0.0)], "RB-002",
         "R2: the only one that can now (9 m); R1 is busy with “X”"),
        ([robot(1, site_id=2), robot(2, capabilities=frozenset()), robot(3, presence="offline")], None, ""),
    ],
)  # fmt: skip
def test_the_best_robot_and_why(candidates, best, because):
    for order_given in itertools.permutations(candidates):
        choice = choose(FIRST, order_given)
        assert (choice.robot, choice.because) == (best, because)
    assert set(choice.refused) == {r.id for r in candidates if obstacle(replace(FIRST, robot=r), NOW)}


def waiting(n: int, **over) -> MissionFacts:
    return replace(GO, **{"id": f"m{n}", "title": f"M{n}", "queued_at": NOW + timedelta(seconds=n)} | over)


def test_priority_then_age_and_who_cannot_run_holds_up_nobody():
    other = replace(ELLA, id="RB-002", name="Bruno")
    missions = [
        waiting(1, not_before=NOW + timedelta(hours=1), priority=9),
        waiting(2),
        waiting(3, priority=5),
        waiting(4, robot=other),
        waiting(5, robot=None, priority=7),  # takes the lower id, ahead of those that name it
    ]
    found = [(d.mission.id, d.robot.id) for d in plan(missions, [ELLA, other], NOW)]
    assert found == [("m5", "RB-001"), ("m4", "RB-002")]


def test_one_robot_per_charger():
    ella, bruno = ELLA, replace(ELLA, id="RB-002")
    charge = {"commands": frozenset({"charge"}), "charger": "Charger 1"}
    missions = [waiting(1, robot=ella, **charge), waiting(2, robot=bruno, **charge)]
    assert [d.mission.id for d in plan(missions, [ella, bruno], NOW)] == ["m1"]
    elsewhere = replace(missions[1], site_id=2, robot=replace(bruno, site_id=2))
    assert len(plan([missions[0], elsewhere], [ella, elsewhere.robot], NOW)) == 2


def test_important_work_may_have_a_charging_robot_that_other_work_waits_for():
    """What is worked out once for missions that are alike is not said of this one."""
    charging = replace(ELLA, mode="charging", battery=40.0)
    usual, important = waiting(1, robot=None), waiting(2, robot=None, important=True)
    assert [d.mission.id for d in plan([usual, important], [charging], NOW)] == ["m2"]
    robots = Robots([charging])
    assert (robots.why_none(usual) is None, robots.why_none(important) is None) == (False, True)


@pytest.mark.parametrize("seed", range(60))
def test_random_fleets_and_queues(seed):
    """Whatever the fleet: nobody twice, nobody unfit, nobody overtaken, nothing left that could go, same every time."""
    rng = random.Random(seed)
    robots = [
        robot(
            n, presence=rng.choice(["online", "online", "offline"]), held=rng.choice(["", "", "Stopped"]),
            mode=rng.choice(["idle", "idle", "charging", "fault"]), battery=rng.choice([None, 5.0, 50.0, 90.0]),
            running=rng.choice(["", "", "X"]), site_id=rng.choice([1, 1, 2]), x=rng.uniform(0, 30), y=0.0,
        )
        for n in range(rng.randint(1, 8))
    ]  # fmt: skip
    missions = [
        waiting(
            n, robot=rng.choice([None, *robots]), priority=rng.randint(0, 2), site_id=rng.choice([1, 1, 2]),
            not_before=rng.choice([None, None, NOW + timedelta(hours=1)]), unapproved=rng.random() < 0.1,
            commands=rng.choice([frozenset({"navigate"}), frozenset({"drop"})]),
        )
        for n in range(rng.randint(0, 15))
    ]  # fmt: skip
    found = plan(missions, robots, NOW)
    rng.shuffle(missions)
    assert plan(missions, list(reversed(robots)), NOW) == found
    taken = {d.robot.id for d in found}
    assert len(taken) == len(found)
    assert [order(d.mission) for d in found] == sorted(order(d.mission) for d in found)
    for decision in found:
        assert obstacle(replace(decision.mission, robot=decision.robot), NOW) is None
        assert decision.robot.site_id == decision.mission.site_id
    given = {d.mission.id for d in found}
    for mission in missions:
        if mission.id in given:
            continue
        fit = [r for r in robots if obstacle(replace(mission, robot=r), NOW) is None]
        if mission.robot is not None:
            fit = [r for r in fit if r.id == mission.robot.id]
        for candidate in fit:  # whoever it could have had works on something that comes before it
            assert candidate.id in taken
            winner = next(d.mission for d in found if d.robot.id == candidate.id)
            assert order(winner) < order(mission)


def test_a_look_decides_a_few_and_names_a_few_however_large_the_fleet():
    """With 5,000 robots and 1,000 missions a look took minutes: its worker lost its partitions, all else stood still."""
    robots = [replace(ELLA, id=f"RB-{n:04}", name=f"R{n}", running="" if n % 2 else "X") for n in range(400)]
    missions = [waiting(n, robot=None) for n in range(100)]
    found = plan(missions, robots, NOW)
    assert [d.mission.id for d in found] == [f"m{n}" for n in range(AT_ONCE)]  # the rest at the next look
    last = found[-1].choice
    assert len(last.refused) == NAMED and last.because.endswith("and 221 more")  # 200 at work, 24 that came before
    assert len(plan(missions, robots, NOW, mine=lambda d: False)) == 100  # what others do holds up nobody
    again = plan(
        missions[AT_ONCE:], [replace(r, running="X") if r.id in {d.robot.id for d in found} else r for r in robots], NOW
    )
    assert [d.robot.id for d in again] == [f"RB-{n:04}" for n in range(1, 400, 2)][AT_ONCE : 2 * AT_ONCE]


def test_missions_that_are_alike_ask_each_robot_once(monkeypatch):
    asked = []
    monkeypatch.setattr(choosing, "robot_obstacle", lambda *a: asked.append(a) or robot_obstacle(*a))
    robots = [replace(ELLA, id=f"RB-{n:04}", mode="manual") for n in range(50)]
    plan([waiting(n, robot=None) for n in range(100)], robots, NOW)
    assert len(asked) == 50


def test_what_waits_for_days_is_said_less_and_less_often_but_never_not_at_all():
    m = Machine()
    m.tell(Queue())
    pauses = [(m.pass_("queued"), m.due["queued"])[1] for _ in range(12)]
    assert pauses[0] == WAITS_LONG_S and pauses == sorted(pauses) and pauses[-2:] == [WAITS_MOST_S] * 2


def test_what_runs_goes_on_though_what_it_came_after_is_said_to_have_failed():
    m = Machine().run()
    assert m.tell(DependencyFailed(uuid4(), "Before")) == ["redundant"]
    assert m.row.state == "executing"


@pytest.mark.parametrize(
    ("row", "why_not"),
    [
        ({}, None),
        ({"presence": "offline"}, "Ella is offline"),
        ({"mode": "manual"}, "Ella is driven by hand"),
        ({"fault": "wheel stuck"}, "Ella has a fault: wheel stuck"),
        ({"site_id": 2}, "Ella works at another site"),
        ({"retired_at": NOW}, "Ella is retired"),
        ({"capabilities": ["pick"]}, "Ella cannot navigate: it says that it can pick"),
    ],
)
def test_what_the_locked_row_of_a_robot_says_counts_and_not_what_was_known_before(row, why_not):
    robot = Robot(pk="RB-001", **{"site_id": 1, "presence": "online", "mode": "idle"} | row)
    change = Change(AGGREGATES["robot"], robot, {"holds": {}})
    assert _text(robot_obstacle(locked(ELLA, change, Ledger(NOW, {}, {}, {})), GO)) == why_not
    busy = locked(ELLA, change, Ledger(NOW, {}, {}, {"RB-001": uuid4()}))
    assert robot_obstacle(busy, GO) is not None
    stopped = Hold(kind="stopped", by="Ana", why="spill")
    held = locked(ELLA, Change(AGGREGATES["robot"], robot, {"holds": {2: stopped}}), Ledger(NOW, {}, {}, {}))
    assert held.held == "Stopped by Ana: spill"


def test_only_robots_in_service_at_its_site_are_candidates():
    """One that is retired is known all the same, where another mission names it."""
    known = {r.id: r for r in (ELLA, replace(ELLA, id="RB-002", retired=True), replace(ELLA, id="RB-003", site_id=2))}
    standing = Standing({}, known)
    assert [r.id for r in standing.candidates(replace(GO, robot=None))] == ["RB-001"]
    assert list(standing.candidates(GO)) == []


def test_the_cause_of_a_dispatch_is_what_came_last():
    def ago(minutes):
        return NOW - timedelta(minutes=minutes)

    mission, robot, done, first = Mission(queued_at=ago(9)), Robot(pk="RB-001", presence="online"), uuid4(), uuid4()

    def cause(ended=None, released=None, after=None):
        had = {"RB-001": because._Robot(done, ended, released)}
        return because.Before(had, {mission.pk: (first, after)} if after else {}).cause(mission, robot)

    assert cause() == cause(ended=ago(10), released=ago(10)) == "queue:asked to run"
    assert cause(ended=ago(5), released=ago(6)) == f"queue:RB-001 free after mission:{done}"
    assert cause(ended=ago(5), released=ago(4)) == "queue:RB-001 released"
    assert cause(ended=ago(5), after=ago(3)) == f"queue:after mission:{first}"
    robot.presence_since = ago(2)
    assert cause(ended=ago(5), after=ago(3)) == "queue:RB-001 online"


def _text(reason) -> str | None:
    return None if reason is None else reason.text
