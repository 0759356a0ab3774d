"""Every deadline of the table: what opens it, what happens when it passes, and that one is always open (I5, I6)."""

from datetime import timedelta

import pytest
from django.db import transaction

from fleet.history import Origin, by_user
from fleet.models import Command, Event
from missions import actions
from missions.deadlines import deadlines
from missions.facts import (
    Accepted,
    Answered,
    Delivered,
    Due,
    Finished,
    Paused,
    Resumed,
    RobotBack,
    RobotLost,
    StepCompleted,
)
from missions.ledger import Ledger
from missions.models import DeadLetter, Mission
from telemetry import translate
from tests.actors import tell


def again(mission):
    return Mission.objects.get(pk=mission.pk)


def due_kinds(mission):
    return {d.kind for d in deadlines(again(mission))}


def kinds(mission):
    return list(Event.objects.filter(aggregate=f"mission:{mission.pk}").values_list("kind", flat=True))


@pytest.fixture
def steps_done(running):
    for step in (1, 2, 3):
        tell(running, StepCompleted(1, step, 1))
    return again(running)


def pass_(mission, kind, **late):
    due_at = getattr(again(mission), f"{kind}_due_at")
    return tell(mission, Due(kind, **late), at=due_at)


def test_each_phase_has_its_deadline(dispatched):
    assert due_kinds(dispatched) == {"undelivered"}
    tell(dispatched, Delivered())
    assert due_kinds(dispatched) == {"accepted"}
    tell(dispatched, Accepted(1))
    assert due_kinds(dispatched) == {"step", "mission"}
    for step in (1, 2, 3):
        tell(dispatched, StepCompleted(1, step, 1))
    assert due_kinds(dispatched) == {"finished", "mission"}
    tell(dispatched, Finished(1))
    assert due_kinds(dispatched) == set()


def test_times_are_absolute_and_from_what_was_received(running):
    step = running.steps.get(number=1)
    assert running.step_due_at == running.started_at + timedelta(seconds=step.timeout_s)
    assert running.mission_due_at == running.started_at + timedelta(seconds=600)
    assert running.next_due_at == running.step_due_at


def test_undelivered_only_says_so_while_the_link_is_down(dispatched):
    for _ in range(5):
        pass_(dispatched, "undelivered", online=False)
    assert again(dispatched).state == "pending" and due_kinds(dispatched) == {"undelivered"}
    assert kinds(dispatched).count("mission.undelivered") == 5


def test_robot_that_is_online_and_takes_nothing_is_given_up(dispatched):
    Command.objects.update(sent_at=dispatched.dispatched_at)
    for _ in range(3):
        pass_(dispatched, "undelivered", online=True)
    assert again(dispatched).abort_reason == "undeliverable"
    letter = DeadLetter.objects.get()
    assert (letter.direction, letter.kind, letter.robot_id) == ("out", "mission.assign", "RB-001")
    assert due_kinds(dispatched) == {"stop"}


def test_accepted_is_asked_for_five_times_with_the_same_message(dispatched):
    Command.objects.update(sent_at=dispatched.dispatched_at)
    tell(dispatched, Delivered())
    for number in range(2, 6):
        Command.objects.filter(kind="mission.assign").update(state="delivered")
        pass_(dispatched, "accepted", online=True)
        assert again(dispatched).accept_tries == number
        assert Command.objects.get(kind="mission.assign").state == "open"
    pass_(dispatched, "accepted", online=True)
    stopping = again(dispatched)
    assert (stopping.state, stopping.abort_reason) == ("pending", "undeliverable")
    assert Command.objects.get(kind="mission.assign").state == "dead"
    assert DeadLetter.objects.get().tries == 5
    assert due_kinds(dispatched) == {"stop"}


def test_accepted_is_not_counted_against_a_robot_that_is_not_online(dispatched):
    tell(dispatched, Delivered())
    for _ in range(7):
        pass_(dispatched, "accepted", online=False)
    waiting = again(dispatched)
    assert (waiting.accept_tries, waiting.state, due_kinds(dispatched)) == (1, "pending", {"accepted"})
    assert not Command.objects.filter(kind="mission.assign", state="dead").exists()


def test_step_asks_before_it_aborts(running):
    pass_(running, "step")
    assert due_kinds(running) == {"answer", "mission"}
    assert Command.objects.filter(kind="robot.query_state", state="open").count() == 1
    pass_(running, "answer")
    stopping = again(running)
    assert stopping.abort_reason == "timeout"
    assert stopping.abort_detail == "step 1 (navigate) was not completed in time"
    assert due_kinds(running) == {"stop"}


def test_receipt_after_the_question_saves_the_step(running):
    pass_(running, "step")
    tell(running, StepCompleted(1, 1, 1))
    assert again(running).asked_for == "" and due_kinds(running) == {"step", "mission"}


def test_robot_that_has_forgotten_the_mission_needs_no_stop(running):
    pass_(running, "step")
    tell(running, Answered("idle", named=False))
    ended = again(running)
    assert (ended.state, ended.abort_reason, ended.stop_confirmed) == ("aborted", "robot_fault", True)


