"""A deadline fires when, and only when, nothing that came in time can still be on its way (I6)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import Command, Event, Robot
from fleet.robots import actions as robots
from fleet.robots import stopping
from missions import actions, drawing_up
from missions.models import Mission
from telemetry import stream, translate
from telemetry.models import Partition
from telemetry.worker.inquiry import ANSWER_S
from telemetry.worker.loop import GRACE_S
from telemetry.worker.postponed import Postponed
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import message, say, work

P = "RB-001"


@pytest.fixture
def running(worker, clock, dispatched):
    """Accepted at NOW; the first step is due a known time later; the worker has had its grace."""
    say(message(P, "mission.accepted", mission=dispatched))
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    return Mission.objects.get(pk=dispatched.pk)


def kinds() -> list[str]:
    return list(Event.objects.filter(aggregate__startswith="mission:").values_list("kind", flat=True))


def until(clock, moment, plus: float = 0.0) -> None:
    clock.advance((moment - clock.now).total_seconds() + plus)


def test_a_passed_deadline_fires_a_second_after_its_time(worker, clock, running):
    until(clock, running.step_due_at, 0.9)
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()  # what came in time may not be in the stream yet
    clock.advance(0.3)
    work(worker, clock)
    assert kinds().count("mission.step_timeout") == 1
    event = Event.objects.get(kind="mission.step_timeout")
    assert (event.actor_kind, event.cause) == ("deadline", "deadline:step")


def test_it_does_not_fire_while_something_older_is_not_applied(worker, clock, running, monkeypatch):
    until(clock, running.step_due_at, 2)
    monkeypatch.setattr(worker.messages, "limit", 1)
    in_time = running.step_due_at - timedelta(seconds=1)
    say(*(message(P, "robot.fault_cleared", n, data={"code": "E"}) for n in (2, 3, 4)), at=in_time)
    say(message(P, "mission.step_completed", 5, mission=running, step=1, attempt=1), at=in_time)
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()
    assert Mission.objects.get(pk=running.pk).current_step == 2  # came in time, counts though applied late


def test_a_handed_out_entry_that_is_not_acknowledged_holds_it(worker, clock, running):
    until(clock, running.step_due_at, 2)
    say(message(P, "mission.step_completed", 2, mission=running, step=1, attempt=1), at=running.step_due_at)
    zombie = stream.Streams(stream.settings.REDIS_URL)
    zombie.read_new([stream.partition_of(P)], 100, None)  # a former owner, frozen
    zombie.close()
    worker._next["look"] = clock.tick + 100  # not found yet
    worker.step(clock.now, clock.tick)
    assert "mission.step_timeout" not in kinds()
    worker._next.pop("look")
    work(worker, clock)
    assert Mission.objects.get(pk=running.pk).current_step == 2


def test_under_a_steady_stream_it_fires_once_the_position_of_its_time_is_applied(worker, clock, running):
    until(clock, running.step_due_at, 2)
    deadlines, fences = worker.deadlines, worker.fences
    say(message(P, "robot.fault_cleared", 2, data={"code": "E"}))  # always something new
    deadlines.step(clock.now, clock.tick, fences, worker.open_from)
    assert "mission.step_timeout" not in kinds()
    worker.messages.new(clock.now)
    say(message(P, "robot.fault_cleared", 3, data={"code": "E"}))
    deadlines.step(clock.now, clock.tick, fences, worker.open_from)
    assert "mission.step_timeout" in kinds()


def test_after_taking_a_partition_robots_get_time_to_reconnect(worker, clock, running):
    Partition.objects.update(owner="other", fence=50, until=timezone.now() - timedelta(hours=1))  # lost and free
    until(clock, running.step_due_at, 2)
    work(worker, clock)
    clock.advance(1)
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()
    clock.advance(GRACE_S)
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()  # it is asked first
    clock.advance(ANSWER_S)
    work(worker, clock)
    assert "mission.step_timeout" in kinds()


def test_when_the_wall_clock_jumps_ahead_no_deadline_comes_early(worker, clock, running, caplog):
    until(clock, running.step_due_at, -10)
    work(worker, clock)
    clock.now += timedelta(hours=1)
    clock.advance(1)
    work(worker, clock)
    assert "clock jumped" in caplog.text
    clock.advance(GRACE_S + 2)  # it has been checked; two of the ten seconds are left
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()
    assert not worker.deadlines.step(clock.now, clock.tick, worker.fences, worker.open_from)  # no work at all
    clock.advance(4)
    work(worker, clock)
    assert "mission.step_timeout" in kinds()
    assert "mission.timeout" not in kinds()  # its nine minutes go on as well


def test_a_deadline_that_was_set_after_the_jump_is_not_postponed(worker, clock, running):
    clock.now += timedelta(hours=1)
    clock.advance(1)
    work(worker, clock)
    say(message(P, "mission.step_completed", 2, mission=running, step=1, attempt=1), at=clock.now)
    work(worker, clock)
    until(clock, Mission.objects.get(pk=running.pk).step_due_at, 2)
    work(worker, clock)
    assert "mission.step_timeout" in kinds()


def test_when_the_wall_clock_jumps_back_no_deadline_comes_late(worker, clock, running, caplog):
    until(clock, running.step_due_at, -10)
    work(worker, clock)
    clock.now -= timedelta(hours=1)
    clock.advance(1)
    work(worker, clock)
    assert "clock jumped" in caplog.text
    clock.advance(GRACE_S + 2)  # two of the ten seconds are left
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()
    clock.advance(4)
    work(worker, clock)
    assert kinds().count("mission.step_timeout") == 1 and "mission.timeout" not in kinds()
    assert not worker.deadlines.step(clock.now, clock.tick, worker.fences, worker.open_from)  # it passes once
    asked = Mission.objects.get(pk=running.pk)
    assert clock.now < asked.answer_due_at < clock.now + timedelta(minutes=1)  # what follows goes by the clock as it is


def test_a_mission_ends_in_time_though_the_clock_was_put_back_an_hour(worker, clock, running):
    """Its robot says nothing any more: the whole way from the step's time to “stop not confirmed” takes no hour longer."""
    until(clock, running.step_due_at, -10)
    work(worker, clock)
    clock.now -= timedelta(hours=1)
    for _ in range(40):
        clock.advance(3)
        work(worker, clock)
    mission = Mission.objects.get(pk=running.pk)
    assert (mission.state, mission.abort_reason, mission.stop_confirmed) == ("aborted", "timeout", False)


