"""Stop always works (I13): latched, asked again until confirmed, and no new work before the robot's word."""

import json
import threading
import uuid
from datetime import timedelta

import pytest
from django.db import connection, transaction

from fleet.history import by_user
from fleet.models import Alert, Command, Event, Hold, Robot
from fleet.refusals import Refused
from fleet.robots import actions, decide, facts, stopping, telling
from fleet.robots.decide import holding
from fleet.robots.facts import Due, Reported, StoodStill
from missions import actions as missions
from missions.ledger import Ledger
from tests.actors import START, SYSTEM, online

ROBOT = "RB-001"


def told(fact, at, robot=ROBOT):
    with transaction.atomic():
        ledger = Ledger.open([robot], now=at)
        verdict = ledger.tell_robot(robot, fact, SYSTEM, at)
        ledger.commit()
    return str(verdict)


@pytest.fixture
def stop(robot, monkeypatch):
    """stop(at) asks for a stop at that many seconds; returns the command."""

    def stop(seconds: float = 0, why: str = "") -> Command:
        at = START + timedelta(seconds=seconds)
        monkeypatch.setattr(actions.timezone, "now", lambda: at)
        assert stopping.stop_robots([ROBOT], by=SYSTEM, why=why) == {ROBOT: "stopping"}
        return Command.objects.filter(kind="robot.stop").latest("order")

    return stop


def states(kind: str) -> list[str]:
    return list(Command.objects.filter(kind=kind).order_by("order").values_list("state", flat=True))


def kinds() -> list[str]:
    return list(Event.objects.filter(aggregate=f"robot:{ROBOT}").order_by("seq").values_list("kind", flat=True))


def passes(seconds: float, plus: float = 1.0) -> None:
    """The worker fires what is due, a second late, as it does."""
    told(Due("stop"), START + timedelta(seconds=seconds + plus))


# --- one after the other


def test_stop_again_is_asked_anew_and_only_the_newest_is_on_its_way(stop):
    first = stop()
    told(StoodStill(7, 1, first.created_at), START + timedelta(seconds=1))
    assert Hold.objects.get().confirmed_at
    stop(5)
    hold = Hold.objects.get()
    assert (hold.confirmed_at, hold.asked_at) == (None, START + timedelta(seconds=5))
    assert states("robot.stop") == ["withdrawn", "open"]


def test_a_release_that_is_still_on_its_way_is_withdrawn_by_the_next_stop(stop):
    told(StoodStill(7, 1, stop().created_at), START + timedelta(seconds=1))
    stopping.release_robots([ROBOT], by=SYSTEM)
    stop(5)
    assert states("robot.release") == ["withdrawn"]


def test_a_stop_that_is_still_on_its_way_is_withdrawn_by_the_release(stop):
    stop()
    stopping.release_robots([ROBOT], by=SYSTEM)
    assert (states("robot.stop"), states("robot.release")) == (["withdrawn"], ["open"])


def test_the_word_about_an_earlier_stop_confirms_no_later_one(stop):
    first = stop()
    Command.objects.update(sent_at=START)
    stopping.release_robots([ROBOT], by=SYSTEM)
    second = stop(5)
    told(StoodStill(7, 1, first.created_at), START + timedelta(seconds=6))
    assert Hold.objects.get(kind="stopped", released_at=None).confirmed_at is None
    told(StoodStill(7, 2, second.created_at), START + timedelta(seconds=7))
    assert Hold.objects.get(kind="stopped", released_at=None).confirmed_at


def test_the_word_about_the_first_of_two_stops_under_one_hold_counts(stop):
    first = stop()
    stop(1)
    told(StoodStill(7, 1, first.created_at), START + timedelta(seconds=2))
    assert Hold.objects.get().confirmed_at


def test_a_confirmation_that_was_overtaken_by_a_later_word_counts_all_the_same(stop):
    asked = stop().created_at
    told(Reported(7, 5, "paused"), START + timedelta(seconds=1))
    assert told(StoodStill(7, 4, asked), START + timedelta(seconds=2)) == "applied"
    assert Hold.objects.get().confirmed_at
    assert Robot.objects.get().word_seq == 5
    assert told(StoodStill(7, 4, asked), START + timedelta(seconds=3)) == "stale"
    assert told(StoodStill(7, 3), START + timedelta(seconds=3)) == "stale"


def test_a_word_that_names_no_stop_confirms_none_that_was_asked_for_after_it_was_received(stop):
    """It waited in the stream meanwhile."""
    stop(5)
    told(StoodStill(7, 1), START + timedelta(seconds=4))
    assert Hold.objects.get().confirmed_at is None
    told(StoodStill(7, 2), START + timedelta(seconds=6))
    assert Hold.objects.get().confirmed_at


