"""Alerts: opened and cleared by events, one open per cause, acknowledged, cleared and silenced by people."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from fleet.alerts import actions as alerts
from fleet.alerts.heard import open_alerts
from fleet.alerts.rules import MAX_TEXT, RULES
from fleet.history import KINDS, Origin, by_user
from fleet.models import Alert, AlertTally, Event
from fleet.refusals import Refused
from fleet.robots import facts as words
from fleet.robots import stopping
from fleet.signals import alert_changed
from missions import actions, facts
from missions.ledger import Ledger
from tests.actors import START, SYSTEM, online, tell
from tests.together import together

pytestmark = pytest.mark.django_db


def say(robot_id: str, *told: object, at=START) -> None:
    with transaction.atomic():
        ledger = Ledger.open([robot_id], now=at)
        for fact in told:
            ledger.tell_robot(robot_id, fact, Origin("robot", robot_id, robot_id, "message:m1", trace_id="t" * 32), at)
        ledger.commit()


def open_causes() -> list[str]:
    return sorted(Alert.objects.filter(cleared_at=None).values_list("cause", flat=True))


def fault(seq: int, text: str = "left wheel", **more: object) -> words.Faulted:
    return words.Faulted(1, seq, text, **more)


def test_a_fault_opens_one_alert_that_counts_and_its_end_clears_it(robot):
    say("RB-001", fault(1))
    say("RB-001", fault(2), at=START + timedelta(minutes=1))
    alert = Alert.objects.get()
    assert (alert.severity, alert.text, alert.subject) == ("warning", "RB-001 has a fault: left wheel", "robot:RB-001")
    assert (alert.tally.count, alert.tally.last_at, alert.opened_at) == (2, START + timedelta(minutes=1), START)
    assert alert.site_id == robot.site_id
    say("RB-001", words.FaultCleared(1, 3), at=START + timedelta(minutes=2))
    alert = Alert.objects.get()
    assert (alert.cleared_at, alert.cleared_by) == (START + timedelta(minutes=2), "")
    say("RB-001", fault(4), at=START + timedelta(minutes=3))
    assert Alert.objects.count() == 2
    assert open_causes() == ["fault:robot:RB-001"]


def test_each_repetition_counts_also_several_of_one_commit(robot):
    say("RB-001", fault(1))
    say("RB-001", fault(2), fault(3))
    assert Alert.objects.get().tally.count == 3


def test_a_stop_that_was_never_confirmed_stays_open_while_another_is(robot):
    first, second = uuid4(), uuid4()
    say("RB-001", *(words.HoldBack("unconfirmed", "policy", mission=pk, dispatch_no=1) for pk in (first, second)))
    say("RB-001", words.StopConfirmed(first, 1))
    assert open_causes() == ["stop_unconfirmed:robot:RB-001"]
    say("RB-001", words.StopConfirmed(second, 1))
    assert open_causes() == []


def test_an_alert_follows_from_its_event_in_the_same_transaction(robot):
    say("RB-001", fault(1))
    opened, faulted = Event.objects.get(kind="alert.opened"), Event.objects.get(kind="robot.faulted")
    assert (opened.cause, opened.trace_id, opened.site_id) == (faulted.cause, faulted.trace_id, robot.site_id)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        say("RB-001", fault(2, danger=True))
        raise ZeroDivisionError
    assert open_causes() == ["fault:robot:RB-001"]


def test_what_comes_and_goes_in_one_transaction_opens_nothing(robot):
    say("RB-001", fault(1), words.FaultCleared(1, 2))
    assert not Alert.objects.exists()
    say("RB-001", fault(3), words.FaultCleared(1, 4), fault(5), fault(6))
    assert AlertTally.objects.get().count == 2


def test_danger_is_critical(robot):
    say("RB-001", fault(1, "person in the aisle", danger=True))
    assert [(a.severity, a.cause) for a in Alert.objects.all()] == [("critical", "danger:robot:RB-001")]


def test_a_stop_that_is_never_confirmed_is_critical_until_the_hold_is_released(dispatched, supervisor):
    tell(dispatched, facts.Delivered(), facts.Accepted(1))
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="wrong")
    tell(dispatched, facts.Due("stop"), at=timezone.now() + timedelta(minutes=1))
    assert open_causes() == ["stop_unconfirmed:robot:RB-001"]  # that a person cancelled it is no alert
    assert Alert.objects.get().severity == "critical"
    stopping.release_robot("RB-001", number=dispatched.robot.holds.get().number, by=by_user(supervisor))
    assert open_causes() == []


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (facts.Rejected(1, "no way"), "“Fetch” was aborted: rejected by the robot (no way)"),
        (facts.Danger("smoke"), None),
    ],
)
def test_an_abort_that_nobody_asked_for_is_an_alert(dispatched, fact, expected):
    tell(dispatched, fact)
    if expected is None:  # stopping first
        tell(dispatched, facts.Cancelled(1, ""), at=timezone.now())
        expected = "“Fetch” was aborted: safety (smoke)"
    assert [a.text for a in Alert.objects.filter(cause=f"aborted:mission:{dispatched.pk}")] == [expected]


def test_a_robot_that_goes_offline_with_a_mission(dispatched):
    online("RB-001", "offline")
    assert open_causes() == [f"robot_lost:mission:{dispatched.pk}"]
    assert "RB-001 went offline with “Fetch”" in Alert.objects.get().text
    online("RB-001", "online")
    assert open_causes() == []


def test_an_assignment_that_is_not_delivered_and_a_long_pause(dispatched):
    later = timezone.now() + timedelta(minutes=2)
    tell(dispatched, facts.Due("undelivered"), at=later)
    assert open_causes() == [f"undelivered:mission:{dispatched.pk}"]
    tell(dispatched, facts.Delivered(), facts.Accepted(1), facts.Paused(1, 1, 1), at=later)
    assert open_causes() == []
    tell(dispatched, facts.Due("paused"), at=later + timedelta(minutes=20))
    assert open_causes() == [f"paused_long:mission:{dispatched.pk}"]
    tell(dispatched, facts.Resumed(1, 1, 2), at=later + timedelta(minutes=21))
    assert open_causes() == []


def test_every_rule_names_kinds_of_the_catalogue():
    for rule in RULES.values():
        assert {rule.raised_by, *rule.cleared_by} <= KINDS.keys(), rule.name


def test_text_of_a_robot_is_bounded(robot):
    say("RB-001", fault(1, "x\n" * 40_000))
    assert len(Alert.objects.get().text) == MAX_TEXT


def test_events_outside_the_table_cost_no_query(robot, django_assert_num_queries):
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], now=START)
        ledger.tell_robot("RB-001", words.Reported(1, 1, "idle"), SYSTEM, START)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fleet.alerts.rows.settle", None)
            ledger.commit()


# --- people


def test_acknowledged_by_a_person_and_cleared_by_its_condition(robot, supervisor):
    say("RB-001", fault(1))
    pk = Alert.objects.get().pk
    assert alerts.acknowledge(pk, by=by_user(supervisor)) == "Acknowledged."
    assert alerts.acknowledge(pk, by=SYSTEM) == "Acknowledged."  # again: the first stays
    alert = Alert.objects.get()
    assert (alert.acknowledged_by, alert.cleared_at) == ("Ana", None)
    event = Event.objects.get(kind="alert.acknowledged")
    assert (event.actor_kind, event.actor_name, event.aggregate) == ("user", "Ana", f"alert:{pk}")


def test_an_alert_without_a_condition_ends_with_its_acknowledgement(dispatched, supervisor):
    tell(dispatched, facts.Rejected(1, "no way"))
    pk = Alert.objects.get().pk
    assert "closed" in alerts.acknowledge(pk, by=by_user(supervisor))
    alert = Alert.objects.get()
    assert (alert.cleared_by, alert.cleared_why) == ("Ana", "acknowledged")
    assert "cleared before" in alerts.acknowledge(pk, by=SYSTEM)
    tell(dispatched, facts.Finished(1))  # and its tally is free for another
    assert not AlertTally.objects.filter(open=True).exists()


def test_a_person_clears_with_a_reason_and_it_opens_again_when_it_holds(robot, supervisor):
    say("RB-001", fault(1))
    pk = Alert.objects.get().pk
    with pytest.raises(Refused, match="Say why"):
        alerts.clear_by_person(pk, by=by_user(supervisor), why="  ")
    alerts.clear_by_person(pk, by=by_user(supervisor), why="wheel cleaned")
    assert Alert.objects.get().cleared_why == "wheel cleaned"
    say("RB-001", fault(2))
    assert Alert.objects.count() == 2


def test_causes_that_are_no_event():
    for _ in range(3):
        alerts.raise_alert("redis_full", severity="critical", text="Redis is full", now=START)
    alert = Alert.objects.get()
    assert (alert.tally.count, alert.subject, alert.site) == (3, "system", None)
    assert alerts.clear_alert("redis_full", now=START)
    assert not alerts.clear_alert("redis_full", now=START)
    assert open_causes() == []


# --- who sees what


def test_only_the_own_sites_and_the_worst_first(robot, site, supervisor, other_supervisor, auditor, outsider):
    say("RB-001", fault(1))
    say("RB-001", fault(2, "smoke", danger=True))
    alerts.raise_alert("worker_missing", severity="warning", text="a worker is missing")
    assert [a.cause for a in open_alerts(supervisor)] == ["danger:robot:RB-001", "fault:robot:RB-001"]
    assert list(open_alerts(other_supervisor)) == list(open_alerts(outsider)) == []
    everywhere = list(open_alerts(auditor))
    assert [a.severity for a in everywhere] == ["critical", "warning", "warning"]
    alerts.acknowledge(everywhere[0].pk, by=SYSTEM)
    assert list(open_alerts(auditor))[-1].pk == everywhere[0].pk


def test_a_robot_in_maintenance_is_silent_except_for_what_is_critical(robot, supervisor):
    hold(robot, "maintenance")
    say("RB-001", fault(1))
    say("RB-001", fault(2, danger=True))
    assert [a.severity for a in open_alerts(supervisor)] == ["critical"]
    stopping.release_robot("RB-001", number=robot.holds.get().number, by=SYSTEM)
    assert [a.severity for a in open_alerts(supervisor)] == ["critical", "warning"]  # it still holds


def hold(robot, kind: str) -> None:
    with transaction.atomic():
        ledger = Ledger.open([robot.pk], now=START)
        ledger.tell_robot(robot.pk, words.HoldBack(kind, "Ada", "service"), SYSTEM, START)
        ledger.commit()


def test_silence_of_a_site_and_of_a_robot(robot, other_robot, site, other_site, supervisor, admin_person):
    say("RB-001", fault(1))
    say("RB-002", fault(1))
    now, by = timezone.now(), by_user(admin_person)

    def seen(at=now) -> list[str]:
        return sorted(a.robot_id for a in open_alerts(supervisor, at))

    alerts.silence(site=other_site, until=now + timedelta(hours=1), why="works over there", by=SYSTEM, now=now)
    assert seen() == ["RB-001", "RB-002"]
    one = alerts.silence(site=site, robot="RB-001", until=now + timedelta(hours=1), why="new wheels", by=by, now=now)
    assert seen() == ["RB-002"]
    assert seen(now + timedelta(hours=1)) == seen(now - timedelta(seconds=1)) == ["RB-001", "RB-002"]
    alerts.silence(site=site, until=now + timedelta(hours=1), why="works in the hall", by=by, now=now)
    assert seen() == []
    assert alerts.end_silence(one, by=by)
    assert not alerts.end_silence(one, by=by)
    assert seen() == []
    assert [e.actor_name for e in Event.objects.filter(kind__startswith="silence.", actor_name="Ada")] == ["Ada"] * 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"why": " "}, "Say why"),
        ({"until": START}, "at most 31 days"),
        ({"until": START + timedelta(days=40)}, "at most 31 days"),
        ({"robot": "RB-999"}, "no robot"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(site, change, says):
    whole = {"until": START + timedelta(hours=1), "why": "works", "now": START} | change
    with pytest.raises(Refused, match=says):
        alerts.silence(site=site, by=SYSTEM, **whole)


# --- at the same time, and afterwards


@pytest.mark.django_db(transaction=True)
def test_two_that_raise_the_same_cause_at_once_make_one_alert():
    def one() -> None:
        for _ in range(10):
            alerts.raise_alert("redis_full", severity="critical", text="Redis is full")

    assert together(*[one] * 4) == [None] * 4
    assert AlertTally.objects.get().count == 40
    assert Event.objects.filter(kind="alert.opened").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_change_is_announced_after_the_commit():
    heard = []

    def listen(*, changes, counted=(), **_) -> None:
        heard.append(([c.events[-1].kind for c in changes], list(counted), connection.in_atomic_block))

    alert_changed.connect(listen)
    try:
        alerts.raise_alert("redis_full", severity="critical", text="Redis is full")
        alerts.raise_alert("redis_full", severity="critical", text="Redis is full")
        alerts.clear_alert("redis_full")
    finally:
        alert_changed.disconnect(listen)
    pk = Alert.objects.get().pk
    assert heard == [(["alert.opened"], [], False), ([], [pk], False), (["alert.cleared"], [], False)]
