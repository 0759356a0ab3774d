"""What a robot says that it can do: an internal word of its gateway, told to the robot's history when it is news."""

import json
from datetime import timedelta

import pytest
from django.db import transaction

from fleet.models import Event, Robot
from missions.ledger import Ledger
from telemetry import translate
from telemetry.frames import offered
from telemetry.protocol import Bad, decode_up
from tests.actors import START
from tests.telemetry.robots_talk import message


def hand(capabilities, at=START):
    msg_id, raw = offered("RB-001", capabilities, at)
    up = decode_up(raw)
    assert up.msg_id == msg_id
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], now=at)
        verdict = translate.tell(ledger, up, at)
        ledger.commit()
    return str(verdict)


def test_it_is_an_event_only_when_it_is_news(robot):
    assert robot.capabilities is None
    assert hand({"pick", "navigate", "custom:beep"}) == "applied"
    assert Robot.objects.get().capabilities == ["custom:beep", "navigate", "pick"]
    assert hand({"navigate", "custom:beep", "pick"}, START + timedelta(hours=1)) == "redundant"
    assert hand(set(), START + timedelta(hours=2)) == "applied"
    assert Robot.objects.get().capabilities == []
    assert (
        hand({"navigate", "custom:beep", "pick"}, START + timedelta(hours=3)) == "applied"
    )  # another word, not that one
    kinds = [e.kind for e in Event.objects.filter(aggregate="robot:RB-001", kind="robot.capabilities_told")]
    assert len(kinds) == 3


def test_what_cannot_be_kept_is_left_out_and_their_number_is_bounded(robot):
    hand({"navigate", "a\x00", "", "x" * 201, "\ud800", "a\nb"} | {f"custom:{n:03}" for n in range(500)})
    kept = Robot.objects.get().capabilities
    assert len(kept) == 200 and all(c.startswith("custom:") for c in kept)


@pytest.mark.parametrize("words", [["a\x00"], ["x" * 201], "navigate", [1], ["a"] * 201, None])
def test_a_gateway_that_writes_nonsense_is_refused(words):
    with pytest.raises(Bad) as refused:
        decode_up(json.dumps(message("RB-001", "robot.capabilities", 0, session=0, data={"capabilities": words})))
    assert refused.value.field.startswith("data.capabilities")


def test_no_robot_may_say_it():
    with pytest.raises(Bad) as refused:
        decode_up(json.dumps(message("RB-001", "robot.capabilities", 1, data={"capabilities": []})))
    assert refused.value.field == "type"
