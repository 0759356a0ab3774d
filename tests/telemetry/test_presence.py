"""Online while we heard of a robot lately, offline after; no verdict when nobody can know."""

from datetime import timedelta

import pytest

from fleet.brands.actions import edit_brand
from fleet.models import Event, Presence, Robot
from fleet.robots.actions import enrol_robot
from telemetry import snapshots
from telemetry.models import Link
from telemetry.stream import partition_of
from telemetry.worker.loop import GRACE_S
from telemetry.worker.presence import DEAF_GRACE_S, DEAF_S, Sweep, judge, witnessed
from tests.actors import SYSTEM, online
from tests.telemetry.robots_talk import NOW, work


@pytest.fixture
def heard(worker, monkeypatch):
    """What the live Redis would answer; `last` is None when it cannot."""
    worker.sweep = Sweep()
    answer: dict = {"last": {}, "settled": True, "gateways": {}, "deaf": {}, "gone": {}, "unanswered": {}}

    def last_received(ids):
        return None if answer["last"] is None else snapshots.Heard(*answer.values())

    monkeypatch.setattr(snapshots, "last_received", last_received)
    return answer


def presence(robot: str = "RB-001") -> str:
    return Robot.objects.get(pk=robot).presence


def settled(worker, clock) -> None:
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)


@pytest.mark.parametrize(
    ("silent_s", "expected"),
    [(0, "online"), (9, "online"), (9.001, "suspect"), (20, "suspect"), (20.001, "offline"), (None, "offline")],
)
def test_the_lines_between_online_suspect_and_offline(silent_s, expected):
    last = None if silent_s is None else NOW - timedelta(seconds=silent_s)
    assert judge(last, NOW, 9, 20) == expected


EARLIER, LATER = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("verdict", "gone", "unanswered", "expected"),
    [
        ("online", None, None, "online"),
        ("online", LATER, None, "suspect"),
        ("online", EARLIER, None, "online"),
        ("online", NOW, None, "online"),  # at the same moment: it was heard
        ("suspect", LATER, None, "suspect"),
        ("offline", LATER, None, "offline"),
        ("online", None, LATER, "offline"),
        ("suspect", LATER, LATER, "offline"),
        ("online", None, EARLIER, "online"),
    ],
)
def test_what_witnesses_add_to_what_its_silence_says(verdict, gone, unanswered, expected):
    """Whatever somebody saw before it was heard again counts for nothing."""
    assert witnessed(Presence(verdict), NOW, gone, unanswered) == expected


def test_a_silent_robot_goes_offline_and_comes_back_with_its_first_word(worker, clock, robot, other_robot, heard):
    heard["last"] = {"RB-001": NOW, "RB-002": NOW + timedelta(seconds=60)}
    settled(worker, clock)
    assert (presence(), presence("RB-002")) == ("online", "online")
    clock.advance(9)
    work(worker, clock)
    assert (presence(), presence("RB-002")) == ("suspect", "online")
    clock.advance(11)
    work(worker, clock)
    assert (presence(), presence("RB-002")) == ("offline", "online")
    event = Event.objects.filter(kind="robot.presence_changed").last()
    assert (event.actor_name, NOW.isoformat()[:19] in event.data) == ("presence sweep", True)
    heard["last"]["RB-001"] = clock.now
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"


def test_a_robot_just_enrolled_is_not_offline_before_somebody_could_connect_it(worker, clock, site, brand, heard):
    enrol_robot(id="RB-009", name="New", site=site, brand=brand, by=SYSTEM)
    settled(worker, clock)
    since = Event.objects.get(aggregate="robot:RB-009", kind="robot.enrolled").recorded_at
    clock.now = since + timedelta(seconds=brand.offline_after_s)
    work(worker, clock)
    assert (presence("RB-009"), Robot.objects.get(pk="RB-009").presence_since) == ("unknown", None)
    clock.advance(1)
    work(worker, clock)
    assert presence("RB-009") == "offline"


def test_the_brand_says_how_long_silence_may_last(worker, clock, robot, brand, heard):
    edit_brand(brand.pk, offline_after_s=3, suspect_after_s=2, by=SYSTEM)
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"
    clock.advance(3)
    work(worker, clock)
    assert presence() == "offline"


def test_without_the_live_redis_the_link_is_unknown_and_nobody_is_offline(worker, clock, robot, heard):
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    clock.advance(1)
    work(worker, clock)
    heard["last"] = None
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"  # a hiccup
    clock.advance(DEAF_S)
    work(worker, clock)
    assert presence() == "unknown"
    clock.advance(3600)
    work(worker, clock)
    assert presence() == "unknown"
    heard["last"] = {"RB-001": NOW}  # it is back, and has heard nobody meanwhile
    clock.advance(GRACE_S)
    work(worker, clock)
    assert presence() == "unknown"
    clock.advance(snapshots.GRACE_S)
    work(worker, clock)
    assert presence() == "offline"


def test_what_is_offline_stays_so_when_nobody_can_know(worker, clock, robot, heard):
    online("RB-001", "offline")
    heard["last"] = None
    for _ in range(3):
        clock.advance(GRACE_S)
        work(worker, clock)
    assert presence() == "offline"


def of_gateway(name: str) -> None:
    Link.objects.create(robot_id="RB-001", session=1, gateway=name)


@pytest.mark.parametrize("name", ["here:1", "http"])
def test_while_its_gateway_is_dead_a_robots_silence_is_not_its_own(worker, clock, robot, heard, name):
    heard["last"] = {"RB-001": NOW}
    settled(worker, clock)
    of_gateway(name)
    heard["gateways"] = {"here:1": clock.now}
    clock.advance(20)
    work(worker, clock)
    assert presence() == "unknown"
    clock.advance(snapshots.GRACE_S - 0.1)
    work(worker, clock)
    assert presence() == "unknown"
    heard["last"] = {"RB-001": clock.now}  # it has found another
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"


