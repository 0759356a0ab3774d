"""A robot that stays offline: its mission is given up, waits, or is handed over where nothing can be done twice."""

import pytest

from missions.facts import (
    Delivered,
    Due,
    Finished,
    HandedOver,
    HandOver,
    RobotBack,
    RobotLost,
    StepCompleted,
    StepFailed,
)
from missions.models import State
from tests.missions.machine import ID, Machine, step

OVER = {"offline_policy": "hand_over"}
STANDS = OVER | {"stops_after_silence_s": 30}
WORK = (step(), step("pick"), step("drop"), step())


def lose(m: Machine, after_s: int = 60) -> Machine:
    m.tell(RobotLost(after_s))
    m.pass_("robot_lost")
    return m


def test_given_up_is_stopped_first():
    m = lose(Machine(*WORK, brand={"offline_policy": "abort"}).run())
    assert (m.row.abort_reason, set(m.due)) == ("robot_fault", {"stop"})
    assert m.kinds[-2:] == ["robot_lost_timeout", "stop_requested"]


def test_given_up_keeps_its_clocks_running_until_then():
    m = Machine(*WORK, brand={"offline_policy": "abort"}).run()
    m.tell(RobotLost(120))
    assert set(m.due) == {"robot_lost", "step", "mission"}
    m.pass_("step")
    m.pass_("answer")
    assert m.row.abort_reason == "timeout"


def test_waiting_never_ends_it():
    m = lose(Machine(*WORK, brand={"offline_policy": "wait"}).run())
    for _ in range(20):
        m.pass_("robot_lost")
    assert m.row.state == "executing" and m.row.stop_requested_at is None
    m.tell(RobotBack())
    assert set(m.due) == {"step", "mission"}


def test_an_assignment_that_never_left_is_handed_over_at_once():
    m = lose(Machine(*WORK, brand=OVER).dispatch(sent=False))
    assert (m.row.state, m.row.abort_reason, m.row.stop_confirmed) == ("aborted", "robot_fault", None)
    assert m.row.hand_over_at and m.change.follow == []


def test_one_that_may_have_left_is_proposed_to_a_person():
    m = lose(Machine(*WORK, brand=OVER).dispatch())
    assert m.row.hand_over_at is None and m.kinds[-2:] == ["robot_lost_timeout", "hand_over_proposed"]
    assert m.change.events[-1].data["why"] == "robots of its brand go on when they hear nothing"
    assert "robot_lost" in m.due


@pytest.mark.parametrize(
    ("done", "why"),
    [
        ((), ""),
        ((1,), "it may carry what it took up in step 2"),
        ((1, 2), "it carries what it took up in step 2"),
        ((1, 2, 3), ""),
    ],
)
def test_one_that_stands_by_itself_is_handed_over_unless_it_carries_something(done, why):
    m = Machine(*WORK, brand=STANDS).run()
    m.tell(*(StepCompleted(1, number, 1) for number in done))
    lose(m)
    if why:
        assert m.row.hand_over_at is None and m.change.events[-1].data["why"] == why
        for _ in range(3):
            m.pass_("robot_lost")
        assert m.row.state == "executing" and m.row.hand_over_at is None
    else:
        assert m.row.hand_over_at and set(m.due) == {"stop"}


@pytest.mark.parametrize("policy", ["failure_then", "timeout_then"])
def test_a_pick_that_went_wrong_may_have_taken_something_up(policy):
    m = Machine(step("pick", **{policy: "skip"}), step(), brand=STANDS).run()
    if policy == "failure_then":
        m.tell(StepFailed(1, 1, 1))
    else:
        m.pass_("step")
        m.pass_("answer")
    lose(m)
    assert m.row.hand_over_at is None


def test_before_it_stands_for_certain_it_waits_until_then_and_no_longer():
    m = Machine(step(), brand=OVER | {"stops_after_silence_s": 100}).run()
    lose(m, 60)
    assert m.due["robot_lost"] == 40 and m.kinds[-1] == "hand_over_proposed"
    m.pass_("robot_lost")
    assert m.row.hand_over_at


def test_back_in_time_it_keeps_its_mission():
    m = Machine(step(), brand=STANDS).run()
    m.tell(RobotLost(60))
    m.tell(RobotBack())
    assert m.tell(Due("robot_lost")) == ["redundant"]
    assert set(m.due) == {"step", "mission"}


def test_a_handed_over_mission_that_the_robot_ends_well_after_all_is_a_success():
    m = lose(Machine(step(), brand=STANDS).run())
    m.tell(StepCompleted(1, 1, 1), Finished(1))
    assert m.row.state == State.SUCCESS
    assert m.tell(HandedOver(ID)) == ["redundant"]


def test_a_person_may_hand_over_whatever_it_carries():
    m = Machine(*WORK).run()
    m.tell(StepCompleted(1, 1, 1), StepCompleted(1, 2, 1))
    assert m.tell(HandOver("Ana")) == ["applied"]
    assert (m.row.abort_reason, m.row.abort_detail) == ("operator", "handed over to another robot")
    assert m.tell(HandOver("Ana")) == ["redundant"]


def test_delivery_does_not_undo_it():
    m = lose(Machine(step(), brand=OVER).dispatch(sent=False))
    assert m.tell(Delivered()) == ["redundant"]


def test_it_is_handed_over_once():
    m = lose(Machine(step(), brand=OVER).dispatch(sent=False))
    assert m.tell(HandedOver(ID, (1,)), HandedOver(ID, (1,))) == ["applied", "redundant"]
    assert m.row.handed_over_to == ID
