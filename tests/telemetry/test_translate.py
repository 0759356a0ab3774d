"""Each type of robot message becomes the right fact for the right mission, and nobody else's."""

import uuid

import msgspec
import pytest
from django.db import transaction

from fleet.history import Origin
from fleet.models import Command, Event, Hold, Robot
from fleet.robots import actions, stopping
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import translate
from telemetry.frames import delivered
from telemetry.protocol import TYPES, decode_up
from tests.actors import START, SYSTEM


def message(mission, kind, robot="RB-001", seq=1, dispatch_no=1, **more):
    frame = {
        "v": 1, "msg_id": uuid.uuid4(), "robot": robot, "session": 7, "channel": "critical", "seq": seq, "type": kind,
        "occurred_at": "2026-11-29T10:00:00.123Z", "data": more.pop("data", {}), **more,
    }  # fmt: skip
    if kind.startswith("mission."):
        frame |= {"mission": mission.pk, "dispatch_no": dispatch_no}
    return decode_up(msgspec.json.encode(frame))


def hand(up):
    with transaction.atomic():
        ledger = Ledger.open([up.robot], translate.missions_named(up), now=START)
        verdict = translate.tell(ledger, up, START)
        ledger.commit()
    return str(verdict)


def test_every_critical_type_is_understood():
    known = set(translate._RECEIPTS) | set(translate._WORDS)
    assert known == {name for name, row in TYPES.items() if row.channel == "critical"}


def test_a_whole_mission(dispatched):
    assign = Command.objects.get()
    _, raw = delivered(assign.pk, "RB-001", START)
    assert hand(decode_up(raw)) == "applied"
    assign.refresh_from_db()
    assert (assign.state, assign.delivered_at) == ("delivered", START)
    assert hand(message(dispatched, "mission.accepted")) == "applied"
    for step in (1, 2, 3):
        assert hand(message(dispatched, "mission.step_completed", step=step, attempt=1)) == "applied"
    assert hand(message(dispatched, "mission.finished")) == "applied"
    assert Mission.objects.get(pk=dispatched.pk).state == "success"
    event = Event.objects.get(kind="mission.succeeded")
    assert (event.actor_kind, event.actor_id, event.actor_name) == ("robot", "RB-001", "Ella")
    assert event.cause.startswith("message:") and event.occurred_at.isoformat() == "2026-11-29T10:00:00.123000+00:00"


def test_another_robots_mission_is_not_its_to_report(dispatched, other_robot):
    assert hand(message(dispatched, "mission.accepted", robot="RB-002")) == "stale"
    with transaction.atomic():
        ledger = Ledger.open(["RB-002"], [dispatched.pk], now=START)
    assert (list(ledger.robots), ledger.missions) == (["RB-002"], {})  # not even locked
    assert Mission.objects.get(pk=dispatched.pk).state == "pending"


def test_a_mission_that_does_not_exist(robot):
    class Nothing:
        pk = uuid.uuid4()

    assert hand(message(Nothing, "mission.accepted")) == "stale"


def test_another_robots_command_is_not_its_to_acknowledge(dispatched, other_robot):
    _, raw = delivered(Command.objects.get().pk, "RB-002", START)
    assert hand(decode_up(raw)) == "stale"
    assert Command.objects.get().state == "open"


@pytest.fixture
def asked(dispatched):
    """Its first step took too long, and its robot was asked."""
    hand(message(dispatched, "mission.accepted"))
    due_at = Mission.objects.get(pk=dispatched.pk).step_due_at
    with transaction.atomic():
        ledger = Ledger.open(mission_ids=[dispatched.pk], now=due_at)
        translate.due(ledger, dispatched.pk, due_at)
        ledger.commit()
    return dispatched


def question() -> str:
    return str(Command.objects.get(kind="robot.query_state").pk)


def test_only_an_answer_is_an_answer(asked):
    hand(message(asked, "robot.state", seq=2, data={"mode": "idle", "reply_to": None}))
    assert Mission.objects.get(pk=asked.pk).asked_for == "step"
    hand(message(asked, "robot.state", seq=3, data={"mode": "idle", "reply_to": question()}))
    assert Mission.objects.get(pk=asked.pk).asked_for == ""


@pytest.mark.parametrize("of", ["nobody", "the robot", "an earlier mission", "an earlier dispatch"])
def test_the_answer_to_another_question_ends_nothing(asked, mission, robot, of):
    """It was at nothing when it was asked then; it may have had its assignment by now."""
    about = {
        "nobody": None, "the robot": {}, "an earlier mission": {"mission": uuid.uuid4(), "dispatch_no": 1},
        "an earlier dispatch": {"mission": asked.pk, "dispatch_no": 7},
    }[of]  # fmt: skip
    earlier = uuid.uuid4()
    if about is not None:
        Command.objects.create(
            id=earlier, robot=robot, kind="robot.query_state", body="{}", created_at=START, state="delivered", **about
        )
    hand(message(asked, "robot.state", seq=2, data={"mode": "idle", "reply_to": str(earlier)}))
    now = Mission.objects.get(pk=asked.pk)
    assert (now.state, now.asked_for) == ("executing", "step")


