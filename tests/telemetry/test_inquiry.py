"""After a start or an outage a robot with an open mission is asked before its deadlines count."""

import pytest
from redis.exceptions import ConnectionError

from fleet.models import Command, Event, Hold
from fleet.robots import actions as robots
from fleet.robots import stopping
from missions.models import Mission
from telemetry.stream import Streams
from telemetry.worker.inquiry import ANSWER_S, QUERY
from telemetry.worker.loop import GRACE_S
from tests.actors import SYSTEM, online
from tests.telemetry.robots_talk import message, say, work

P = "RB-001"


@pytest.fixture
def overdue(worker, clock, dispatched):
    """Its first step is long due, and the site has been away: the grace begins."""
    say(message(P, "mission.accepted", mission=dispatched))
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    clock.advance(ANSWER_S)
    worker._reopen(worker.fences, clock.tick)
    mission = Mission.objects.get(pk=dispatched.pk)
    Command.objects.filter(kind=QUERY).update(state="withdrawn")
    clock.now = mission.step_due_at
    worker.deadlines.clocks._offset = None  # the same moment, in another year
    clock.advance(2)
    work(worker, clock)
    return mission


def asked() -> list[Command]:
    return list(Command.objects.filter(kind=QUERY, state="open"))


def timed_out() -> bool:
    return Event.objects.filter(kind="mission.step_timeout").exists()


def answer(question: Command, seq: int = 9, **data) -> dict:
    about = {"mode": "running", "mission": str(question.mission), "dispatch_no": 1, "reply_to": str(question.pk)}
    return message(P, "robot.state", seq, data=about | data)


def test_it_is_asked_once_after_the_grace_and_nothing_fires_until_it_answers(worker, clock, overdue):
    assert asked() == []  # it may still be reconnecting
    clock.advance(GRACE_S)
    work(worker, clock)
    [question] = asked()
    assert (question.robot_id, question.mission, question.dispatch_no) == (P, overdue.pk, 1)
    clock.advance(2)
    work(worker, clock)
    assert (asked(), timed_out()) == ([question], False)
    say(answer(question), at=clock.now)
    work(worker, clock)
    clock.advance(0.3)
    work(worker, clock)
    assert timed_out()


def test_what_it_repeats_before_its_answer_counts_before_the_deadline(worker, clock, overdue):
    clock.advance(GRACE_S)
    work(worker, clock)
    [question] = asked()
    say(
        message(P, "mission.step_completed", 2, mission=overdue, step=1, attempt=1), answer(question, 3), at=clock.now
    )  # fmt: skip
    work(worker, clock)
    clock.advance(0.3)
    work(worker, clock)
    assert not timed_out()
    assert Mission.objects.get(pk=overdue.pk).current_step == 2


def test_a_state_that_answers_nothing_does_not_end_the_waiting(worker, clock, overdue):
    clock.advance(GRACE_S)
    work(worker, clock)
    say(message(P, "robot.state", 9, data={"mode": "running"}), at=clock.now)
    work(worker, clock)
    clock.advance(1)
    work(worker, clock)
    assert not timed_out()


def test_a_robot_that_does_not_answer_is_waited_for_five_seconds(worker, clock, overdue):
    clock.advance(GRACE_S)
    work(worker, clock)
    clock.advance(ANSWER_S - 0.1)
    work(worker, clock)
    assert not timed_out()
    clock.advance(0.4)
    work(worker, clock)
    assert timed_out()


def test_an_offline_robot_is_not_asked(worker, clock, overdue):
    online(P, "offline", at=clock.now)
    clock.advance(GRACE_S)
    work(worker, clock)
    assert timed_out()
    assert len(asked()) == 1  # by that deadline itself


def test_a_question_that_still_waits_to_be_sent_is_not_asked_twice(worker, clock, overdue):
    for _ in range(3):
        clock.advance(GRACE_S)
        work(worker, clock)
        worker._reopen(worker.fences, clock.tick)
    assert len(asked()) == 1


def test_a_robot_without_an_open_mission_is_not_asked(worker, clock, robot):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    assert asked() == []


def test_without_the_durable_redis_a_stop_is_told_again_and_said_to_be_unconfirmed(worker, clock, overdue, monkeypatch):
    def away(*_):
        raise ConnectionError("refused")

    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    clock.advance(GRACE_S + ANSWER_S)
    work(worker, clock)
    monkeypatch.setattr(Streams, "progress", away)
    monkeypatch.setattr(Streams, "read_new", away)
    version = Mission.objects.get(pk=overdue.pk).version
    stopping.stop_robot(P, by=SYSTEM)
    began, seen = clock.now, {}
    for _ in range(25):
        clock.advance(1)
        worker.step(clock.now, clock.tick)
        for kind in Event.objects.filter(aggregate=f"robot:{P}").values_list("kind", flat=True):
            seen.setdefault(kind, (clock.now - began).total_seconds())
    assert seen["robot.stop_resent"] == 8  # its word takes up to three seconds past the stream
    assert 15 <= seen["robot.stop_unconfirmed"] <= 21
    assert Hold.objects.get(kind="stopped").unconfirmed_at
    since = Event.objects.filter(aggregate=f"mission:{overdue.pk}", seq__gt=version)
    assert [event.kind for event in since] == ["mission.held"]  # what could end it waits for the stream


def test_a_worker_that_has_just_begun_does_not_say_so_at_once(worker, clock, robot, monkeypatch):
    def away(*_):
        raise ConnectionError("refused")

    monkeypatch.setattr(robots.timezone, "now", lambda: clock.now)
    stopping.stop_robot(P, by=SYSTEM)
    clock.advance(60)
    monkeypatch.setattr(Streams, "progress", away)
    worker.step(clock.now, clock.tick)
    clock.advance(GRACE_S - 1)
    worker.step(clock.now, clock.tick)
    assert not Event.objects.filter(kind="robot.stop_unconfirmed").exists()  # its word may wait at a link being made
    clock.advance(2)
    worker.step(clock.now, clock.tick)
    assert Event.objects.filter(kind="robot.stop_unconfirmed").exists()
