"""A mission from drawing up to its end: every edge, its events, its deadlines, its commands."""

import json

from fleet.history import by_user
from fleet.models import Command, Event
from missions import actions
from missions.facts import Accepted, Delivered, Finished, StepCompleted
from missions.models import Mission
from tests.actors import tell


def kinds(mission):
    return list(Event.objects.filter(aggregate=f"mission:{mission.pk}").values_list("kind", "state_from", "state_to"))


def test_three_steps_to_success(dispatched, supervisor):
    assert tell(
        dispatched, Delivered(), Accepted(1), StepCompleted(1, 1, 1), StepCompleted(1, 2, 1, "pallet 7"),
        StepCompleted(1, 3, 1), Finished(1),
    ) == ["applied"] * 6  # fmt: skip
    assert kinds(dispatched) == [
        ("mission.drafted", "", "pending"),
        ("mission.dispatched", "pending", "pending"),
        ("mission.delivered", "pending", "pending"),
        ("mission.started", "pending", "executing"),
        ("mission.step_completed", "executing", "step_completed"),
        ("mission.step_started", "step_completed", "executing"),
        ("mission.step_completed", "executing", "step_completed"),
        ("mission.step_started", "step_completed", "executing"),
        ("mission.step_completed", "executing", "step_completed"),
        ("mission.succeeded", "step_completed", "success"),
    ]
    done = Mission.objects.get(pk=dispatched.pk)
    assert (done.state, done.next_due_at, done.abort_reason) == ("success", None, "")
    assert [s.result for s in done.steps.all()] == ["", "pallet 7", ""]


def test_assignment_carries_places_by_pose(dispatched):
    (assign,) = Command.objects.all()
    body = json.loads(assign.body)
    assert (body["type"], body["dispatch_no"], body["msg_id"]) == ("mission.assign", 1, str(assign.pk))
    first = body["data"]["steps"][0]
    assert first == {
        "number": 1, "command": "navigate", "attempt": 1, "timeout_s": 60,
        "params": {"place": "Dock A", "x": 1.0, "y": 2.0, "theta": 0.0},
    }  # fmt: skip


def test_cancel_goes_through_stopping(dispatched, supervisor):
    tell(dispatched, Delivered(), Accepted(1))
    who = by_user(supervisor)
    assert actions.cancel_mission(dispatched.pk, by=who, reason="blocked aisle") == "stopping"
    assert actions.cancel_mission(dispatched.pk, by=who) == "already stopping"
    assert Command.objects.filter(kind="mission.cancel").count() == 1
