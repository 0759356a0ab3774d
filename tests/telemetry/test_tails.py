"""A durable Redis that came back without its newest entries is noticed, though stream and group are there (I3)."""

import pytest

from fleet.models import Alert
from missions.models import Mission
from telemetry import stream
from telemetry.gateways.rows import open_session
from telemetry.models import Link, Partition, ProcessedMessage
from telemetry.stream import Streams
from telemetry.worker.loop import Worker
from tests.telemetry.robots_talk import message, say, work

P = "RB-001"
HOME = stream.partition_of(P)
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def server(monkeypatch):
    """Which server answers: replication id, and that of its former primary."""
    said = {"master_replid": OLD, "master_replid2": "0" * 40}
    monkeypatch.setattr(Streams, "replication", lambda self: said)
    return said


@pytest.fixture
def seen(worker, clock, robot, server):
    """A word was applied, the worker has looked, and the robot is connected."""
    open_session(P, "here:1")
    work(worker, clock)
    say(message(P, "robot.state", 1, data={"mode": "idle"}))
    work(worker, clock)
    clock.advance(1)
    work(worker, clock)
    Link.objects.update(gateway="here:1")
    return worker


def sent_back() -> bool:
    return Link.objects.get(pk=P).gateway == ""


def rewound(durable) -> None:
    """As an older disk, or a replica that had not heard of it yet: the stream ends before the entry."""
    durable.delete(stream.key(HOME))
    durable.xgroup_create(stream.key(HOME), stream.GROUP, id="0", mkstream=True)


def back(worker, clock) -> None:
    """A connection broke and works again."""
    worker._groups_doubtful = True
    work(worker, clock)


def test_a_stream_that_ends_before_what_was_seen_of_it_has_lost_something(seen, clock, durable, caplog):
    rewound(durable)
    back(seen, clock)
    assert sent_back()
    assert f"partitions [{HOME}] may have lost their newest entries: 1 robots are sent back to repeat" in caplog.text
    assert Alert.objects.get(cause="data_lost")
    Link.objects.update(gateway="here:1")
    back(seen, clock)
    assert not sent_back()  # once


def test_the_next_owner_sees_it_too(seen, clock, durable):
    assert Partition.objects.get(pk=HOME).last_entry != "0-0"
    seen.partitions.release()
    rewound(durable)
    heir = Worker(name="heir")
    work(heir, clock)
    heir.streams.close()
    assert sent_back()


def test_who_owned_a_partition_before_notes_nothing_about_it_any_more(seen):
    noted = Partition.objects.get(pk=HOME).last_entry
    say(message(P, "robot.state", 2, data={"mode": "idle"}))
    progress = seen.streams.progress(seen.fences)
    seen.tails.remember(progress, {p: fence - 1 for p, fence in seen.fences.items()})
    assert Partition.objects.get(pk=HOME).last_entry == noted


def test_a_promoted_replica_may_lack_what_its_primary_acknowledged(seen, clock, server):
    server.update(master_replid=NEW, master_replid2=OLD)
    back(seen, clock)
    assert sent_back()
    Link.objects.update(gateway="here:1")
    clock.advance(1)
    work(seen, clock)
    back(seen, clock)
    assert not sent_back()


def test_a_restart_on_the_same_disk_sends_nobody_back(seen, clock, server):
    server.update(master_replid=NEW)
    back(seen, clock)
    assert not sent_back()


def test_what_is_said_again_after_a_stream_is_gone_is_no_duplicate(worker, clock, dispatched, durable, server):
    work(worker, clock)
    accepted = message(P, "mission.accepted", mission=dispatched)
    say(accepted)
    durable.delete(stream.key(HOME))  # by a hand; its marks are still there
    worker.step(clock.now, clock.tick)
    work(worker, clock)
    assert say(accepted) == ["stored"]
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    assert ProcessedMessage.objects.count() == 1
