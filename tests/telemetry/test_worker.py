"""What robots say is applied once, acknowledged after it is kept, whatever dies in between (I2, I3, I4)."""

from datetime import datetime

import pytest
from django.db import connection
from django.utils import timezone

from fleet.models import Command, CommandState, Event, Robot
from missions.models import DeadLetter, Mission
from telemetry import partitions, stream, translate
from telemetry.frames import delivered
from telemetry.gateways.rows import open_session
from telemetry.models import Link, Partition, ProcessedMessage, WorkerProcess
from telemetry.worker import batch
from telemetry.worker.loop import GRACE_S, Worker
from telemetry.worker.messages import BATCH_LEAST, BATCH_S
from tests.telemetry.robots_talk import NOW, message, say, whole_life, work


class Killed(BaseException):
    """As SIGKILL: nothing in the worker may catch it."""


def kinds(mission) -> list[str]:
    return list(Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq").values_list("kind", flat=True))


def pending(durable) -> int:
    return sum(
        durable.xpending(name, stream.GROUP)["pending"] for name in durable.keys("in:*") if durable.xinfo_groups(name)
    )


def test_a_mission_runs_from_accepted_to_success(worker, clock, dispatched, durable):
    say(*whole_life(dispatched, 3))
    work(worker, clock)
    done = Mission.objects.get(pk=dispatched.pk)
    assert (done.state, done.current_step) == ("success", 3)
    assert kinds(dispatched)[-7:] == [
        "mission.started", "mission.step_completed", "mission.step_started", "mission.step_completed",
        "mission.step_started", "mission.step_completed", "mission.succeeded",
    ]  # fmt: skip
    assert pending(durable) == 0
    assert set(ProcessedMessage.objects.values_list("verdict", flat=True)) == {"applied"}


def test_events_name_the_robot_and_the_message(worker, clock, dispatched):
    """I8, for what robots say."""
    accepted = message("RB-001", "mission.accepted", mission=dispatched)
    say(accepted)
    work(worker, clock)
    event = Event.objects.get(kind="mission.started")
    assert (event.actor_kind, event.actor_id, event.actor_name) == ("robot", "RB-001", "Ella")
    assert (event.cause, len(event.trace_id)) == (f"message:{accepted['msg_id']}", 32)
    assert (event.recorded_at, event.occurred_at) == (NOW, datetime.fromisoformat(accepted["occurred_at"]))


def test_a_resend_after_the_window_has_no_second_effect(worker, clock, dispatched, durable):
    accepted = message("RB-001", "mission.accepted", mission=dispatched)
    assert say(accepted) == ["stored"]
    work(worker, clock)
    durable.delete(*durable.keys("seen:*"))
    assert say(accepted, accepted) == ["stored", "duplicate"]
    version = Mission.objects.get(pk=dispatched.pk).version
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).version == version
    assert ProcessedMessage.objects.count() == 1
    assert pending(durable) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["before_decide", "before_commit", "before_ack"])
def test_a_worker_killed_anywhere_loses_nothing_and_doubles_nothing(where, dispatched, durable, clock):
    def die(here: str) -> None:
        if here == where:
            raise Killed

    say(*whole_life(dispatched, 3))
    victim = Worker(name="victim", hook=die)
    with pytest.raises(Killed):
        victim.step(clock.now, clock.tick)
    victim.streams.close()
    committed = Mission.objects.get(pk=dispatched.pk).state == "success"
    assert committed is (where == "before_ack")
    Partition.objects.update(until=timezone.now() - timezone.timedelta(seconds=9))
    WorkerProcess.objects.update(until=timezone.now() - timezone.timedelta(seconds=9))
    heir = Worker(name="heir")
    work(heir, clock)
    heir.streams.close()
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    assert kinds(dispatched).count("mission.succeeded") == 1
    assert (pending(durable), ProcessedMessage.objects.count()) == (0, 5)


def test_after_a_redelivery_messages_are_applied_one_at_a_time(worker, clock, dispatched, monkeypatch):
    say(*whole_life(dispatched, 3))
    thief = stream.Streams(stream.settings.REDIS_URL)
    thief.ensure_groups([stream.partition_of("RB-001")])
    thief.read_new([stream.partition_of("RB-001")], 100, None)
    thief.close()
    sizes = []
    apply = batch.apply
    monkeypatch.setattr(
        batch, "apply", lambda p, f, entries, **kw: (sizes.append(len(entries)), apply(p, f, entries, **kw))[1]
    )
    work(worker, clock)
    assert sizes == [1] * 5
    assert Mission.objects.get(pk=dispatched.pk).state == "success"