def test_a_reason_can_be_added_later(stop, supervisor):
    stop()
    by = by_user(supervisor)
    assert stopping.explain_stops([ROBOT, "RB-404"], why="spill", by=by) == {
        ROBOT: "explained", "RB-404": "There is no robot 'RB-404'.",
    }  # fmt: skip
    assert Hold.objects.get().why == "spill"
    assert stopping.explain_stops([ROBOT], why="spill", by=by) == {ROBOT: "nothing to explain"}


# --- without an answer


def test_it_is_told_again_and_after_15_s_it_is_said_that_it_may_be_moving(stop):
    stop()
    assert Robot.objects.get().next_due_at == START + timedelta(seconds=5)
    for due in (5, 11, 15):
        assert Robot.objects.get().next_due_at == START + timedelta(seconds=due)
        passes(due)
    assert kinds()[-3:] == ["robot.stop_resent", "robot.stop_resent", "robot.stop_unconfirmed"]
    assert Hold.objects.get().unconfirmed_at == START + timedelta(seconds=16)
    assert states("robot.stop") == ["withdrawn"] * 3 + ["open"]


def test_pauses_grow_up_to_five_minutes_and_it_is_said_once(stop):
    stop()
    pauses, at = [], START
    for _ in range(12):
        due = Robot.objects.get().next_due_at
        pauses.append((due - at).total_seconds())
        at = due
        told(Due("stop"), due)
    assert pauses == [5, 5, 5, 15, 30, 60, 120, 240, 300, 300, 300, 300]
    assert kinds().count("robot.stop_unconfirmed") == 1


def test_a_late_word_settles_it(stop):
    asked = stop().created_at
    passes(15)
    told(StoodStill(7, 1, asked), START + timedelta(seconds=90))
    assert Hold.objects.get().confirmed_at
    assert Robot.objects.get().next_due_at is None
    passes(200)
    assert kinds()[-1] == "robot.stop_confirmed"


def test_stop_again_starts_the_clock_anew(stop):
    stop()
    passes(15)
    stop(60)
    assert (Hold.objects.get().unconfirmed_at, Robot.objects.get().stop_due_at) == (None, START + timedelta(seconds=65))


def test_an_offline_robot_is_not_told_in_vain_but_at_once_when_it_is_back(stop):
    stop()
    online(ROBOT, "offline", START + timedelta(seconds=1))
    for due in (5, 10, 15):
        passes(due)
    assert len(states("robot.stop")) == 1
    assert kinds()[-1] == "robot.stop_unconfirmed"
    assert Robot.objects.get().next_due_at is None
    online(ROBOT, "online", START + timedelta(hours=1))
    assert states("robot.stop") == ["withdrawn", "open"]
    assert Robot.objects.get().next_due_at == START + timedelta(hours=1, seconds=5)


# --- no new work before its word


def test_released_before_its_word_it_gets_no_work_until_it_has_answered(stop, mission):
    stop()
    Command.objects.update(sent_at=START)
    assert stopping.release_robots([ROBOT], by=SYSTEM) == {ROBOT: "released"}
    hold = Hold.objects.get(released_at=None)
    question = Command.objects.get(kind="robot.query_state")
    assert (hold.kind, hold.question) == ("unconfirmed", question.pk)
    with pytest.raises(Refused, match="released before it said"):
        missions.dispatch_mission(mission.pk, by=SYSTEM)
    told(Reported(7, 1, "idle", reply_to=uuid.uuid4()), START + timedelta(seconds=2))
    assert Hold.objects.filter(released_at=None).exists()
    told(Reported(7, 2, "idle", reply_to=question.pk), START + timedelta(seconds=3))
    assert not Hold.objects.filter(released_at=None).exists()
    missions.dispatch_mission(mission.pk, by=SYSTEM)


def test_a_stop_that_never_left_leaves_no_doubt_behind(stop):
    stop()
    stopping.release_robots([ROBOT], by=SYSTEM)
    assert not Hold.objects.filter(released_at=None).exists()
    assert Robot.objects.get().next_due_at is None


def test_a_confirmed_stop_leaves_no_doubt_behind(stop):
    told(StoodStill(7, 1, stop().created_at), START + timedelta(seconds=1))
    Command.objects.update(sent_at=START)
    stopping.release_robots([ROBOT], by=SYSTEM)
    assert not Hold.objects.filter(released_at=None).exists()


# --- many


def test_each_robot_has_its_own_answer(robot, other_robot):
    said = stopping.stop_robots([ROBOT, "RB-404", "RB-002", ROBOT], by=SYSTEM)
    assert said == {ROBOT: "stopping", "RB-404": "There is no robot 'RB-404'.", "RB-002": "stopping"}
    assert Hold.objects.count() == 2
    assert stopping.release_robots(["RB-002"], by=SYSTEM) == {"RB-002": "released"}
    assert stopping.release_robots(["RB-002"], by=SYSTEM) == {"RB-002": "not stopped"}
    assert Hold.objects.get(released_at=None).robot_id == ROBOT