def test_after_the_grace_it_should_have_found_another_gateway(worker, clock, robot, heard):
    heard["last"] = {"RB-001": NOW}
    settled(worker, clock)
    of_gateway("here:1")
    heard["gateways"] = {"here:1": clock.now}
    clock.advance(20)
    work(worker, clock)
    clock.advance(snapshots.GRACE_S + 1)
    work(worker, clock)
    assert presence() == "offline"


@pytest.mark.parametrize("beats", [{}, {"there:2": NOW}, {"here:1": NOW + timedelta(seconds=30)}])
def test_a_closed_socket_is_silence_whose_gateway_lives_or_ended_in_order(worker, clock, robot, heard, beats):
    heard["last"], heard["gateways"] = {"RB-001": NOW}, beats
    settled(worker, clock)
    of_gateway("here:1")
    clock.advance(15)
    work(worker, clock)
    assert presence() == "offline"


def test_silence_counts_only_after_the_grace_but_a_word_counts_at_once(worker, clock, robot, other_robot, heard):
    online("RB-002", "offline")
    heard["last"] = {"RB-002": NOW}
    work(worker, clock)
    assert (presence(), presence("RB-002")) == ("online", "online")
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    assert presence() == "offline"


def test_a_live_redis_that_lost_its_data_shows_who_speaks_and_nobody_as_silent(
    worker, clock, robot, other_robot, heard
):
    online("RB-002", "offline")
    heard.update(last={"RB-002": clock.now}, settled=False)
    settled(worker, clock)
    assert (presence(), presence("RB-002")) == ("unknown", "online")
    heard.update(last={}, settled=True)
    clock.advance(1)
    work(worker, clock)
    assert presence() == "offline"


def test_a_retired_robot_is_not_judged(worker, clock, robot, heard):
    from fleet.robots.actions import retire_robot

    retire_robot("RB-001", by=SYSTEM)
    settled(worker, clock)
    assert presence() == "online"


def test_an_offline_robots_mission_hears_of_it(worker, clock, dispatched, heard):
    settled(worker, clock)
    kinds = Event.objects.filter(aggregate=f"mission:{dispatched.pk}").values_list("kind", flat=True)
    assert "mission.robot_lost" in kinds


def test_one_robot_whose_change_raises_does_not_hold_up_the_others(
    worker, clock, robot, other_robot, heard, monkeypatch
):
    from telemetry import translate

    told = translate.presence

    def raising(ledger, robot_id, *rest):
        if robot_id == "RB-001":
            raise ZeroDivisionError("a bug")
        return told(ledger, robot_id, *rest)

    monkeypatch.setattr(translate, "presence", raising)
    monkeypatch.setattr("telemetry.worker.presence.partition_of", lambda robot_id: 0)
    settled(worker, clock)
    assert (presence(), presence("RB-002")) == ("online", "offline")


def test_a_sweep_asks_the_database_once_when_nothing_changes(worker, clock, robot, heard, django_assert_num_queries):
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    worker.sweep.step(clock.now, clock.tick, worker.fences, worker.open_from)
    with django_assert_num_queries(1):
        worker.sweep.step(clock.now, clock.tick, worker.fences, worker.open_from)


def test_robots_of_partitions_that_are_not_ours_are_left_alone(worker, clock, robot, heard):
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    mine = {p: fence for p, fence in worker.fences.items() if p != partition_of("RB-001")}
    assert worker.sweep.step(clock.now, clock.tick, mine, worker.open_from) is False
    assert presence() == "offline"
    assert worker.sweep.step(clock.now, clock.tick, worker.fences, worker.open_from) is True
    assert presence() == "online"


def test_whose_link_was_seen_to_end_is_suspect_at_once_until_it_is_heard_again(worker, clock, robot, heard):
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    heard["gone"] = {"RB-001": clock.now + timedelta(milliseconds=1)}
    clock.advance(1)
    work(worker, clock)
    assert presence() == "suspect"
    heard["last"] = {"RB-001": clock.now}
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"


def test_who_does_not_answer_on_a_link_that_works_is_offline_until_it_is_heard_again(worker, clock, robot, heard):
    settled(worker, clock)
    heard["last"] = {"RB-001": clock.now}
    heard["unanswered"] = {"RB-001": clock.now + timedelta(milliseconds=1)}
    clock.advance(1)
    work(worker, clock)
    assert presence() == "offline"
    heard["last"] = {"RB-001": clock.now}
    clock.advance(1)
    work(worker, clock)
    assert presence() == "online"


def test_while_a_gateway_hears_nobody_and_for_a_while_after_the_silence_is_not_its_robots(worker, clock, robot, heard):
    settled(worker, clock)
    Link.objects.create(robot=robot, session=1, gateway="drover-hall")
    heard["last"] = {"RB-001": clock.now}
    work(worker, clock)
    for _ in range(60):
        clock.advance(1)
        heard["gateways"] = heard["deaf"] = {"drover-hall": clock.now}
        work(worker, clock)
        assert presence() in ("online", "unknown")
    assert presence() == "unknown"
    for _ in range(int(DEAF_GRACE_S) - 1):
        clock.advance(1)
        heard["gateways"] = {"drover-hall": clock.now}
        work(worker, clock)
    assert presence() == "unknown"
    clock.advance(2)
    work(worker, clock)
    assert presence() == "offline"
