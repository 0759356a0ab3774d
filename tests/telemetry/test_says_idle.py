"""A robot that was rebooted says that it is idle in the middle of its mission: it is asked at once."""

import pytest

from fleet.models import Command, Event
from missions.models import Mission
from tests.telemetry.robots_talk import message, say, work

P = "RB-001"


@pytest.fixture
def executing(worker, clock, dispatched) -> Mission:
    say(message(P, "mission.accepted", mission=dispatched))
    work(worker, clock)
    return Mission.objects.get(pk=dispatched.pk)


def idle(seq: int, **data):
    return message(P, "robot.state", seq, session=2, data={"mode": "idle", **data})


def asked() -> Command:
    return Command.objects.get(kind="robot.query_state", mission__isnull=False)


def now(mission) -> Mission:
    return Mission.objects.get(pk=mission.pk)


def test_it_no_longer_knows_it_so_the_mission_ends_at_once(worker, clock, executing):
    say(idle(1))
    work(worker, clock)
    assert now(executing).asked_for == "idle"
    say(idle(2, reply_to=str(asked().pk)))
    work(worker, clock)
    mission = now(executing)
    assert (mission.state, mission.abort_reason, mission.stop_confirmed) == ("aborted", "robot_fault", True)
    assert mission.abort_detail == "the robot no longer knows this mission"


def test_it_is_at_it_after_all_so_the_mission_goes_on(worker, clock, executing):
    say(idle(1))
    work(worker, clock)
    due = now(executing).step_due_at
    on_it = {"mission": str(executing.pk), "dispatch_no": 1, "reply_to": str(asked().pk)}
    say(message(P, "robot.state", 2, session=2, data={"mode": "running", **on_it}))
    work(worker, clock)
    mission = now(executing)
    assert (mission.state, mission.asked_for, mission.answer_due_at, mission.step_due_at) == (
        "executing",
        "",
        None,
        due,
    )


def test_silence_leaves_it_to_the_deadlines_of_its_own(worker, clock, executing):
    say(idle(1))
    work(worker, clock)
    for _ in range(12):
        clock.advance(1)
        work(worker, clock)
    mission = now(executing)
    assert (mission.state, mission.asked_for, mission.stop_requested_at) == ("executing", "", None)
    assert "nothing" in Event.objects.get(kind="mission.answered").data


@pytest.mark.parametrize("named", [True, False])
def test_asked_once_and_only_when_it_does_not_name_it(worker, clock, executing, named):
    about = {"mission": str(executing.pk), "dispatch_no": 1} if named else {}
    say(idle(1, **about), idle(2, **about))
    work(worker, clock)
    assert Event.objects.filter(kind="mission.idle_reported").count() == (0 if named else 1)


def test_before_it_accepted_idle_is_what_it_should_be(worker, clock, dispatched):
    say(idle(1))
    work(worker, clock)
    assert now(dispatched).asked_for == ""
