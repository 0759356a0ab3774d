"""Pausing, a stop of the robot and an offline robot that is waited for: clocks stand still, in any combination."""

from datetime import timedelta
from itertools import permutations

import pytest
from django.db import transaction

from fleet.models import Event
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from missions.facts import (
    Accepted,
    Answered,
    Cancel,
    Delivered,
    Finished,
    Paused,
    Resumed,
    RobotBack,
    RobotHeld,
    RobotLost,
    RobotReleased,
    StepCompleted,
    StepFailed,
)
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import translate
from tests.actors import SYSTEM
from tests.missions.machine import START, Machine, step

WAITS = {"offline_policy": "wait"}
ALERTS = {"paused": 600, "held": 600, "lost": 60}  # kind → when it is said that it is long
COLUMN = {"paused": "paused", "held": "held", "lost": "robot_lost"}


class Word:
    """Words about pausing, numbered as a robot would."""

    seq = 0

    @classmethod
    def of(cls, kind: str, m: Machine, *, over: bool):
        cls.seq += 1
        if kind == "paused":
            return (Resumed if over else Paused)(1, 1, cls.seq)
        if kind == "held":
            return RobotReleased() if over else RobotHeld(m.now + timedelta(seconds=1))
        return RobotBack() if over else RobotLost(60)


def begin(m: Machine, kind: str) -> None:
    m.tell(Word.of(kind, m, over=False))


def end(m: Machine, kind: str) -> None:
    m.tell(Word.of(kind, m, over=True))


def test_of_two_words_with_one_number_the_first_counts():
    m = Machine(step(), brand=WAITS).run()
    assert m.tell(Paused(1, 1, 5), Resumed(1, 1, 5)) == ["applied", "stale"]
    assert m.row.paused_at


@pytest.mark.parametrize("kind", ALERTS)
def test_each_of_them_stores_what_is_left_and_gives_it_back(kind):
    m = Machine(step(), brand=WAITS).run()
    m.tell(at=20)
    begin(m, kind)
    left = (m.row.step_left_s, m.row.mission_left_s)
    began = (m.now - m.row.started_at).total_seconds()
    assert left == (60 - began, 600 - began)
    assert set(m.due) == {COLUMN[kind]}
    m.now += timedelta(hours=3)
    end(m, kind)
    assert m.due == {"step": left[0], "mission": left[1]}
    assert (m.row.step_left_s, m.row.mission_left_s) == (None, None)


@pytest.mark.parametrize("kind", ALERTS)
def test_the_only_deadline_says_that_it_is_long_again_and_again(kind):
    m = Machine(step(), brand=WAITS).run()
    begin(m, kind)
    assert m.due == {COLUMN[kind]: ALERTS[kind]}
    for _ in range(5):
        m.pass_()
        assert m.due == {COLUMN[kind]: 600}
    said = {"paused": "paused_long", "held": "held_long", "lost": "robot_lost_timeout"}[kind]
    assert m.kinds[-5:] == [said] * 5 and m.row.state == "executing"


@pytest.mark.parametrize("first", list(permutations(ALERTS)), ids="-".join)
@pytest.mark.parametrize("last", list(permutations(ALERTS)), ids="-".join)
def test_all_three_together_in_any_order(first, last):
    """Clocks stop with the first and run again with the last."""
    m = Machine(step(), brand=WAITS).run()
    for kind in first:
        begin(m, kind)
    assert set(m.due) == set(COLUMN.values())
    m.now += timedelta(hours=1)
    for kind in last:
        assert not {"step", "mission"} & set(m.due)
        end(m, kind)
    assert (m.due["step"], m.due["mission"], len(m.due)) == (59, 599, 2)


@pytest.mark.parametrize("kind", ALERTS)
def test_what_is_said_meanwhile_counts_and_starts_no_clock(kind):
    m = Machine(step(), step("wait", timeout_s=40), brand=WAITS).run()
    begin(m, kind)
    m.tell(StepCompleted(1, 1, 1))
    assert (m.row.current_step, m.row.step_left_s, set(m.due)) == (2, 40, {COLUMN[kind]})
    m.tell(StepCompleted(1, 2, 1))
    assert m.row.step_left_s is None and set(m.due) == {COLUMN[kind]}
    end(m, kind)
    assert set(m.due) == {"finished", "mission"}
    m.tell(Finished(1))
    assert m.row.state == "success"


@pytest.mark.parametrize("kind", ALERTS)
def test_a_question_is_put_again_when_clocks_run(kind):
    m = Machine(step(timeout_then="skip"), brand=WAITS).run()
    m.pass_("step")
    begin(m, kind)
    assert (m.row.asked_for, m.row.step_left_s, set(m.due)) == ("", 0.0, {COLUMN[kind]})
    assert m.tell(Answered("running", named=True)) == ["redundant"]
    end(m, kind)
    assert m.due["step"] == 0


@pytest.mark.parametrize("kind", ALERTS)
def test_a_question_about_the_whole_mission_is_put_again_as_well(kind):
    m = Machine(step(timeout_s=1000), brand=WAITS).run()
    m.pass_("mission")
    begin(m, kind)
    assert (m.row.asked_for, m.row.mission_left_s, set(m.due)) == ("", 0.0, {COLUMN[kind]})
    end(m, kind)
    assert m.due["mission"] == 0