def test_entries_that_a_frozen_owner_was_handed_are_found_without_a_change_of_owner(worker, clock, dispatched):
    work(worker, clock)
    say(message("RB-001", "mission.accepted", mission=dispatched))
    zombie = stream.Streams(stream.settings.REDIS_URL)
    zombie.read_new([stream.partition_of("RB-001")], 100, None)
    zombie.close()
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "pending"
    clock.advance(1.0)
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"


def test_a_worker_that_lost_its_partition_in_the_middle_writes_nothing(worker, clock, dispatched, durable):
    work(worker, clock)
    partitions.Partitions("other", worker.partitions.count, lease_s=600).tend()
    Partition.objects.update(owner="other", fence=99, until=timezone.now() + timezone.timedelta(hours=1))
    say(message("RB-001", "mission.accepted", mission=dispatched))
    worker.step(clock.now, clock.tick)
    assert Mission.objects.get(pk=dispatched.pk).state == "pending"
    assert pending(durable) == 1  # left for the new owner
    worker.step(clock.now, clock.tick)
    assert worker.fences == {}


def test_a_message_about_another_robots_mission_changes_nothing(worker, clock, dispatched, other_robot):
    say(message("RB-002", "mission.accepted", mission=dispatched))
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "pending"
    assert ProcessedMessage.objects.get().verdict == "stale"


def test_a_robots_ack_of_a_command_marks_it_delivered(worker, clock, dispatched):
    command = Command.objects.get(kind="mission.assign")
    _, raw = delivered(command.pk, "RB-001", NOW)
    say(raw)
    work(worker, clock)
    command.refresh_from_db()
    assert (command.state, command.delivered_at) == (CommandState.DELIVERED, NOW)
    assert Mission.objects.get(pk=dispatched.pk).delivered_at == NOW
    assert not DeadLetter.objects.exists()


def test_a_lost_stream_is_made_anew_and_an_alarm_is_logged(worker, clock, dispatched, durable, caplog):
    work(worker, clock)
    durable.flushdb()
    say(message("RB-001", "mission.accepted", mission=dispatched))
    worker.step(clock.now, clock.tick)
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    assert [r.levelname for r in caplog.records if "lost" in r.message] == ["CRITICAL"]
    assert worker.open_from[stream.partition_of("RB-001")] > clock.tick


def test_robots_whose_stored_messages_are_lost_are_sent_back_to_repeat_them(
    worker, clock, dispatched, other_robot, durable, caplog
):
    assert stream.partition_of("RB-001") != stream.partition_of("RB-002")
    work(worker, clock)
    for robot in ("RB-001", "RB-002"):
        open_session(robot, "here:1")
    clock.advance(1.5)
    work(worker, clock)
    assert set(Link.objects.values_list("gateway", flat=True)) == {"here:1"}
    say(message("RB-001", "mission.accepted", mission=dispatched))  # stored, and lost before it is applied
    durable.delete(stream.key(stream.partition_of("RB-001")))
    worker.close()
    work(Worker(name="next"), clock)  # also when no worker saw it happen
    assert dict(Link.objects.values_list("robot_id", "gateway")) == {"RB-001": "", "RB-002": "here:1"}
    assert [r.levelname for r in caplog.records if "sent back" in r.message] == ["CRITICAL"]


def test_a_stream_that_is_lost_while_entries_are_pending_is_made_anew_too(
    worker, clock, dispatched, durable, monkeypatch
):
    work(worker, clock)
    say(message("RB-001", "robot.fault_cleared", 1, data={"code": "E"}))
    monkeypatch.setattr(translate, "tell", lambda *_: 1 / 0)
    worker.step(clock.now, clock.tick)  # now it is pending
    monkeypatch.undo()
    durable.flushdb()
    say(message("RB-001", "mission.accepted", mission=dispatched))
    worker.step(clock.now, clock.tick)
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"


def test_what_is_in_hand_is_not_taken_for_what_a_former_owner_left(worker, clock, dispatched, monkeypatch):
    work(worker, clock)
    say(*whole_life(dispatched, 3))
    worker._fetch(wait=False)
    sizes, apply = [], batch.apply
    monkeypatch.setattr(batch, "apply", lambda p, f, e, **kw: (sizes.append(len(e)), apply(p, f, e, **kw))[1])
    clock.advance(1.5)  # time to look
    worker.step(clock.now, clock.tick)
    assert sizes == [5]


