"""Stop before final: no mission ends while its robot may still be moving, unless that is said (DESIGN section 4)."""

from datetime import timedelta

import pytest

from fleet.history import by_user, sentence
from fleet.models import Command, Event, Hold
from fleet.refusals import Refused
from missions import actions, drawing_up
from missions.deadlines import deadlines
from missions.facts import (
    Accepted,
    Cancelled,
    Danger,
    Delivered,
    Due,
    Finished,
    Paused,
    Rejected,
    Resumed,
    RobotLost,
    StepCompleted,
    StepFailed,
)
from missions.models import Mission
from missions.queue.waiting import why_waiting
from tests.actors import tell


def again(mission):
    return Mission.objects.get(pk=mission.pk)


def last_kinds(mission, count):
    kinds = Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("-seq").values_list("kind", flat=True)
    return [*kinds[:count]][::-1]


def cancel(mission, who, reason="blocked aisle"):
    return actions.cancel_mission(mission.pk, by=by_user(who), reason=reason)


def test_cancel_waits_for_the_robots_word(running, supervisor):
    assert cancel(running, supervisor) == "stopping"
    stopping = again(running)
    assert (stopping.state, stopping.stop_requested_by, stopping.abort_reason) == ("executing", "Ana", "operator")
    assert stopping.step_due_at is None and stopping.mission_due_at is None and stopping.stop_due_at is not None
    tell(running, Cancelled(1))
    ended = again(running)
    assert (ended.state, ended.abort_reason, ended.abort_detail) == ("aborted", "operator", "blocked aisle")
    assert ended.stop_confirmed is True
    assert not Hold.objects.exists()
    end = Event.objects.get(aggregate=f"mission:{running.pk}", kind="mission.aborted")
    assert sentence(end) == "Aborted: cancelled by a person (blocked aisle)"  # webhooks may hear of nothing else


def test_no_words_and_no_name_keep_a_cancel_from_being_made(running, supervisor):
    supervisor.first_name, supervisor.last_name = "A" * 150, "B" * 150
    assert cancel(running, supervisor, "aisle\x00 " + "x" * 9000) == "stopping"
    assert again(running).abort_detail.startswith("aisle xxx")


def test_silence_ends_unconfirmed_and_holds_the_robot(running, supervisor):
    cancel(running, supervisor)
    asked, tried = again(running).stop_requested_at, []
    while (due := again(running).stop_due_at) is not None:
        tried.append((due - asked).total_seconds())
        tell(running, Due("stop"), at=due - timedelta(seconds=1))
    ended = again(running)
    assert (ended.state, ended.stop_confirmed) == ("aborted", False)
    assert tried == [2, 4, 8, 15]  # pauses double, the window is not cut short
    assert last_kinds(running, 4) == [*["mission.stop_resent"] * 3, "mission.aborted"]
    hold = Hold.objects.get()
    assert (hold.kind, hold.mission, hold.dispatch_no, hold.by) == ("unconfirmed", running.pk, 1, "policy")
    # should it come back, it is told to stop
    assert Command.objects.get(kind="mission.cancel").state == "open"
    assert again(running).next_due_at is None


def test_stop_window_is_not_cut_short(running, supervisor):
    cancel(running, supervisor)
    asked = again(running).stop_requested_at
    tell(running, Due("stop"), at=asked + timedelta(seconds=12))
    assert again(running).state == "executing"
    assert again(running).stop_due_at == asked + timedelta(seconds=15)


def test_late_word_lifts_that_hold_and_no_other(running, supervisor):
    from fleet.robots import stopping

    cancel(running, supervisor)
    tell(running, Due("stop"), at=again(running).stop_requested_at + timedelta(seconds=20))
    stopping.stop_robot("RB-001", by=by_user(supervisor), why="to be safe")
    assert tell(running, Cancelled(1)) == ["late"]
    assert again(running).stop_confirmed is True
    assert again(running).state == "aborted"
    assert list(Hold.objects.filter(released_at=None).values_list("kind", flat=True)) == ["stopped"]
    assert Hold.objects.get(kind="unconfirmed").released_by == "the robot's word"


@pytest.mark.parametrize("word", [Accepted(1), StepCompleted(1, 1, 1), StepFailed(1, 1, 1), Paused(1, 9, 9)])
def test_a_late_word_that_ends_nothing_lifts_nothing(running, supervisor, word):
    cancel(running, supervisor)
    tell(running, Due("stop"), at=again(running).stop_requested_at + timedelta(seconds=20))
    assert tell(running, word) == ["late"]
    assert again(running).stop_confirmed is False
    assert Hold.objects.get().released_at is None


def test_another_dispatchs_word_lifts_nothing(running, supervisor):
    cancel(running, supervisor)
    tell(running, Due("stop"), at=again(running).stop_requested_at + timedelta(seconds=20))
    assert tell(running, Cancelled(2)) == ["stale"]
    assert Hold.objects.filter(released_at=None).count() == 1


def test_unsent_assignment_needs_no_stopping(dispatched, supervisor):
    assert cancel(dispatched, supervisor) == "aborted"
    ended = again(dispatched)
    assert (ended.state, ended.stop_confirmed) == ("aborted", None)
    assert Command.objects.get(kind="mission.assign").state == "withdrawn"
    assert not Command.objects.filter(kind="mission.cancel").exists()


def test_sent_assignment_needs_stopping_although_nothing_was_heard(dispatched, supervisor):
    Command.objects.update(sent_at=dispatched.dispatched_at)
    assert cancel(dispatched, supervisor) == "stopping"
    assert Command.objects.get(kind="mission.assign").state == "withdrawn"


