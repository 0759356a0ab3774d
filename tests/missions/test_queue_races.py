"""The queue against itself and against people, real transactions: one robot has one mission, nothing is lost."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.commit import Conflict
from fleet.refusals import Refused
from fleet.robots.stopping import stop_robot
from missions import actions, drawing_up
from missions.models import Mission
from missions.queue.dispatching import carry_out, decisions
from tests.actors import SYSTEM
from tests.missions.test_at_the_same_time import meet  # noqa: F401
from tests.together import together

pytestmark = pytest.mark.django_db(transaction=True)
WAIT = [{"command": "wait", "params": {"seconds": 1}}]


def waiting(site, robot="RB-001", **over):
    """In the queue, though its robot could take it."""
    said = {"title": "Wait", "site": site, "steps": WAIT, "robot": robot, "by": SYSTEM}
    pk = drawing_up.draft_mission(**said | over)
    real, actions._dispatch_if_its_turn = actions._dispatch_if_its_turn, lambda *_: None
    try:
        actions.queue_mission(pk, by=SYSTEM)
    finally:
        actions._dispatch_if_its_turn = real
    return pk


def work():
    """A worker's look, from plan to commit."""
    now = timezone.now()
    with transaction.atomic():
        return carry_out(decisions(now), now)


def given() -> int:
    return Mission.objects.filter(dispatched_at__isnull=False).count()


@pytest.mark.parametrize("_round", range(3))
def test_two_workers_one_dispatch(site, robot, meet, _round):  # noqa: F811
    waiting(site)
    meet()
    results = together(work, work)
    assert sorted(len(r) for r in results) == [0, 1]
    assert given() == 1


@pytest.mark.parametrize("_round", range(3))
def test_a_worker_against_a_person_who_takes_the_robot_for_another(site, robot, meet, _round):  # noqa: F811
    waiting(site)
    other = drawing_up.draft_mission(title="Now", site=site, robot="RB-001", steps=WAIT, by=SYSTEM)
    meet()
    done, said = together(work, lambda: actions.dispatch_mission(other, by=SYSTEM))
    assert (len(done) == 1) == isinstance(said, Refused)
    assert given() == 1


@pytest.mark.parametrize("_round", range(3))
def test_a_worker_against_a_stop(site, robot, meet, _round):  # noqa: F811
    """Whoever is first: a mission is never given to a robot whose hold is committed."""
    pk = waiting(site)
    done, _ = together(work, lambda: stop_robot("RB-001", by=SYSTEM))
    mission = Mission.objects.get(pk=pk)
    assert bool(mission.dispatched_at) == bool(done)
    if mission.dispatched_at:
        assert mission.dispatched_at <= mission.robot.holds.get().since + timedelta(seconds=1)


@pytest.mark.parametrize("_round", range(3))
def test_two_missions_without_a_robot_and_one_robot(site, robot, _round):
    """In two partitions: both workers choose the same robot, one is told that it was not first."""
    first, second = waiting(site, None), waiting(site, None)

    def only(pk):
        def call():
            now = timezone.now()
            mine = decisions(now, pk=pk)
            with transaction.atomic():
                return carry_out(mine, now)

        return call

    results = together(only(first), only(second))
    assert given() == 1
    assert sum(1 for r in results if r == [] or isinstance(r, Conflict | IntegrityError)) == 1


@pytest.mark.parametrize("_round", range(3))
def test_run_twice_at_once(site, robot, _round):
    pk = drawing_up.draft_mission(title="Wait", site=site, robot="RB-001", steps=WAIT, by=SYSTEM)
    results = together(lambda: actions.queue_mission(pk, by=SYSTEM), lambda: actions.queue_mission(pk, by=SYSTEM))
    assert "dispatched to Ella" in results
    assert all(isinstance(r, str | Refused) for r in results), results
    assert given() == 1


@pytest.mark.parametrize("_round", range(3))
def test_two_edits_do_not_close_a_circle(site, robot, _round):
    a, b = (drawing_up.draft_mission(title=t, site=site, steps=WAIT, by=SYSTEM) for t in "AB")

    def after(pk, other):
        return lambda: drawing_up.edit_mission(
            pk, title="X", site=site, steps=WAIT, by=SYSTEM, version=1, after=[other]
        )

    results = together(after(a, b), after(b, a))
    assert sorted(map(type, results), key=str) == sorted([type(None), Refused], key=str)
    assert Mission.objects.filter(dependencies__isnull=False).count() == 1
