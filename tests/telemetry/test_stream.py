"""What gateways append is stored once, in order, and found again by the next owner of the partition."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.conf import settings

from telemetry import stream
from telemetry.gateways.intake import LATE_S, Intake, Unavailable

AT = datetime(2026, 11, 29, 10, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
async def intake(durable):
    intake = Intake(settings.REDIS_URL)
    yield intake
    await intake.aclose()


@pytest.fixture
def streams(durable):
    streams = stream.Streams(settings.REDIS_URL)
    streams.ensure_groups(range(settings.PARTITIONS))
    yield streams
    streams.close()


def put(robot: str, *raws: bytes) -> list[uuid.UUID]:
    """Store messages from synchronous code."""

    async def work():
        intake = Intake(settings.REDIS_URL)
        ids = [uuid.uuid4() for _ in raws]
        await asyncio.gather(*(intake.store(robot, i, raw, AT) for i, raw in zip(ids, raws, strict=True)))
        await intake.aclose()
        return ids

    return asyncio.run(work())


async def test_a_message_is_stored_once_and_a_resend_is_a_duplicate(intake, durable):
    msg_id = uuid.uuid4()
    assert await intake.store("RB-1", msg_id, b"{}", AT) == "stored"
    assert await intake.store("RB-1", msg_id, b"{}", AT) == "duplicate"
    assert await intake.store("RB-2", msg_id, b"{}", AT) == "stored"  # another robot may use the same id
    p = stream.partition_of("RB-1")
    [(_, fields)] = [row for row in durable.xrange(stream.key(p)) if row[1][b"robot"] == b"RB-1"]
    assert fields == {b"robot": b"RB-1", b"msg_id": str(msg_id).encode(), b"raw": b"{}", b"at": b"1795946400123456"}


async def test_the_mark_of_a_message_expires(durable):
    intake = Intake(settings.REDIS_URL, window_s=77)
    await intake.store("RB-1", uuid.uuid4(), b"{}", AT)
    await intake.aclose()
    [mark] = durable.keys("seen:*")
    assert 0 < durable.ttl(mark) <= 77


async def test_callers_share_round_trips_and_keep_their_order(intake, durable):
    before = durable.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
    before += durable.info("commandstats").get("cmdstat_eval", {}).get("calls", 0)
    answers = await asyncio.gather(
        *(intake.store("RB-1", uuid.uuid4(), str(n).encode(), AT) for n in range(450)),
    )
    assert answers == ["stored"] * 450
    stats = durable.info("commandstats")
    calls = stats["cmdstat_evalsha"]["calls"] + stats.get("cmdstat_eval", {}).get("calls", 0) - before
    assert calls <= 4  # three flushes, one more if the script was not known
    raws = [fields[b"raw"] for _, fields in durable.xrange(stream.key(stream.partition_of("RB-1")))]
    assert raws == [str(n).encode() for n in range(450)]


async def test_the_same_message_twice_in_one_round_trip_is_stored_once(intake):
    msg_id = uuid.uuid4()
    answers = await asyncio.gather(*(intake.store("RB-1", msg_id, b"{}", AT) for _ in range(3)))
    assert answers == ["stored", "duplicate", "duplicate"]


async def test_a_restarted_redis_that_forgot_the_script_takes_the_message(intake, durable):
    await intake.store("RB-1", uuid.uuid4(), b"1", AT)
    durable.script_flush()
    assert await intake.store("RB-1", uuid.uuid4(), b"2", AT) == "stored"


async def test_a_dropped_connection_costs_no_message(intake, durable):
    await intake.store("RB-1", uuid.uuid4(), b"1", AT)
    durable.client_kill_filter(_type="normal", skipme=True)
    assert await intake.store("RB-1", uuid.uuid4(), b"2", AT) == "stored"


async def test_without_redis_the_caller_hears_unavailable(tmp_path):
    intake = Intake(f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(Unavailable):
        await intake.store("RB-1", uuid.uuid4(), b"{}", AT)
    await intake.aclose()


async def test_a_redis_that_refuses_writes_is_unavailable_stores_nothing_and_fills_no_log(durable, caplog):
    p = stream.partition_of("RB-1")
    durable.set(stream.key(p), "not a stream")
    intake = Intake(settings.REDIS_URL)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await intake.store("RB-1", uuid.uuid4(), b"{}", AT)
    await intake.aclose()
    assert caplog.text.count("durable Redis refuses to append") == 1


async def test_what_waited_too_long_is_not_acknowledged_and_not_stored(intake, durable, monkeypatch):
    monkeypatch.setattr("telemetry.gateways.intake.LATE_S", -1.0)
    with pytest.raises(Unavailable, match="in time"):
        await intake.store("RB-1", uuid.uuid4(), b"{}", AT)
    assert not durable.keys("in:*")


def test_the_next_owner_finds_what_was_read_and_not_acknowledged(streams):
    p = stream.partition_of("RB-1")
    ids = put("RB-1", b"a", b"b", b"c")
    read = streams.read_new([p], 2, None)[p]
    assert [(e.msg_id, e.raw, e.received_at) for e in read] == [(ids[0], b"a", AT), (ids[1], b"b", AT)]
    streams.ack(p, [read[0].id])
    other = stream.Streams(settings.REDIS_URL)
    assert [e.raw for e in other.read_pending(p, 10)] == [b"b"]
    assert [e.raw for e in other.read_new([p], 10, None)[p]] == [b"c"]
    other.close()


def test_reading_covers_all_partitions_asked_for_and_no_other(streams):
    robots = {stream.partition_of(f"RB-{n}"): f"RB-{n}" for n in range(100)}
    first, second, third = sorted(robots)[:3]
    for p in (first, second, third):
        put(robots[p], b"x", b"y")
    got = streams.read_new([first, third], 10, None)
    assert {p: [e.raw for e in entries] for p, entries in got.items()} == {first: [b"x", b"y"], third: [b"x", b"y"]}


def test_a_lost_group_is_recognised_and_made_anew_from_the_oldest_entry(streams, durable):
    p = stream.partition_of("RB-1")
    durable.flushdb()
    put("RB-1", b"a")
    with pytest.raises(redis.ResponseError) as caught:
        streams.read_new([p], 10, None)
    assert stream.is_group_lost(caught.value)
    assert streams.progress([p]) == {}
    streams.ensure_groups([p])
    streams.ensure_groups([p])  # again does no harm
    assert [e.raw for e in streams.read_new([p], 10, None)[p]] == [b"a"]


def test_progress_says_what_is_applied(streams):
    p = stream.partition_of("RB-1")
    put("RB-1", b"a", b"b")
    start = streams.progress([p])[p]
    assert not start.applied(start.last)
    first, second = streams.read_new([p], 10, None)[p]
    assert not streams.progress([p])[p].applied(start.last)
    streams.ack(p, [second.id])
    assert not streams.progress([p])[p].applied(start.last)  # one older is still open
    streams.ack(p, [first.id])
    assert streams.progress([p])[p].applied(start.last)


def test_trimming_never_drops_what_is_not_acknowledged(streams, durable):
    p = stream.partition_of("RB-1")
    durable.config_set("stream-node-max-entries", 1)  # else an approximate trim leaves up to a node
    try:
        put("RB-1", b"a", b"b", b"c", b"d")
        a, b, c = streams.read_new([p], 3, None)[p]
        streams.ack(p, [a.id, c.id])
        streams.trim([p])
        assert [f[b"raw"] for _, f in durable.xrange(stream.key(p))] == [b"b", b"c", b"d"]
        streams.ack(p, [b.id])
        streams.trim([p])
        assert [f[b"raw"] for _, f in durable.xrange(stream.key(p))] == [b"d"]
    finally:
        durable.config_set("stream-node-max-entries", 100)


def test_a_pending_entry_that_was_trimmed_by_hand_does_not_come_back_for_ever(streams, durable):
    p = stream.partition_of("RB-1")
    put("RB-1", b"a", b"b")
    streams.read_new([p], 2, None)
    durable.xtrim(stream.key(p), maxlen=1, approximate=False)
    assert [e.raw for e in streams.read_pending(p, 10)] == [b"b"]
    assert durable.xpending(stream.key(p), stream.GROUP)["pending"] == 1


@pytest.mark.parametrize("fields", [{"x": 1}, {"robot": b"\xff", "msg_id": "1", "raw": "", "at": "soon"}])
def test_an_entry_that_no_intake_wrote_does_not_hold_up_the_others(streams, durable, fields, caplog):
    p = stream.partition_of("RB-1")
    durable.xadd(stream.key(p), fields)
    put("RB-1", b"a")
    assert [e.raw for e in streams.read_new([p], 10, None)[p]] == [b"a"]
    assert durable.xpending(stream.key(p), stream.GROUP)["pending"] == 1
    assert "hold no message" in caplog.text


def test_the_age_of_the_oldest_unapplied_entry(streams):
    p = stream.partition_of("RB-1")
    everything = range(settings.PARTITIONS)
    put("RB-1", b"a")
    later = datetime.now(UTC) + timedelta(seconds=100)
    assert 99 < streams.oldest_unapplied_s(everything, later) < 102  # not read yet
    [entry] = streams.read_new([p], 10, None)[p]
    assert 99 < streams.oldest_unapplied_s(everything, later) < 102  # read, not acknowledged
    streams.ack(p, [entry.id])
    assert streams.oldest_unapplied_s(everything, later) == 0


async def test_what_was_stored_late_is_not_acknowledged(intake, durable, monkeypatch):
    """A deadline may have fired meanwhile that took it for not said: its robot says it again, and that is a duplicate."""
    once = Intake._round_trip

    async def slow(self, batch):
        stored = await once(self, batch)
        for waiting in batch:
            waiting.since -= LATE_S
        return stored

    monkeypatch.setattr(Intake, "_round_trip", slow)
    msg_id = uuid.uuid4()
    with pytest.raises(Unavailable, match="not stored in time"):
        await intake.store("RB-1", msg_id, b"{}", AT)
    monkeypatch.setattr(Intake, "_round_trip", once)
    assert await intake.store("RB-1", msg_id, b"{}", AT) == "duplicate"


async def test_nothing_of_a_robot_overtakes_what_could_not_be_stored(intake, durable, monkeypatch):
    """One group that is larger than a round trip; the first round trip fails, the second would work."""
    monkeypatch.setattr("telemetry.gateways.intake.FLUSH", 2)
    once, trips = Intake._round_trip, []

    async def flaky(self, batch):
        trips.append([w.raw for w in batch])
        if len(trips) == 1:
            raise redis.TimeoutError("slow")
        return await once(self, batch)

    monkeypatch.setattr(Intake, "_round_trip", flaky)
    mine = [intake.store("RB-1", uuid.uuid4(), b"%d" % n, AT) for n in range(5)]
    other = intake.store("RB-2", uuid.uuid4(), b"other", AT)
    *answers, stored = await asyncio.gather(*mine, other, return_exceptions=True)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert (stored, trips) == ("stored", [[b"0", b"1"], [b"other"]])


async def test_the_backlog_is_what_the_worker_has_not_acknowledged(intake, streams):
    p = stream.partition_of("RB-1")
    for n in range(3):
        await intake.store("RB-1", uuid.uuid4(), b"%d" % n, AT)
    assert await intake.backlog() == {q: 3 if q == p else 0 for q in range(settings.PARTITIONS)}
    entries = streams.read_new([p], 2, None)[p]
    assert (await intake.backlog())[p] == 3
    streams.ack(p, [entries[0].id])
    assert (await intake.backlog())[p] == 2


async def test_without_a_group_all_that_is_in_the_stream_waits(intake, durable):
    await intake.store("RB-1", uuid.uuid4(), b"{}", AT)
    assert (await intake.backlog())[stream.partition_of("RB-1")] == 1
