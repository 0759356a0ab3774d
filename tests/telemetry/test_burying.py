"""A robot that sends thousands of invalid messages costs some rows; what is valid is kept whole."""

from datetime import timedelta

import pytest

from fleet.models import Alert
from missions.models import DeadLetter
from telemetry import translate
from telemetry.models import Watermark
from telemetry.worker import poison
from tests.telemetry.robots_talk import message, say, work

LIMIT = 3


@pytest.fixture(autouse=True)
def few(settings):
    settings.DEAD_LETTERS_PER_ROBOT = LIMIT


def invalid(seq: int, robot: str = "RB-001") -> dict:
    return message(robot, "robot.fault", seq, data={"code": f"E{seq}"})


def test_invalid_ones_above_the_limit_are_counted_in_one_letter(worker, clock, robot, other_robot):
    say(*(invalid(n) for n in range(1, 11)), invalid(1, "RB-002"))
    work(worker, clock)
    say(*(invalid(n) for n in range(11, 21)))
    work(worker, clock)
    letters = DeadLetter.objects.filter(robot_id="RB-001").order_by("id")
    assert len(letters) == LIMIT + 1
    assert (letters[LIMIT].tries, letters[LIMIT].reason.split(";")[0]) == (
        20 - LIMIT, "17 invalid messages more than are kept one by one",
    )  # fmt: skip
    assert '"E20"' in letters[LIMIT].body
    assert DeadLetter.objects.filter(robot_id="RB-002").count() == 1
    assert Watermark.objects.get(robot="RB-001").applied_seq == 20  # counted is passed, as every dead letter
    alert = Alert.objects.get(robot_id="RB-001")
    assert alert.tally.count == 20


def test_what_a_person_has_settled_makes_room_and_a_new_day_has_a_letter_of_its_own(worker, clock, robot):
    say(*(invalid(n) for n in range(1, 6)))
    work(worker, clock)
    DeadLetter.objects.update(state="discarded")
    clock.now += timedelta(days=1)
    say(*(invalid(n) for n in range(6, 11)))
    work(worker, clock)
    assert DeadLetter.objects.filter(state="discarded").count() == LIMIT + 1
    assert sorted(DeadLetter.objects.filter(state="open").values_list("tries", flat=True)) == [0] * LIMIT + [2]


def test_a_valid_one_that_cannot_be_applied_is_kept_whatever_the_limit(worker, clock, robot, monkeypatch):
    say(*(invalid(n) for n in range(1, 9)))
    work(worker, clock)

    def broken(*args, **kwargs):
        raise ValueError("a defect")

    monkeypatch.setattr(translate, "tell", broken)
    said = message("RB-001", "robot.fault", 9, data={"code": "E9", "text": "stuck"})
    say(said)
    for _ in range(poison.TRIES + 3):
        work(worker, clock)
    kept = DeadLetter.objects.get(msg_id=said["msg_id"])
    assert "a defect" in kept.reason
    assert '"E9"' in kept.body


def test_a_valid_one_among_invalid_ones_of_the_same_batch_is_kept_whole(worker, clock, robot):
    """Of a robot that nobody has enrolled both can come at once."""
    said = message("NOBODY", "robot.fault", 9, data={"code": "E9", "text": "stuck"})
    say(*(invalid(n, "NOBODY") for n in range(1, 9)), said, invalid(10, "NOBODY"))
    work(worker, clock)
    assert DeadLetter.objects.get(msg_id=said["msg_id"]).body.count('"E9"') == 1
    assert DeadLetter.objects.count() == LIMIT + 1 + 1
