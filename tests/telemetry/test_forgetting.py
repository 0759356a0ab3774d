"""A message has one effect for ever, also when the row that remembers it is deleted."""

import json

import pytest
from django.utils import timezone

from fleet.models import Event
from missions.models import DeadLetter
from telemetry.gateways import direct
from telemetry.models import Link, ProcessedMessage, Watermark
from telemetry.protocol import decode_up
from tests.telemetry.robots_talk import message, say, work


def faulted(seq: int, session: int = 1) -> dict:
    return message("RB-001", "robot.fault", seq, session=session, data={"code": f"E{seq}", "text": "stuck"})


def faults() -> int:
    return Event.objects.filter(kind="robot.faulted").count()


def forget(up_to: int) -> None:
    ProcessedMessage.objects.filter(session=1, seq__lte=up_to).delete()
    Watermark.objects.filter(session=1).update(forgotten_seq=up_to)


def test_what_is_numbered_up_to_the_forgotten_number_is_a_duplicate(worker, clock, durable, robot):
    first, second, third = faulted(1), faulted(2), faulted(3)
    say(first, second)
    work(worker, clock)
    forget(1)
    durable.delete(*durable.keys("seen:*"))  # these marks would have stopped them
    say(first, second, third)
    work(worker, clock)
    assert faults() == 3
    assert set(ProcessedMessage.objects.values_list("seq", flat=True)) == {2, 3}  # the first was not applied anew
    assert Watermark.objects.get().applied_seq == 3
    assert not DeadLetter.objects.exists()


def test_another_session_of_the_robot_is_not_touched_by_it(worker, clock, robot):
    say(faulted(1), faulted(2))
    work(worker, clock)
    forget(2)
    say(faulted(1, session=2))
    work(worker, clock)
    assert faults() == 3


def test_a_message_of_a_session_that_is_forgotten_is_a_dead_letter(worker, clock, robot):
    Link.objects.create(robot=robot, session=9, forgotten_session=4)
    say(faulted(7, session=4), faulted(1, session=5))
    work(worker, clock)
    assert faults() == 1
    assert "so old" in DeadLetter.objects.get().reason


@pytest.mark.django_db
def test_past_the_stream_it_counts_once_as_well(robot):
    Watermark.objects.create(robot=robot, session=1, applied_seq=5, forgotten_seq=5)
    Link.objects.create(robot=robot, session=1)
    before = Event.objects.count()
    up = decode_up(json.dumps(message("RB-001", "robot.stopped", 5, session=1)).encode())
    direct.apply(up, timezone.now())
    assert Event.objects.count() == before
    assert not ProcessedMessage.objects.filter(msg_id=up.msg_id).exists()