@pytest.mark.parametrize("kind", ALERTS)
def test_a_step_whose_time_is_up_is_asked_about_again_also_after_an_answer(kind):
    m = Machine(step(), step(), brand=WAITS).run()
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished"))
    assert set(m.due) == {"gap", "mission"}
    begin(m, kind)
    assert set(m.due) == {COLUMN[kind]}
    end(m, kind)
    assert m.due["step"] == 0


@pytest.mark.parametrize("kind", ALERTS)
def test_a_retry_waits_as_well(kind):
    m = Machine(step(failure_retries=1), brand=WAITS).run()
    m.tell(StepFailed(1, 1, 1))
    begin(m, kind)
    assert (m.row.retry_for, set(m.due)) == ("failure", {COLUMN[kind]})
    end(m, kind)
    assert m.due["retry"] == 1
    m.pass_("retry")
    assert m.steps[1].attempt == 2


@pytest.mark.parametrize("kind", ALERTS)
def test_a_failure_meanwhile_is_tried_again_only_afterwards(kind):
    m = Machine(step(failure_retries=1), brand=WAITS).run()
    begin(m, kind)
    m.tell(StepFailed(1, 1, 1))
    assert set(m.due) == {COLUMN[kind]}
    end(m, kind)
    assert set(m.due) == {"retry", "mission"}


@pytest.mark.parametrize("kind", ALERTS)
def test_cancelling_is_never_suspended(kind):
    m = Machine(step(), brand=WAITS).run()
    begin(m, kind)
    m.tell(Cancel("Ana"))
    assert m.due["stop"] == 2
    end(m, kind)
    assert set(m.due) == {"stop"}
    while m.due:
        m.pass_("stop")
    assert (m.row.state, m.row.stop_confirmed) == ("aborted", False)


def test_a_stop_that_is_heard_of_late_counts_from_when_it_was_made():
    m = Machine(step()).run()
    m.tell(at=30)
    m.tell(RobotHeld(START + timedelta(seconds=10)))
    assert m.row.step_left_s == 60 - (10 - (m.row.started_at - START).total_seconds())
    assert m.row.held_at == START + timedelta(seconds=10)


def test_a_stop_of_before_the_dispatch_counts_from_the_dispatch():
    m = Machine(step()).dispatch()
    m.tell(RobotHeld(START - timedelta(hours=1)))
    assert m.row.held_at == m.row.dispatched_at


def test_no_step_has_more_left_than_it_was_given():
    m = Machine(step(timeout_s=600), step("wait", timeout_s=20)).run()
    m.tell(StepCompleted(1, 1, 1), at=100)
    m.tell(RobotHeld(START + timedelta(seconds=50)))  # made before that step began
    assert m.row.step_left_s == 20


@pytest.mark.parametrize(("looks", "online"), [(9, True), (9, False)])
def test_a_stopped_robot_is_not_blamed_for_what_it_does_not_take(looks, online):
    m = Machine(step()).dispatch()
    m.tell(RobotHeld(m.now))
    for _ in range(looks):
        m.pass_("undelivered", online=online)
    m.tell(Delivered())
    for _ in range(looks):
        m.pass_("accepted", online=online)
    assert (m.row.accept_tries, m.row.untaken_looks, m.row.state) == (1, 0, "pending")
    m.tell(RobotReleased(), Accepted(1))
    assert set(m.due) == {"step", "mission"}


@pytest.mark.parametrize("policy", ["wait", "hand_over"])
def test_the_missions_own_policy_goes_before_its_brands(policy):
    m = Machine(step(), brand={"offline_policy": "abort"}, offline_policy=policy).run()
    m.tell(RobotLost(60))
    assert set(m.due) == {"robot_lost"}
    other = Machine(step(), brand={"offline_policy": policy}, offline_policy="abort").run()
    other.tell(RobotLost(60))
    assert set(other.due) == {"robot_lost", "step", "mission"}


@pytest.mark.parametrize("kind", ALERTS)
def test_accepted_by_an_answer_while_clocks_stand_still(kind):
    m = Machine(step(), step(), brand=WAITS).dispatch()
    m.tell(Delivered(), StepCompleted(1, 2, 1))
    m.pass_("accepted")
    begin(m, kind)
    m.tell(Answered("paused", named=True))
    assert (m.row.state, m.row.step_left_s, m.row.stop_requested_at) == ("executing", 60, None)


# with rows: who tells the mission that its robot is stopped


def fire(mission, now):
    with transaction.atomic():
        ledger = Ledger.open(mission_ids=[mission.pk], now=now)
        translate.due(ledger, mission.pk, now)
        ledger.commit()
    return Mission.objects.get(pk=mission.pk)


def test_no_deadline_fires_for_a_robot_that_people_have_stopped(running):
    stopping.stop_robot("RB-001", by=SYSTEM, why="spill")
    held = fire(running, running.mission_due_at + timedelta(seconds=1))
    assert held.held_at is not None and held.step_due_at is None and held.asked_for == ""
    assert not Event.objects.filter(kind__in=["mission.step_timeout", "mission.timeout"]).exists()
    stopping.release_robot("RB-001", by=SYSTEM)
    later = held.held_due_at + timedelta(seconds=1)
    released = fire(running, later)
    assert released.held_at is None and released.step_due_at >= later


def test_maintenance_stops_no_clock(running):
    fleet_actions.set_maintenance("RB-001", why="wheel", by=SYSTEM)
    assert fire(running, running.step_due_at).asked_for == "step"
