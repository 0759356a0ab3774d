"""Maintenance: who, why and until when; it ends by itself at its time, as an event of the deadline, and not before."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from fleet.admin.robot_buttons import ends
from fleet.history import by_user
from fleet.models import Event, Hold, Robot
from fleet.refusals import Refused
from fleet.robots import actions, stopping
from fleet.robots.facts import Due, HoldBack
from missions import actions as missions
from missions import drawing_up
from missions.ledger import Ledger
from telemetry.worker.loop import GRACE_S
from tests.actors import STEPS, SYSTEM
from tests.telemetry.conftest import clock, durable, worker  # noqa: F401
from tests.telemetry.robots_talk import work

ROBOT = "/admin/fleet/robot/RB-001/"
HOUR = timedelta(hours=1)


def test_it_ends_by_itself_and_says_who_ended_it(worker, clock, robot, supervisor):  # noqa: F811
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    until = timezone.now() + HOUR
    actions.set_maintenance("RB-001", why="brakes", until=until, by=by_user(supervisor))
    assert Robot.objects.get().next_due_at == until
    clock.advance((until - clock.now).total_seconds() - 1)
    work(worker, clock)
    assert Hold.objects.get().released_at is None
    clock.advance(4)
    work(worker, clock)
    hold = Hold.objects.get()
    assert (hold.released_by, hold.released_at) == ("deadline", clock.now)
    event = Event.objects.get(kind="robot.hold_released")
    assert (event.actor_kind, event.cause) == ("deadline", "deadline:hold")
    assert Robot.objects.get().next_due_at is None


def test_without_an_end_it_waits_for_a_person(worker, clock, robot):  # noqa: F811
    actions.set_maintenance("RB-001", why="brakes", by=SYSTEM)
    assert Robot.objects.get().next_due_at is None
    clock.advance(30 * 86_400)
    work(worker, clock)
    assert Hold.objects.get().released_at is None
    assert stopping.release_robot("RB-001", number=Hold.objects.get().number, by=SYSTEM)


def test_asked_for_again_it_is_the_same_hold_with_the_new_end(robot):
    first, second = timezone.now() + HOUR, timezone.now() + 3 * HOUR
    actions.set_maintenance("RB-001", why="brakes", until=first, by=SYSTEM)
    actions.set_maintenance("RB-001", why="brakes and lights", until=second, by=SYSTEM)
    hold = Hold.objects.get()
    assert (hold.why, hold.until, Robot.objects.get().hold_due_at) == ("brakes and lights", second, second)
    actions.set_maintenance("RB-001", why="brakes and lights", until=None, by=SYSTEM)
    assert Robot.objects.get().hold_due_at is None


def test_of_several_holds_with_an_end_only_those_whose_time_is_over_end(robot):
    now = timezone.now()

    def tell(fact, at):
        with transaction.atomic():
            ledger = Ledger.open(["RB-001"], now=at)
            ledger.tell_robot("RB-001", fact, SYSTEM, at)
            ledger.commit()

    tell(HoldBack("maintenance", "Ana", "brakes", now + 2 * HOUR), now)
    tell(HoldBack("unconfirmed", "policy", "odd", now + HOUR), now)
    assert Robot.objects.get().hold_due_at == now + HOUR
    tell(Due("hold"), now + HOUR)
    assert list(Hold.objects.filter(released_at=None).values_list("kind", flat=True)) == ["maintenance"]
    assert Robot.objects.get().hold_due_at == now + 2 * HOUR


def test_a_stop_has_no_end_and_release_of_maintenance_leaves_the_stop(robot):
    actions.set_maintenance("RB-001", why="brakes", until=timezone.now() + HOUR, by=SYSTEM)
    stopping.stop_robot("RB-001", by=SYSTEM)
    stopping.release_robot("RB-001", number=Hold.objects.get(kind="maintenance").number, by=SYSTEM)
    assert Hold.objects.get(released_at=None).kind == "stopped"
    assert Robot.objects.get().hold_due_at is None


def test_it_gets_no_new_work_and_says_why(robot, supervisor):
    actions.set_maintenance("RB-001", why="brakes", by=SYSTEM)
    pk = drawing_up.draft_mission(title="t", site=robot.site_id, robot=robot, steps=STEPS, by=by_user(supervisor))
    with pytest.raises(Refused, match="brakes"):
        missions.dispatch_mission(pk, by=by_user(supervisor))


@pytest.mark.parametrize(
    ("why", "until", "said"),
    [
        ("", None, "Say why"),
        ("x", timedelta(seconds=-1), "in the future"),
        ("x", timedelta(days=400), "within a year"),
    ],
)
def test_what_is_refused(robot, why, until, said):
    with pytest.raises(Refused, match=said):
        actions.set_maintenance("RB-001", why=why, until=until and timezone.now() + until, by=SYSTEM)
    assert not Hold.objects.exists()


def test_a_retired_robot_is_not_taken_out_of_service(robot):
    actions.retire_robot("RB-001", by=SYSTEM)
    with pytest.raises(Refused, match="retired already"):
        actions.set_maintenance("RB-001", why="x", by=SYSTEM)


@pytest.mark.parametrize("day", range(7))
def test_until_monday_is_always_offered_and_is_the_next_one(day):
    now = datetime(2026, 11, 23, 15, 30, tzinfo=UTC) + timedelta(days=day)
    monday = {end.value: end.at for end in ends(now)}["monday"]
    assert monday == datetime(2026, 11, 30, 6, 0, tzinfo=UTC)


def test_out_of_service_until_monday_is_one_form_on_the_page(client, supervisor, robot):
    client.force_login(supervisor)
    assert 'name="until" value="monday"' in client.get(f"{ROBOT}change/").content.decode()
    answer = client.post(f"{ROBOT}maintain/", {"until": "monday", "reason": "brakes"}, follow=True)
    assert "is in maintenance until Monday" in str(next(iter(answer.context["messages"])))
    html = answer.content.decode()
    assert "Ends by itself on Monday" in html and "brakes" in html
    assert Hold.objects.get().until.weekday() == 0


@pytest.mark.parametrize(
    "data",
    [
        {"until": "monday", "reason": ""}, {"until": "never", "reason": "x"}, {"until": "at", "at": "x", "reason": "x"},
        {"until": "at", "at": "2020-01-01T10:00", "reason": "x"}, {"until": "at", "at": "2026-13-99T10:00", "reason": "x"},
        {"until": "at", "at": "\x00", "reason": "x"}, {},
    ],
)  # fmt: skip
def test_bad_input_is_said_in_words_and_holds_nothing(client, supervisor, robot, data):
    client.force_login(supervisor)
    answer = client.post(f"{ROBOT}maintain/", data, follow=True)
    assert [m.level_tag for m in answer.context["messages"]] == ["error"]
    assert not Hold.objects.exists()


def test_a_moment_of_ones_own(client, supervisor, robot):
    client.force_login(supervisor)
    at = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    client.post(f"{ROBOT}maintain/", {"until": "at", "at": f"{at:%Y-%m-%dT%H:%M}", "reason": "x"})
    assert Hold.objects.get().until == at