def test_mission_asks_then_stops(running):
    pass_(running, "mission")
    tell(running, Answered("running", named=True))
    assert again(running).abort_reason == "timeout"
    assert again(running).abort_detail == "it took longer than 600 s"
    assert again(running).state == "executing"


def test_finished_is_asked_for_and_inferred_only_when_the_robot_names_the_dispatch(steps_done):
    pass_(steps_done, "finished")
    tell(steps_done, Answered("idle", named=True, ended="finished"))
    assert again(steps_done).state == "success"
    assert '"inferred":true' in Event.objects.get(kind="mission.succeeded").data


def test_finished_waits_on_while_the_robot_is_at_it(steps_done):
    pass_(steps_done, "finished")
    tell(steps_done, Answered("running", named=True))
    assert due_kinds(steps_done) == {"finished", "mission"}


def test_finished_without_an_answer_stops(steps_done):
    pass_(steps_done, "finished")
    pass_(steps_done, "answer")
    assert again(steps_done).abort_reason == "timeout"
    assert again(steps_done).state == "step_completed" and due_kinds(steps_done) == {"stop"}


def test_pause_stores_what_is_left_and_resume_sets_it_anew(running):
    began = running.started_at
    tell(running, Paused(1, 5, 10), at=began + timedelta(seconds=19))
    paused = again(running)
    assert (paused.step_left_s, paused.mission_left_s) == (40.0, 580.0)
    assert due_kinds(running) == {"paused"}
    pass_(running, "paused")
    assert due_kinds(running) == {"paused"}
    resumed_at = began + timedelta(hours=2)
    tell(running, Resumed(1, 5, 11), at=resumed_at - timedelta(seconds=1))
    resumed = again(running)
    assert resumed.step_due_at == resumed_at + timedelta(seconds=40)
    assert resumed.mission_due_at == resumed_at + timedelta(seconds=580)
    assert (resumed.paused_at, resumed.step_left_s, resumed.paused_due_at) == (None, None, None)


def test_a_step_that_had_run_out_is_asked_for_again_as_soon_as_the_pause_ends(running):
    pass_(running, "step")
    tell(running, Paused(1, 5, 10), at=again(running).asked_at)
    paused = again(running)
    assert (paused.asked_for, paused.step_left_s, due_kinds(running)) == ("", 0.0, {"paused"})
    resumed_at = paused.paused_at + timedelta(minutes=5)
    tell(running, Resumed(1, 5, 11), at=resumed_at - timedelta(seconds=1))
    assert again(running).step_due_at == resumed_at


def test_older_word_about_pausing_is_stale(running):
    tell(running, Resumed(1, 5, 12))
    assert tell(running, Paused(1, 5, 11)) == ["stale"]
    assert again(running).paused_at is None


def test_step_completed_while_paused_keeps_the_clocks_still(running):
    tell(running, Paused(1, 5, 10), StepCompleted(1, 1, 1))
    paused = again(running)
    assert (paused.current_step, paused.step_due_at, paused.step_left_s) == (2, None, 60.0)
    tell(running, StepCompleted(1, 2, 1), StepCompleted(1, 3, 1))
    assert due_kinds(running) == {"paused"}
    tell(running, Resumed(1, 5, 11))
    assert due_kinds(running) == {"finished", "mission"}


def test_robot_that_comes_back_in_time_keeps_its_mission(running):
    tell(running, RobotLost(60))
    assert "robot_lost" in due_kinds(running)
    tell(running, RobotBack())
    assert due_kinds(running) == {"step", "mission"}


def test_a_deadline_that_has_moved_does_not_fire(running):
    assert tell(running, Due("step"), at=running.started_at) == ["redundant"]
    assert tell(running, Due("accepted"), at=running.mission_due_at) == ["redundant"]


def test_due_fires_whatever_has_passed_and_names_itself(running):
    later = running.mission_due_at + timedelta(seconds=1)
    with transaction.atomic():
        ledger = Ledger.open(mission_ids=[running.pk], now=later)
        translate.due(ledger, running.pk, later)
        ledger.commit()
    passed = Event.objects.filter(kind__in=["mission.step_timeout", "mission.timeout"])
    assert {(e.actor_kind, e.cause) for e in passed} == {
        ("deadline", "deadline:step"),
        ("deadline", "deadline:mission"),
    }
    assert due_kinds(running) == {"answer"}


def test_nobody_can_store_a_dispatched_mission_without_a_deadline(running):
    from django.db import IntegrityError

    from fleet.commit import commit, load
    from fleet.history import AGGREGATES

    with pytest.raises(IntegrityError, match="mission_dispatched_has_deadline"), transaction.atomic():
        change = load(AGGREGATES["mission"], [running.pk])[running.pk]
        change.now, change.origin = running.started_at, Origin("system")
        change.record("mission.step_timeout", step_due_at=None)
        change.record("mission.timeout", mission_due_at=None)
        commit([change], now=running.started_at)


def test_pause_and_resume_are_requests(running, supervisor):
    who = by_user(supervisor)
    actions.pause_mission(running.pk, by=who)
    assert again(running).paused_at is None
    assert Command.objects.filter(kind="mission.pause", state="open").count() == 1
    actions.resume_mission(running.pk, by=who)
    assert Command.objects.filter(kind="mission.resume", state="open").count() == 1