def test_a_site_is_stopped_as_a_whole_and_no_other(robot, other_robot, other_site, brand):
    actions.enrol_robot(id="RB-003", name="Far", site=other_site, brand=brand, by=SYSTEM)
    actions.retire_robot("RB-002", by=SYSTEM)
    assert stopping.stop_site(robot.site_id, by=SYSTEM) == {ROBOT: "stopping"}


def test_one_that_cannot_be_written_takes_no_other_down(robot, other_robot, monkeypatch):
    rule = decide._RULES[facts.HoldBack]

    def failing(change, fact, now):
        if change.row.pk == "RB-002":
            change.row.version += 1  # somebody else was there
        return rule(change, fact, now)

    monkeypatch.setitem(decide._RULES, facts.HoldBack, failing)
    monkeypatch.setattr(telling, "GIVE_UP_S", 0)
    said = stopping.stop_robots([ROBOT, "RB-002"], by=SYSTEM)
    assert said[ROBOT] == "stopping"
    assert said["RB-002"].startswith("Not done: something else keeps RB-002 busy.")


@pytest.mark.django_db(transaction=True)
def test_a_robot_whose_row_is_held_keeps_no_other_waiting(site, brand, monkeypatch):
    known = [f"RB-{n:03}" for n in range(1, 6)]
    for pk in known:
        actions.enrol_robot(id=pk, name=pk, site=site, brand=brand, by=SYSTEM)
    release = uuid.uuid4()  # on its way still: it must not come after the stop
    Command.objects.create(id=release, robot_id="RB-002", kind="robot.release", body="{}", created_at=START)
    held, free = threading.Event(), threading.Event()
    order = []
    send = holding.send_stop
    monkeypatch.setattr(holding, "send_stop", lambda change: order.append(change.row.pk) or send(change))

    def hold():
        with transaction.atomic():
            Robot.objects.select_for_update(no_key=True).get(pk="RB-002")
            held.set()
            free.wait(10)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    ahead = stopping._send_ahead

    def then_let_go(robots, *more):
        assert (robots, order) == (["RB-002"], [pk for pk in known if pk != "RB-002"])
        ahead(robots, *more)
        assert not Hold.objects.filter(robot="RB-002").exists()
        assert Command.objects.get(pk=release).state == "withdrawn"
        [stop] = Command.objects.filter(robot="RB-002").exclude(pk=release)
        assert (stop.kind, stop.state, json.loads(stop.asker)["actor_name"]) == ("robot.stop", "open", "test")
        free.set()

    monkeypatch.setattr(stopping, "_send_ahead", then_let_go)
    assert stopping.stop_robots(known, by=SYSTEM) == dict.fromkeys(known, "stopping")
    holder.join()
    assert order[-1] == "RB-002"
    assert Hold.objects.count() == 5
    assert states("robot.stop").count("open") == 5  # what was sent ahead is replaced by the stop of the hold


def test_an_alert_is_open_until_its_word_or_somebody_asks_again(stop):
    asked = stop().created_at
    passes(15)
    [alert] = Alert.objects.filter(cleared_at=None)
    assert (alert.severity, alert.cause) == ("critical", f"stop_late:robot:{ROBOT}")
    passes(40)
    told(StoodStill(7, 1, asked), START + timedelta(seconds=60))
    assert not Alert.objects.filter(cleared_at=None).exists()


def test_of_very_many_robots_the_last_is_told_before_the_holds_of_the_first_are_written(
    robot, other_robot, site, brand, monkeypatch
):
    """5,000 holds take seconds; a stop must not wait for them (I13)."""
    actions.enrol_robot(id="RB-003", name="Cora", site=site, brand=brand, by=SYSTEM)
    monkeypatch.setattr(stopping, "MANY", 1)
    told: list[set[str]] = []
    tell_each = stopping.tell_each

    def writing(*args, **kwargs):
        told.append(set(Command.objects.filter(kind="robot.stop").values_list("robot_id", flat=True)))
        return tell_each(*args, **kwargs)

    monkeypatch.setattr(stopping, "tell_each", writing)
    said = stopping.stop_robots(["RB-001", "RB-002", "RB-003"], by=SYSTEM)
    assert told == [{"RB-002", "RB-003"}] and set(said.values()) == {"stopping"}
    assert Hold.objects.filter(released_at=None).count() == 3
    assert sorted(Command.objects.filter(state="open").values_list("robot_id", flat=True)) == [
        "RB-001",
        "RB-002",
        "RB-003",
    ]
