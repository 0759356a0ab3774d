"""After a restore robots' repetitions are heard, watermarks move on, and no session comes twice."""

import pytest
import redis
from django.db import connection

from fleet.robots import actions
from telemetry import generation, watermarks
from telemetry.gateways.rows import open_session
from telemetry.models import Link, ProcessedMessage, Watermark
from tests.actors import SYSTEM
from tests.telemetry.robots_talk import message, say, work


def restored() -> None:
    with connection.cursor() as cursor:
        generation.begin(cursor)


def mark(session: int, robot: str = "RB-001") -> int:
    return Watermark.objects.filter(robot=robot, session=session).values_list("applied_seq", flat=True).first() or 0


@pytest.fixture
def known(robot, other_robot):
    """RB-001 had three links before the backup, and its second session is applied up to 5; RB-002 never came."""
    for _ in range(3):
        open_session("RB-001", "gateway:1")
    Watermark.objects.create(robot=robot, session=2, applied_seq=5)


def test_sessions_go_on_a_span_above_and_links_are_sent_back(known):
    restored()
    assert Link.objects.get(pk="RB-001").gateway == ""
    assert open_session("RB-001", "gateway:2").session == generation.SPAN + 4
    assert open_session("RB-002", "gateway:2").session > generation.SPAN, "it may have come after the backup"


def test_a_robot_that_is_enrolled_after_the_restore_begins_above_too(known, site, brand):
    restored()
    actions.enrol_robot(id="RB-003", name="Neu", site=site, brand=brand, by=SYSTEM)
    assert open_session("RB-003", "gateway:2").session > generation.SPAN


def test_without_a_restore_sessions_count_from_1(robot):
    assert open_session("RB-001", "gateway:1").session == 1


def test_each_restore_begins_another_generation(known):
    restored()
    open_session("RB-001", "gateway:2")
    restored()
    assert open_session("RB-001", "gateway:3").session == 2 * generation.SPAN + 5


def test_what_a_robot_repeats_is_applied_and_its_watermark_passes_what_it_let_go_of(known, worker, clock, durable):
    """It was told 9 before the restore and keeps from 10 on; this database knows up to 5."""
    restored()
    open_session("RB-001", "gateway:2")
    say(*(message("RB-001", "robot.state", seq, session=2, data={"mode": "idle"}) for seq in (10, 11)))
    work(worker, clock)
    assert ProcessedMessage.objects.filter(session=2, seq__in=(10, 11)).count() == 2
    assert mark(2) == 11


def test_a_session_that_the_backup_does_not_know_is_passed_as_well(known, worker, clock, durable):
    restored()
    open_session("RB-001", "gateway:2")
    say(message("RB-001", "robot.state", 30, session=4, data={"mode": "idle"}))
    work(worker, clock)
    assert mark(4) == 30


def test_in_the_session_of_now_a_gap_holds_the_watermark_as_ever(known, worker, clock, durable):
    restored()
    now = open_session("RB-001", "gateway:2").session
    say(*(message("RB-001", "robot.state", seq, session=now, data={"mode": "idle"}) for seq in (1, 3)))
    work(worker, clock)
    assert mark(now) == 1


def test_a_stop_that_goes_past_the_stream_passes_nothing_before_it(known):
    restored()
    watermarks.move([("RB-001", 2, 20)], in_order=False)
    assert mark(2) == 5


def test_the_durable_redis_is_emptied_of_what_is_ours_only(durable: redis.Redis, robot):
    durable.set("somebody:else", 1)
    say(message("RB-001", "robot.state", data={"mode": "idle"}))
    assert generation.streams_left() == 2  # the stream and the mark of the message
    assert generation.forget_streams() == 2
    assert durable.keys() == [b"somebody:else"]
