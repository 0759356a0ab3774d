"""Clocks that run while they should stand still, or stand still for no reason: refused by the database, or named (I5)."""

import uuid

import pytest
from django.db import IntegrityError, transaction

from fleet.commit import commit, load
from fleet.history import AGGREGATES, Origin
from missions import invariants
from missions.facts import Cancel, Cancelled, StepCompleted, StepFailed
from missions.models import Mission
from tests.actors import tell


def force(mission, kind, **data):
    """An event that decide would never record."""
    with transaction.atomic():
        change = load(AGGREGATES["mission"], [mission.pk])[mission.pk]
        change.now, change.origin = mission.started_at, Origin("system")
        change.record(kind, **data)
        commit([change], now=mission.started_at)


@pytest.mark.parametrize(
    ("kind", "data", "constraint"),
    [
        ("mission.paused", lambda at: {"paused_at": at, "paused_due_at": at}, "mission_stands_still_while_suspended"),
        ("mission.held", lambda at: {"held_at": at, "held_due_at": at}, "mission_stands_still_while_suspended"),
        ("mission.held_long", lambda at: {"held_due_at": at}, "mission_alerts_only_of_what_lasts"),
        ("mission.paused_long", lambda at: {"paused_due_at": at}, "mission_alerts_only_of_what_lasts"),
        ("mission.robot_lost_timeout", lambda at: {"robot_lost_due_at": at}, "mission_alerts_only_of_what_lasts"),
        ("mission.step_retried", lambda at: {"retry_due_at": at}, "mission_retries_while_executing"),
        ("mission.handed_over", lambda at: {"handed_over_to": uuid.uuid4()}, "mission_handed_over_when_aborted"),
    ],
)
def test_the_database_refuses_clocks_that_contradict_each_other(running, kind, data, constraint):
    with pytest.raises(IntegrityError, match=constraint):
        force(running, kind, **data(running.started_at))


def test_a_step_to_be_confirmed_cannot_be_stored_as_inferred(running):
    tell(running, StepCompleted(1, 1, 1))
    with pytest.raises(IntegrityError, match="step_to_confirm_is_never_inferred"):
        force(running, "mission.step_completed", steps=[{"number": 2, "outcome": "completed", "inferred": True}])


@pytest.mark.tampers
@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("mission.resumed", {"mission_left_s": 5.0}, "has time left of a suspension that is over"),
        ("mission.step_timeout", {"step_due_at": None}, "is at step 1, and no deadline of that is open"),
    ],
)
def test_check_invariants_names_what_would_hang(running, kind, data, said):
    force(running, kind, **data)
    assert invariants.check() == [f"I5 mission:{running.pk} {said}"]


@pytest.mark.tampers
def test_check_invariants_names_a_stop_that_nothing_ends(running):
    tell(running, Cancel("Ana"))
    due = Mission.objects.get(pk=running.pk).stop_due_at
    force(running, "mission.receipt_missing", gap_due_at=due)
    force(running, "mission.stop_resent", stop_due_at=None)
    assert invariants.check() == [f"I5 mission:{running.pk} is being stopped, and nothing ends that"]


@pytest.mark.tampers
def test_check_invariants_names_a_hand_over_to_nobody(running):
    tell(running, StepFailed(1, 1, 1), Cancelled(1))
    nobody = uuid.uuid4()
    force(running, "mission.hand_over_decided", hand_over_at=running.started_at)
    force(running, "mission.handed_over", handed_over_to=nobody)
    assert invariants.check() == [f"I2 mission:{running.pk} was handed over to a mission that does not exist"]
