"""The applied watermark never runs ahead of what is applied, and passes what became a dead letter (I3)."""

import random

import pytest
from django.db import transaction

from missions.models import DeadLetter
from telemetry import watermarks
from telemetry.models import ProcessedMessage, Watermark
from tests.telemetry.robots_talk import message, say, work


def cleared(seq: int, session: int = 1) -> dict:
    return message("RB-001", "robot.fault_cleared", seq, session=session, data={"code": "E"})


def marks() -> dict[int, int]:
    return dict(Watermark.objects.values_list("session", "applied_seq"))


def test_it_follows_messages_in_order(worker, clock, robot):
    say(cleared(1), cleared(2))
    work(worker, clock)
    assert marks() == {1: 2}
    say(cleared(3))
    work(worker, clock)
    assert marks() == {1: 3}


def test_a_gap_holds_it_until_it_is_filled(worker, clock, robot):
    say(cleared(1), cleared(3), cleared(5))
    work(worker, clock)
    assert marks() == {1: 1}
    say(cleared(4))
    work(worker, clock)
    assert marks() == {1: 1}
    say(cleared(2))
    work(worker, clock)
    assert marks() == {1: 5}


def test_a_session_whose_first_message_is_missing_has_none(worker, clock, robot):
    say(cleared(2), cleared(3))
    work(worker, clock)
    assert marks() == {}


def test_each_session_has_its_own(worker, clock, robot):
    say(cleared(1, session=4), cleared(1, session=5), cleared(2, session=4))
    work(worker, clock)
    assert marks() == {4: 2, 5: 1}


def test_the_sites_own_entries_have_none(worker, clock, dispatched):
    from fleet.models import Command
    from telemetry.frames import delivered
    from tests.telemetry.robots_talk import NOW

    say(delivered(Command.objects.get(kind="mission.assign").pk, "RB-001", NOW)[1])
    work(worker, clock)
    assert marks() == {}


@pytest.mark.parametrize("bad", [{"type": "robot.dance"}, {"data": {"code": 7}}], ids=["type", "data"])
def test_a_dead_letter_is_passed(worker, clock, robot, bad):
    say(cleared(1), {**cleared(2), **bad}, cleared(3))
    work(worker, clock)
    assert DeadLetter.objects.count() == 1
    assert marks() == {1: 3}


def test_a_resend_of_what_was_applied_moves_nothing(worker, clock, robot, durable):
    first, second = cleared(1), cleared(2)
    say(first, second)
    work(worker, clock)
    durable.delete(*durable.keys("seen:*"))
    say(first, second)
    work(worker, clock)
    assert marks() == {1: 2}


def test_a_message_of_an_unknown_robot_has_none(worker, clock, robot):
    say({**cleared(1), "robot": "NOBODY"})
    work(worker, clock)
    assert marks() == {}


@pytest.mark.parametrize("seed", range(5))
def test_any_order_in_any_batches_ends_at_the_last(worker, clock, robot, seed):
    dice = random.Random(seed)
    messages = [cleared(n) for n in range(1, 31)]
    dice.shuffle(messages)
    applied: set[int] = set()
    while messages:
        some = [messages.pop() for _ in range(min(len(messages), dice.randint(1, 7)))]
        say(*some)
        work(worker, clock)
        applied |= {m["seq"] for m in some}
        contiguous = next(n for n in range(32) if n + 1 not in applied)
        assert marks().get(1, 0) == contiguous


def test_a_gap_that_was_filled_before_it_was_given_up_moves_nothing_back(worker, clock, robot):
    say(*(cleared(n) for n in range(1, 6)))
    work(worker, clock)
    with transaction.atomic():
        watermarks.pass_over("RB-001", 1, 3)
    assert marks() == {1: 5}
    ProcessedMessage.objects.all().delete()  # as when they are old
    with transaction.atomic():
        watermarks.pass_over("RB-001", 1, 3)
    assert marks() == {1: 5}