def test_a_stop_that_waits_for_its_word_is_said_to_be_unconfirmed_though_the_clock_was_put_back(
    worker, clock, robot, monkeypatch
):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    work(worker, clock)
    clock.now -= timedelta(hours=1)
    for _ in range(12):
        clock.advance(3)
        work(worker, clock)
    assert Event.objects.filter(kind="robot.stop_unconfirmed").exists()


def test_two_jumps_add_up(worker, clock, running):
    until(clock, running.step_due_at, -10)
    work(worker, clock)
    for _ in range(2):
        clock.now += timedelta(minutes=5)
        clock.advance(1)
        work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    assert "mission.step_timeout" not in kinds()
    clock.advance(5)
    work(worker, clock)
    assert "mission.step_timeout" in kinds()


def test_after_a_jump_all_that_waits_on_is_looked_at_in_one_query_for_each_kind(
    dispatched, other_robot, django_assert_num_queries
):
    for robot in (P, other_robot.pk):
        stopping.stop_robot(robot, by=SYSTEM)
    keys, stop = [P, dispatched.pk, other_robot.pk], Robot.objects.get(pk=P).stop_due_at
    postponed = Postponed()
    with django_assert_num_queries(0):
        assert postponed.resting(keys, stop) == set()  # no clock has jumped
    postponed.jumped(3600)
    with django_assert_num_queries(2):
        assert postponed.resting(keys, stop + timedelta(minutes=10)) == set(keys)
    with django_assert_num_queries(2):
        assert postponed.resting(keys[:2], stop + timedelta(hours=1)) == {dispatched.pk}
    with django_assert_num_queries(0):
        assert postponed.resting(keys, stop + timedelta(hours=9)) == set()  # all have waited enough


def test_the_deadline_of_one_mission_that_raises_does_not_hold_up_the_others(
    worker, clock, running, monkeypatch, caplog
):
    calls, due = [], translate.due

    def raising(ledger, mission_id, now, *_):
        calls.append(mission_id)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(translate, "due", raising)
    until(clock, running.step_due_at, 2)
    work(worker, clock)
    assert len(calls) == 1
    clock.advance(1)
    work(worker, clock)
    assert len(calls) == 1  # left alone for a while
    monkeypatch.setattr(translate, "due", due)
    clock.advance(60)
    work(worker, clock)
    assert "mission.step_timeout" in kinds()


def test_deadlines_that_follow_count_from_now_however_late_the_worker_is(worker, clock, running):
    until(clock, running.step_due_at, 300)
    worker.step(clock.now, clock.tick)
    asked = Mission.objects.get(pk=running.pk)
    assert asked.answer_due_at > clock.now  # the robot has just been asked


def test_a_silent_robots_mission_ends_with_a_reason_and_the_robot_is_on_hold(worker, clock, running):
    for _ in range(120):
        clock.advance(1)
        work(worker, clock)
        mission = Mission.objects.get(pk=running.pk)
        if mission.state == "aborted":
            break
    assert (mission.state, mission.abort_reason, mission.stop_confirmed) == ("aborted", "timeout", False)
    assert Robot.objects.get().holds.get().kind == "unconfirmed"