def test_an_answer_that_is_overtaken_by_a_newer_word_is_none(asked):
    hand(message(asked, "robot.state", seq=3, data={"mode": "running"}))
    assert hand(message(asked, "robot.state", seq=2, data={"mode": "idle", "reply_to": question()})) == "stale"
    assert Mission.objects.get(pk=asked.pk).asked_for == "step"


@pytest.mark.parametrize(("dispatch_no", "state"), [(1, "executing"), (2, "aborted")], ids=["this one", "another"])
def test_an_answer_is_about_the_dispatch_that_it_names(asked, dispatch_no, state):
    """An idle robot that names another dispatch has forgotten this one, so there is nothing to stop."""
    named = {"mission": str(asked.pk), "dispatch_no": dispatch_no}
    hand(message(asked, "robot.state", seq=2, data={"mode": "idle", "reply_to": question(), **named}))
    assert Mission.objects.get(pk=asked.pk).state == state


def test_robot_words(robot):
    hand(message(None, "robot.fault", data={"code": "E1", "text": "<img src=x onerror=alert(1)>"}))
    assert Robot.objects.get().fault == "<img src=x onerror=alert(1)>"
    hand(message(None, "robot.fault_cleared", seq=2, data={"code": "E1"}))
    hand(message(None, "robot.state", seq=3, data={"mode": "charging"}))
    assert Robot.objects.get().mode == "charging"


def test_trace_context_is_taken_over(dispatched):
    trace, span = "a" * 32, "b" * 16
    hand(message(dispatched, "mission.accepted", traceparent=f"00-{trace}-{span}-01"))
    event = Event.objects.get(kind="mission.started")
    assert (event.trace_id, event.span_id) == (trace, span)


def test_a_stop_is_confirmed_by_the_answer_to_it_and_to_no_other_command(robot):
    stopping.stop_robot("RB-001", by=SYSTEM)
    stop = Command.objects.get()
    earlier = Command.objects.create(robot=robot, kind="robot.stop", body="{}", created_at=START)
    other = Command.objects.create(robot=robot, kind="robot.query_state", body="{}", created_at=stop.created_at)
    for seq, answered in enumerate((earlier.pk, other.pk, uuid.uuid4(), stop.pk), 1):
        hand(message(None, "robot.stopped", seq=seq, data={"reply_to": answered}))
        assert (Hold.objects.get().confirmed_at is not None) == (answered == stop.pk)


def test_a_robot_that_names_no_stop_confirms_the_one_that_is_open(robot, monkeypatch):
    monkeypatch.setattr(actions.timezone, "now", lambda: START)
    stopping.stop_robot("RB-001", by=SYSTEM)
    hand(message(None, "robot.stopped", data={"reply_to": None}))
    assert Hold.objects.get().confirmed_at


def test_the_answer_to_its_question_lifts_the_doubt_about_a_robot(robot):
    stopping.stop_robot("RB-001", by=SYSTEM)
    Command.objects.update(sent_at=START)
    stopping.release_robot("RB-001", by=SYSTEM)
    question = Command.objects.get(kind="robot.query_state")
    hand(message(None, "robot.state", data={"mode": "idle"}))
    assert Hold.objects.filter(released_at=None).exists()
    hand(message(None, "robot.state", seq=2, data={"mode": "idle", "reply_to": question.pk}))
    assert not Hold.objects.filter(released_at=None).exists()


@pytest.mark.parametrize("written", [False, True])
def test_a_stop_that_was_sent_ahead_of_its_hold_is_held_when_the_robot_has_it(robot, written):
    """The process that sent it may have ended before it could write the hold."""
    stopping._send_ahead(["RB-001"], "spill", Origin("user", "7", "Ana", "request:1"))
    ahead = Command.objects.get()
    if written:
        stopping.stop_robot("RB-001", by=SYSTEM)
    hand(decode_up(delivered(ahead.pk, "RB-001", START)[1]))
    hold = Hold.objects.get()
    assert (hold.by, hold.why) == (("test", "") if written else ("Ana", "spill"))
    assert Event.objects.filter(kind="robot.hold_opened").get().actor_kind == ("system" if written else "user")


def test_a_stop_that_was_sent_ahead_and_released_meanwhile_is_not_held_again(robot):
    stopping._send_ahead(["RB-001"], "", SYSTEM)
    ahead = Command.objects.get()
    stopping.stop_robot("RB-001", by=SYSTEM)
    stopping.release_robot("RB-001", by=SYSTEM)
    hand(decode_up(delivered(ahead.pk, "RB-001", START)[1]))
    assert not Hold.objects.filter(released_at=None).exists()