def test_when_redis_is_away_the_worker_says_so_once_keeps_its_partitions_and_goes_on(worker, clock, dispatched, caplog):
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    whole = worker.streams.redis
    worker.streams.redis = stream.redis.from_url("unix:///nowhere/at-all.sock")
    for _ in range(5):
        clock.advance(0.5)
        assert worker.step(clock.now, clock.tick) is False
        assert worker.pause_s > 0
    assert len([r for r in caplog.records if "does not answer" in r.message]) == 1
    assert len(worker.fences) == worker.partitions.count
    worker.streams.redis = whole
    say(message("RB-001", "mission.accepted", mission=dispatched))
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    assert worker.open_from[0] > clock.tick  # robots get their time to reconnect


@pytest.mark.django_db(transaction=True)
def test_a_database_connection_that_breaks_costs_a_try_and_no_message(dispatched, durable, clock):
    worker = Worker(name="one")
    work(worker, clock)
    say(message("RB-001", "mission.accepted", mission=dispatched))
    connection.connection.close()
    assert worker.step(clock.now, clock.tick) is False
    work(worker, clock)
    worker.close()
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"


def test_a_planned_stop_gives_the_partitions_back(worker, clock):
    work(worker, clock)
    assert worker.fences
    worker.stopping.set()
    worker.run()
    assert not Partition.objects.exclude(owner="").exists()


def test_what_is_acknowledged_is_trimmed_in_time(worker, clock, dispatched, durable):
    durable.config_set("stream-node-max-entries", 1)
    try:
        say(*whole_life(dispatched, 3))
        work(worker, clock)
        clock.advance(60)
        work(worker, clock)
        assert sum(durable.xlen(name) for name in durable.keys("in:*")) == 0
    finally:
        durable.config_set("stream-node-max-entries", 100)


def test_a_lost_race_is_tried_again_and_never_counted(worker, clock, dispatched, monkeypatch):
    from fleet.commit import Conflict
    from telemetry.models import FailedTry

    races = iter([Conflict("somebody was faster")] * 3)
    tell = translate.tell

    def raced(*args):
        for race in races:
            raise race
        return tell(*args)

    monkeypatch.setattr(translate, "tell", raced)
    say(message("RB-001", "mission.accepted", mission=dispatched))
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    assert not FailedTry.objects.exists()


def test_the_robots_mode_follows_its_newest_word(worker, clock, robot):
    say(
        message("RB-001", "robot.state", 2, data={"mode": "charging"}),
        message("RB-001", "robot.state", 1, data={"mode": "idle"}),
    )
    work(worker, clock)
    assert Robot.objects.get().mode == "charging"
    assert sorted(ProcessedMessage.objects.values_list("seq", "verdict")) == [(1, "stale"), (2, "applied")]


def test_a_share_of_the_partitions_is_enough_for_a_share_of_the_robots(worker, clock, dispatched):
    work(worker, clock)
    partitions.Partitions("zzz", worker.partitions.count, lease_s=600).tend()  # lives, has none yet
    clock.advance(1)
    work(worker, clock)
    assert len(worker.fences) == worker.partitions.count // 2
    say(message("RB-001", "mission.accepted", mission=dispatched))
    work(worker, clock)
    mine = stream.partition_of("RB-001") in worker.fences
    assert (Mission.objects.get(pk=dispatched.pk).state == "executing") is mine


def test_partitions_that_come_later_are_no_alarm(worker, clock, durable, caplog):
    other = partitions.Partitions("other", worker.partitions.count, lease_s=600)
    other.tend()
    work(worker, clock)
    assert worker.fences == {}
    other.tend()  # sees that it is not alone
    clock.advance(1)
    work(worker, clock)
    assert worker.fences
    assert not [r for r in caplog.records if r.levelname == "CRITICAL"]


def test_a_name_is_unique_to_a_process():
    assert Worker().partitions.owner != Worker().partitions.owner


def test_batches_that_take_long_make_the_next_ones_smaller_and_fast_ones_larger_again(worker, clock, monkeypatch):
    work(worker, clock)  # takes its partitions
    asked = []
    monkeypatch.setattr(worker.streams, "read_new", lambda partitions, count, block_ms: asked.append(count) or {})

    def after(*took_s: float) -> int:
        for one in took_s:
            worker.messages._pace(one)
        worker.messages.fetch(None)
        return asked[-1]

    assert after() == worker.messages.limit
    assert after(BATCH_S * 2) == worker.messages.limit // 2
    assert after(*[BATCH_S * 2] * 20) == BATCH_LEAST
    assert after(*[BATCH_S / 2] * 50) == worker.messages.limit
