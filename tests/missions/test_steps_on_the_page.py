"""How a mission's page says each step: tries, what was taken as done, what was given up, and times that stand still."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from fleet.brands.actions import edit_brand
from fleet.history import by_user
from missions import actions, drawing_up
from missions.admin.due_rows import due_rows
from missions.admin.step_rows import standing_still, step_rows
from missions.facts import Accepted, Cancelled, Due, Finished, StepCompleted
from missions.models import Mission, Step
from missions.step_wording import tries_words
from tests.actors import SYSTEM, tell

T0 = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def mission(**given):
    nothing = dict.fromkeys(f.attname for f in Mission._meta.concrete_fields)
    return SimpleNamespace(**{**nothing, "state": "executing", "retry_for": "", "current_step": 1, **given})


def step(number, **given):
    return Step(number=number, command="navigate", params={"place": "Dock A"}, **given)


def shown(mission, *steps):
    return [(r.said.word if r.said else "", r.more) for r in step_rows(mission, steps)]


DONE = {"outcome": "completed", "started_at": T0, "ended_at": T0, "attempt": 1}
AT = {"started_at": T0, "attempt": 1}


@pytest.mark.parametrize(
    ("row", "steps", "words"),
    [
        (mission(), [step(1, **AT), step(2)], [("Under way", ""), ("", "")]),
        (mission(), [step(1, **AT | {"attempt": 2})], [("Under way", "try 2")]),
        (mission(retry_for="timeout", retry_due_at=T0), [step(1, **AT, timeout_retries=2)],
         [("Waits to try again", "try 2 of 3")]),
        (mission(paused_at=T0, step_left_s=3.0), [step(1, **AT)], [("Stands still", "it is paused")]),
        (mission(held_at=T0), [step(1, **AT | {"attempt": 2})], [("Stands still", "its robot is stopped, try 2")]),
        (mission(current_step=4), [step(1, **DONE | {"inferred": True}), step(2, **DONE | {"inferred": True}),
                                   step(3, **DONE), step(4, **AT)],
         [("Taken as done", "the robot went on to step 3"), ("Taken as done", "the robot went on to step 3"),
          ("Completed", ""), ("Under way", "")]),
        (mission(state="success"), [step(1, **DONE | {"inferred": True})],
         [("Taken as done", "the robot says that it has finished")]),
        (mission(current_step=2), [step(1, **DONE | {"outcome": "skipped"}), step(2, **AT)], [("Skipped", ""), ("Under way", "")]),
        (mission(), [step(1, **AT), step(2, claimed="completed")], [("Under way", ""), ("", "completed, said early")]),
        (mission(state="aborted"), [step(1, **DONE | {"outcome": "failed"}), step(2, **AT), step(3)],
         [("Failed", ""), ("", "not finished"), ("", "not begun")]),
    ],
)  # fmt: skip
def test_each_step_says_how_it_stands(row, steps, words):
    assert shown(row, *steps) == words


@pytest.mark.parametrize(
    ("given", "retry_for", "words"),
    [
        ({"attempt": 1}, "", ""),
        ({"attempt": 3}, "", "try 3"),
        ({"attempt": 1, "timeout_retries": 1}, "timeout", "try 2 of 2"),
        ({"attempt": 1, "failed_attempts": 1, "failure_retries": 2}, "failure", "try 2 of 3"),
        ({"attempt": 2, "failed_attempts": 1, "failure_retries": 2, "timeout_retries": 1}, "timeout", "try 3 of 3"),
    ],
)
def test_tries_are_counted_by_why(given, retry_for, words):
    assert tries_words(step(1, **given), retry_for) == words


def test_nothing_stands_still_once_it_is_stopped_or_over():
    assert standing_still(mission(state="aborted", paused_at=T0)) == []
    assert standing_still(mission(stop_requested_at=T0, held_at=T0)) == []
    assert standing_still(mission(robot_lost_at=T0)) == [], "its clocks run: it will be given up"
    assert [why for why, _ in standing_still(mission(robot_lost_at=T0, mission_left_s=9.0, held_at=T0))] == [
        "its robot is stopped", "it waits for its robot, which is offline",
    ]  # fmt: skip


@pytest.mark.django_db
def test_what_the_robot_said_too_late_is_on_the_page(client, supervisor, dispatched):
    tell(dispatched, Accepted(1))
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    tell(dispatched, Cancelled(1))
    ended = Mission.objects.get().ended_at
    tell(dispatched, Finished(1), at=ended + timedelta(minutes=1))
    client.force_login(supervisor)
    html = " ".join(client.get(f"/admin/missions/mission/{dispatched.pk}/change/").content.decode().split())
    assert "says, too late to count: finished, <time" in html
    assert "abort the mission, as its brand says" in html


@pytest.mark.django_db
def test_what_was_taken_as_done_says_why_there_and_in_the_history(client, supervisor, robot, brand):
    edit_brand(brand.pk, strict_sequence=True, by=SYSTEM)
    drives = [{"command": "navigate", "params": {"place": "Dock A"}}] * 3
    pk = drawing_up.draft_mission(title="Round", site=robot.site, robot=robot, steps=drives, by=by_user(supervisor))
    actions.dispatch_mission(pk, by=by_user(supervisor))
    mission = Mission.objects.get(pk=pk)
    tell(mission, Accepted(1), StepCompleted(1, 2, 1))
    tell(mission, Due("gap"), at=Mission.objects.get().gap_due_at)
    client.force_login(supervisor)
    html = " ".join(client.get(f"/admin/missions/mission/{pk}/change/").content.decode().split())
    assert 'Taken as done</span> <span class="quiet">the robot went on to step 2</span>' in html
    assert "Step 1 taken as done: the robot went on" in html
    assert "Step 2 completed" in html


@pytest.mark.parametrize(
    ("row", "given", "then"),
    [
        ({"step_due_at": T0}, {"attempt": 1, "timeout_retries": 1, "repeatable": True}, "ask about step 1, then try it again"),
        ({"step_due_at": T0}, {"attempt": 2, "timeout_retries": 1, "repeatable": True, "timeout_then": "skip"},
         "ask about step 1, then skip it"),
        ({"step_due_at": T0}, {"attempt": 1, "timeout_retries": 1, "repeatable": False},
         "ask about step 1, then stop and abort with reason timeout"),
        ({"retry_due_at": T0}, {"attempt": 1}, "begin try 2 of step 1"),
        ({"accepted_due_at": T0, "accept_tries": 2, "timings": {"accept_tries": 3}}, {}, "send the assignment again, try 3 of 3"),
        ({"accepted_due_at": T0, "accept_tries": 3, "timings": {"accept_tries": 3}}, {},
         "stop and abort as undeliverable, unless its robot is offline or stopped"),
        ({"robot_lost_due_at": T0, "offline_policy": "wait"}, {}, "say that it still waits for its robot"),
        ({"robot_lost_due_at": T0, "timings": {"offline_policy": "hand_over"}, "offline_policy": ""}, {},
         "hand it over if nothing can be done twice, else propose it"),
        ({"paused_due_at": T0}, {}, "say that it is still paused"),
        ({"state": "aborted", "paused_due_at": T0}, {}, None),
    ],
)  # fmt: skip
def test_what_will_happen_is_said_as_this_mission_has_it(row, given, then):
    found = due_rows(mission(**{"timings": {}, **row}), [step(1, **given)], T0 - timedelta(seconds=4))
    assert [(r.left, r.then) for r in found] == ([("in 4 s", then)] if then else [])
