"""I4: receipts may come in any order and more than once; the mission ends in the same state."""

from itertools import permutations

import pytest

from fleet.models import Event
from missions.facts import Accepted, Finished, StepCompleted, StepFailed, StepStarted
from missions.models import Mission
from tests.actors import tell

RECEIPTS = [Accepted(1), StepCompleted(1, 1, 1), StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Finished(1)]
EDGES = [
    "mission.started",
    *["mission.step_completed", "mission.step_started"] * 2,
    "mission.step_completed",
    "mission.succeeded",
]


@pytest.mark.parametrize(
    "order", [*permutations(RECEIPTS)][::7], ids=lambda order: "".join(type(r).__name__[0] for r in order)
)
def test_every_order_succeeds_by_the_same_edges(dispatched, order):
    tell(dispatched, *order)
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    edges = Event.objects.filter(aggregate=f"mission:{dispatched.pk}").exclude(state_from="")
    moved = [e.kind for e in edges if e.state_from != e.state_to]
    assert moved == EDGES


def test_every_receipt_twice_counts_once(dispatched):
    verdicts = tell(dispatched, *(receipt for receipt in RECEIPTS for _ in range(2)))
    assert verdicts == ["applied", "redundant"] * 4 + ["applied", "late"]
    moved = [e.kind for e in Event.objects.exclude(state_from="") if e.state_from != e.state_to]
    assert moved == EDGES


@pytest.mark.parametrize("dispatch_no", [None, 0, 2, 99])
def test_receipts_of_another_dispatch_change_nothing(dispatched, dispatch_no):
    before = Event.objects.count()
    stale = [
        Accepted(dispatch_no),
        StepCompleted(dispatch_no, 1, 1),
        Finished(dispatch_no),
        StepFailed(dispatch_no, 1, 1),
    ]
    assert tell(dispatched, *stale) == ["stale"] * 4
    assert Event.objects.count() == before


def test_receipts_for_a_mission_that_was_never_dispatched(mission):
    assert tell(mission, Accepted(0), Finished(0)) == ["stale", "stale"]


def test_a_step_that_does_not_exist_is_stale(dispatched):
    assert tell(dispatched, Accepted(1), StepCompleted(1, 9, 1)) == ["applied", "stale"]


def test_step_started_is_known_already(dispatched):
    assert tell(dispatched, Accepted(1), StepStarted(1, 1, 1)) == ["applied", "redundant"]


def test_completed_counts_whatever_its_attempt(dispatched):
    assert tell(dispatched, Accepted(1), StepCompleted(1, 1, 7)) == ["applied", "applied"]


@pytest.mark.parametrize("attempt", [0, 2, 9])
def test_a_failure_of_an_attempt_that_was_not_given_is_stale_also_before_its_turn(dispatched, attempt):
    assert tell(dispatched, StepFailed(1, 1, attempt), Accepted(1), StepFailed(1, 2, attempt)) == [
        "stale", "applied", "stale",
    ]  # fmt: skip
    assert Mission.objects.get(pk=dispatched.pk).stop_requested_at is None


def test_early_failure_waits_its_turn(dispatched):
    tell(dispatched, Accepted(1), StepFailed(1, 2, 1, "no grip"))
    assert Mission.objects.get(pk=dispatched.pk).stop_requested_at is None
    tell(dispatched, StepCompleted(1, 1, 1))
    assert Mission.objects.get(pk=dispatched.pk).abort_detail == "step 2 (pick) failed: no grip"