def test_draft_is_aborted_at_once(mission, supervisor):
    assert cancel(mission, supervisor) == "aborted"
    assert cancel(mission, supervisor) == "already ended"


def test_rejected_needs_no_stopping(dispatched):
    tell(dispatched, Delivered(), Rejected(1, "gripper is broken"))
    ended = again(dispatched)
    assert (ended.state, ended.abort_reason, ended.abort_detail) == ("aborted", "rejected", "gripper is broken")
    assert not Command.objects.filter(kind="mission.cancel").exists()


def test_robot_that_finished_first_has_finished(running, supervisor):
    for step in (1, 2, 3):
        tell(running, StepCompleted(1, step, 1))
    cancel(running, supervisor)
    tell(running, Finished(1))
    assert again(running).state == "success"
    assert Command.objects.get(kind="mission.cancel").state == "withdrawn"


def test_progress_counts_while_stopping_and_sets_no_new_clock(running, supervisor):
    cancel(running, supervisor)
    tell(running, StepCompleted(1, 1, 1))
    stopping = again(running)
    assert (stopping.state, stopping.current_step, stopping.step_due_at) == ("executing", 2, None)


def due_kinds(mission):
    return {d.kind for d in deadlines(again(mission))}


@pytest.mark.parametrize(
    "words",
    [
        (Resumed(1, 1, 2),),
        (StepCompleted(1, 1, 1), StepCompleted(1, 2, 1), StepCompleted(1, 3, 1)),
        (StepCompleted(1, 1, 1), StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Resumed(1, 1, 2)),
        (RobotLost(60),),
    ],
    ids=["resumed", "last step", "last step, resumed", "lost"],
)
@pytest.mark.parametrize("paused", [True, False], ids=["paused", "moving"])
def test_while_stopping_only_the_stop_is_due(running, supervisor, words, paused):
    if paused:
        tell(running, Paused(1, 1, 1))
    cancel(running, supervisor)
    tell(running, *words)
    assert due_kinds(running) - {"paused"} == {"stop"}


def test_a_delivery_that_is_heard_of_while_stopping_sets_no_clock(dispatched, supervisor):
    Command.objects.update(sent_at=dispatched.dispatched_at)
    cancel(dispatched, supervisor)
    assert tell(dispatched, Delivered()) == ["redundant"]
    assert due_kinds(dispatched) == {"stop"}


def test_a_rejection_while_stopping_leaves_the_persons_reason(dispatched, supervisor):
    Command.objects.update(sent_at=dispatched.dispatched_at)
    cancel(dispatched, supervisor)
    tell(dispatched, Rejected(1, "busy"))
    ended = again(dispatched)
    assert (ended.state, ended.abort_reason, ended.abort_detail) == ("aborted", "operator", "blocked aisle")


def test_what_has_begun_cannot_be_rejected(running):
    assert tell(running, Rejected(1, "busy")) == ["stale"]
    assert again(running).state == "executing"


def test_failed_step_stops_with_robot_fault(running):
    tell(running, StepFailed(1, 1, 1, "aisle blocked"))
    stopping = again(running)
    assert (stopping.state, stopping.abort_reason) == ("executing", "robot_fault")
    assert stopping.abort_detail == "step 1 (navigate) failed: aisle blocked"
    tell(running, Cancelled(1))
    assert (again(running).state, again(running).stop_confirmed) == ("aborted", True)


def test_failed_step_of_another_attempt_is_stale(running):
    assert tell(running, StepFailed(1, 1, 2, "no")) == ["stale"]
    assert again(running).stop_requested_at is None


def test_danger_stops_for_safety(running):
    tell(running, Danger("smoke"))
    assert (again(running).abort_reason, again(running).abort_detail) == ("safety", "smoke")
    assert again(running).stop_requested_at is not None


def test_cancelled_at_the_robot(running):
    tell(running, Cancelled(1, "local button"))
    ended = again(running)
    assert (ended.state, ended.abort_reason) == ("aborted", "operator")
    assert ended.abort_detail == "cancelled at the robot: local button"


def test_robot_gone_for_good_ends_the_mission_and_holds_the_robot(running):
    tell(running, RobotLost(60))
    lost = again(running)
    assert lost.robot_lost_due_at == lost.robot_lost_at + timedelta(seconds=60)
    tell(running, Due("robot_lost"), at=lost.robot_lost_due_at)
    stopping = again(running)
    assert stopping.abort_reason == "robot_fault" and "offline since" in stopping.abort_detail
    assert last_kinds(running, 3) == ["mission.robot_lost", "mission.robot_lost_timeout", "mission.stop_requested"]
    tell(running, Due("stop"), at=stopping.stop_requested_at + timedelta(seconds=15))
    assert (again(running).state, again(running).stop_confirmed) == ("aborted", False)
    assert Hold.objects.get(released_at=None).kind == "unconfirmed"


def test_held_robot_gets_no_new_mission(running, supervisor):
    cancel(running, supervisor)
    tell(running, Due("stop"), at=again(running).stop_requested_at + timedelta(seconds=20))
    pk = drawing_up.draft_mission(
        title="Next", site=running.site, robot=running.robot, by=by_user(supervisor),
        steps=[{"command": "wait", "params": {"seconds": 1}}],
    )  # fmt: skip
    with pytest.raises(Refused, match="on hold. Stop not confirmed by policy"):
        actions.dispatch_mission(pk, by=by_user(supervisor))
    assert "on hold" in why_waiting(Mission.objects.get(pk=pk))