def test_a_worker_leaves_the_deadlines_of_partitions_alone_that_are_not_its_own(worker, clock, running):
    mine = {p: fence for p, fence in worker.fences.items() if p != stream.partition_of(P)}
    until(clock, running.step_due_at, 2)
    assert worker.deadlines.step(clock.now, clock.tick, mine, worker.open_from) is False
    assert worker.deadlines.step(clock.now, clock.tick, worker.fences, worker.open_from) is True
    assert kinds().count("mission.step_timeout") == 1


def test_one_partition_in_its_grace_does_not_open_with_the_others(worker, clock, running):
    until(clock, running.step_due_at, 2)
    open_from = worker.open_from | {stream.partition_of(P): clock.tick + 1}
    assert worker.deadlines.step(clock.now, clock.tick, worker.fences, open_from) is False
    assert "mission.step_timeout" not in kinds()


def test_a_time_that_people_name_comes_when_the_clock_says_so(robot, dispatched):
    """It is not counted from anything that the jump could have cut short."""
    ends = timezone.now() + timedelta(minutes=30)
    steps = [{"command": "navigate", "params": {"place": "Dock A"}}]
    pk = drawing_up.draft_mission(title="Soon", site=robot.site, steps=steps, expires_at=ends, by=SYSTEM)
    postponed = Postponed()
    postponed.jumped(3600)
    assert postponed.resting([pk, dispatched.pk], ends) == {dispatched.pk}


@pytest.fixture
def close(worker, clock, robot):
    """A mission whose step is due a second before the whole of it."""
    steps = [{"command": "navigate", "params": {"place": "Dock A"}, "timeout_s": 60}]
    pk = drawing_up.draft_mission(title="Short", site=robot.site, robot=robot, steps=steps, timeout_s=61, by=SYSTEM)
    actions.dispatch_mission(pk, by=SYSTEM)
    say(message(P, "mission.accepted", mission=Mission.objects.get(pk=pk)))
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    return Mission.objects.get(pk=pk)


def test_of_two_deadlines_close_together_only_the_proven_one_fires(worker, clock, close):
    until(clock, close.step_due_at, 1.5)
    assert close.mission_due_at < clock.now  # passed, but what came in time may not be here yet
    work(worker, clock)
    assert ("mission.step_timeout" in kinds(), "mission.timeout" in kinds()) == (True, False)
    clock.advance(0.6)
    work(worker, clock)
    assert "mission.timeout" in kinds()


def test_what_is_applied_proves_nothing_about_what_came_after_its_position_was_read(worker, clock, close):
    deadlines, fences = worker.deadlines, worker.fences
    until(clock, close.step_due_at, 1.2)
    say(message(P, "robot.fault_cleared", 2, data={"code": "E"}))
    deadlines.step(clock.now, clock.tick, fences, worker.open_from)  # reads how far the stream has come
    worker.messages.new(clock.now)
    clock.advance(1.0)
    say(message(P, "mission.finished", 3, mission=close), at=close.mission_due_at)  # in time, and not applied yet
    deadlines.step(clock.now, clock.tick, fences, worker.open_from)
    assert ("mission.step_timeout" in kinds(), "mission.timeout" in kinds()) == (True, False)


def test_a_stop_without_a_word_is_told_again_and_said_to_be_unconfirmed(worker, clock, robot, monkeypatch):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    began, seen = clock.now, {}
    for _ in range(30):
        clock.advance(1)
        work(worker, clock)
        for kind in Event.objects.filter(aggregate=f"robot:{P}").values_list("kind", flat=True):
            seen.setdefault(kind, (clock.now - began).total_seconds())
    assert seen["robot.stop_resent"] == 6  # a second late: its word might have been on its way
    assert seen["robot.stop_unconfirmed"] == 16
    event = Event.objects.get(kind="robot.stop_unconfirmed")
    assert (event.actor_kind, event.cause) == ("deadline", "deadline:stop")


def test_a_retired_robot_is_told_nothing_again(worker, clock, robot, monkeypatch):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    robots.retire_robot(P, by=SYSTEM)
    clock.advance(30)
    work(worker, clock)
    assert not Event.objects.filter(kind__in=["robot.stop_resent", "robot.stop_unconfirmed"]).exists()


def test_what_a_robot_said_in_time_comes_before_its_deadline(worker, clock, robot, monkeypatch):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    asked = Command.objects.get(kind="robot.stop")
    worker.messages.limit = 1
    clock.advance(7)
    quiet = [message(P, "robot.state", n, data={"mode": "idle"}) for n in range(1, 4)]
    say(*quiet, message(P, "robot.stopped", 4, data={"reply_to": str(asked.pk)}), at=asked.created_at)
    work(worker, clock)
    assert not Event.objects.filter(kind="robot.stop_resent").exists()
    assert Robot.objects.get().holds.get().confirmed_at


def test_the_deadline_of_one_robot_that_raises_does_not_hold_up_the_others(worker, clock, robot, monkeypatch, caplog):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    monkeypatch.setattr(translate, "robot_due", lambda *args: 1 / 0)
    clock.advance(7)
    work(worker, clock)
    assert "a deadline of robot RB-001 could not be applied" in caplog.text
