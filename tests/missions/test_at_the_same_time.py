"""Two people at once, real transactions: both are answered, one thing happens."""

import threading

import pytest
from django.db import connection

from fleet.commit import Conflict
from fleet.history import by_user
from fleet.models import Command, Event
from fleet.refusals import Refused
from missions import actions, drawing_up, ledger, locked
from missions.facts import Accepted, Cancelled, Delivered
from missions.models import Mission
from tests.actors import tell
from tests.together import together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def meet(monkeypatch):
    """From now on both sessions have begun their transactions before either reads under lock."""

    def set_up():
        asked = threading.Barrier(2, timeout=10)
        opened = ledger.Ledger.open.__func__

        def open_(cls, *args, **kwargs):
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            asked.wait()
            return opened(cls, *args, **kwargs)

        monkeypatch.setattr(ledger.Ledger, "open", classmethod(open_))

    return set_up


@pytest.mark.parametrize("_round", range(3))
def test_two_cancels_one_command(dispatched, supervisor, admin_person, meet, _round):
    tell(dispatched, Delivered(), Accepted(1))
    meet()
    results = together(
        lambda: actions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="aisle"),
        lambda: actions.cancel_mission(dispatched.pk, by=by_user(admin_person), reason="aisle"),
    )
    assert sorted(map(str, results)) == ["already stopping", "stopping"]
    assert Command.objects.filter(kind="mission.cancel").count() == 1
    assert Event.objects.filter(kind="mission.stop_requested").count() == 1


def test_one_robot_two_missions_one_dispatch(mission, supervisor, admin_person, meet):
    rival = drawing_up.draft_mission(
        title="Rival", site=mission.site, robot=mission.robot, by=by_user(supervisor),
        steps=[{"command": "wait", "params": {"seconds": 1}}],
    )  # fmt: skip
    meet()
    results = together(
        lambda: actions.dispatch_mission(mission.pk, by=by_user(supervisor)),
        lambda: actions.dispatch_mission(rival, by=by_user(admin_person)),
    )
    refused = [r for r in results if isinstance(r, Refused)]
    assert len(refused) == 1 and results.count(None) == 1
    assert Mission.objects.filter(dispatched_at__isnull=False).count() == 1


def test_cancel_against_the_robots_last_word(dispatched, supervisor, meet):
    """Whoever is first, the mission ends once and by the table."""
    from missions.facts import Finished, StepCompleted

    tell(dispatched, Delivered(), Accepted(1), *(StepCompleted(1, n, 1) for n in (1, 2, 3)))
    meet()
    said, verdicts = together(
        lambda: actions.cancel_mission(dispatched.pk, by=by_user(supervisor)), lambda: tell(dispatched, Finished(1))
    )
    assert said in {"stopping", "already ended"}
    assert verdicts == ["applied"]
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    assert not Command.objects.filter(kind="mission.cancel", state="open").exists()


def test_claim_of_the_link_against_cancel(dispatched, supervisor):
    """Either the assignment is taken up and the robot must be asked, or it never leaves: never both."""
    from django.utils import timezone

    def claim():
        return Command.objects.filter(kind="mission.assign", state="open").update(sent_at=timezone.now())

    claimed, said = together(claim, lambda: actions.cancel_mission(dispatched.pk, by=by_user(supervisor)))
    assert (claimed, said) in {(1, "stopping"), (0, "aborted")}


@pytest.mark.parametrize(("lost", "outcome"), [(locked.TRIES - 1, "stopping"), (locked.TRIES, "Conflict")])
def test_a_lost_race_is_run_again_and_not_for_ever(dispatched, supervisor, monkeypatch, lost, outcome):
    tell(dispatched, Delivered(), Accepted(1))
    races = iter(range(lost))
    commit = ledger.Ledger.commit

    def raced(self):
        for _ in races:
            raise Conflict("somebody was faster")
        commit(self)

    monkeypatch.setattr(ledger.Ledger, "commit", raced)
    try:
        said = actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    except Conflict:
        said = "Conflict"
    assert said == outcome
    assert Command.objects.filter(kind="mission.cancel").count() == (outcome == "stopping")


def test_what_was_said_before_a_lost_race_counts_no_more(dispatched, supervisor, monkeypatch):
    tell(dispatched, Delivered(), Accepted(1))
    commit = ledger.Ledger.commit

    def ended_meanwhile(self):
        monkeypatch.setattr(ledger.Ledger, "commit", commit)
        raise Conflict("the robot was faster")

    def again(mission_ids, *, now, opened=ledger.Ledger.open):
        if ledger.Ledger.commit is commit:
            monkeypatch.setattr(ledger.Ledger, "open", opened)
            tell(dispatched, Cancelled(1))
        return opened(mission_ids=mission_ids, now=now)

    monkeypatch.setattr(ledger.Ledger, "commit", ended_meanwhile)
    monkeypatch.setattr(ledger.Ledger, "open", again)
    assert actions.cancel_mission(dispatched.pk, by=by_user(supervisor)) == "already ended"
