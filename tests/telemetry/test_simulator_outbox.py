"""What a simulated robot keeps and sends again."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.protocol import decode_up
from telemetry.simulator.outbox import RESEND_S, WINDOW, Outbox
from telemetry.simulator.work import Event

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
STATE = Event("robot.state", {"mode": "idle"})


@pytest.fixture
def outbox():
    box = Outbox("RB-001")
    box.begin(7, {})
    return box


def numbers(texts):
    return [((up := decode_up(text)).session, up.seq) for text in texts]


def test_critical_messages_are_numbered_from_1_without_a_gap_beside_the_lossy_ones(outbox):
    for _ in range(3):
        outbox.add(STATE, NOW)
        outbox.lossy("robot.heartbeat", {"battery": 50}, NOW)
    assert numbers(outbox.due(0.0)) == [(7, 1), (7, 2), (7, 3)]
    assert decode_up(outbox.lossy("robot.heartbeat", {"battery": 50}, NOW)).seq == 4


def test_a_message_says_what_it_is_about(outbox):
    mission = "0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001"
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    outbox.add(Event("mission.step_started", {}, mission, 1, 2, 3, trace), NOW)
    up = decode_up(outbox.due(0.0)[0])
    assert (str(up.mission), up.dispatch_no, up.step, up.attempt) == (mission, 1, 2, 3)
    assert (up.traceparent, up.occurred_at) == (trace, NOW)


def test_what_was_said_before_the_first_session_waits_for_it():
    box = Outbox("RB-001")
    box.add(STATE, NOW)
    assert box.due(0.0) == []
    box.begin(3, {})
    assert numbers(box.due(0.0)) == [(3, 1)]


def test_nothing_is_sent_twice_before_its_time(outbox):
    outbox.add(STATE, NOW)
    assert len(outbox.due(0.0)) == 1
    assert outbox.due(RESEND_S - 0.1) == []


def test_one_that_is_overdue_goes_out_again_with_all_that_followed_it(outbox):
    outbox.add(STATE, NOW)
    outbox.due(0.0)
    outbox.add(STATE, NOW)
    outbox.due(1.5)
    outbox.add(STATE, NOW)
    assert numbers(outbox.due(RESEND_S)) == [(7, 1), (7, 2), (7, 3)]


def test_stored_is_kept_until_applied_and_sent_again_on_the_next_link_under_its_old_number(outbox):
    first, second = Event("robot.fault", {"code": "A", "text": ""}), STATE
    outbox.add(first, NOW)
    outbox.add(second, NOW)
    sent = outbox.due(0.0)
    for text in sent:
        outbox.acknowledged(json.loads(text)["msg_id"], "stored")
    assert outbox.due(100.0) == []
    outbox.begin(8, {"7": 1})
    outbox.add(STATE, NOW)
    again = outbox.due(101.0)
    assert numbers(again) == [(7, 2), (8, 1)]
    assert again[0] == sent[1]


def test_applied_lets_go(outbox):
    for _ in range(3):
        outbox.add(STATE, NOW)
    outbox.applied({"7": 2, "6": 9})
    assert len(outbox) == 1
    outbox.applied({"7": 3})
    assert (len(outbox), outbox.due(0.0)) == (0, [])


def test_what_nobody_will_ever_take_is_dropped(outbox):
    outbox.add(STATE, NOW)
    outbox.acknowledged(json.loads(outbox.due(0.0)[0])["msg_id"], "invalid")
    assert len(outbox) == 0


def test_only_so_many_are_under_way(outbox):
    for _ in range(WINDOW + 10):
        outbox.add(STATE, NOW)
    sent = outbox.due(0.0)
    assert len(sent) == WINDOW
    outbox.acknowledged(json.loads(sent[0])["msg_id"], "stored")
    assert numbers(outbox.due(0.1)) == [(7, WINDOW + 1)]


@given(st.lists(st.sampled_from(["say", "send", "ack", "apply", "new link"]), max_size=60))
def test_whatever_happens_nothing_unapplied_is_lost_and_order_holds(steps):
    box, session, said, applied, taken, now = Outbox("RB-001"), 0, 0, 0, [], 0.0
    for step in steps:
        now += 0.7
        if step == "say":
            box.add(STATE, NOW)
            said += 1
        elif step == "send":
            texts = box.due(now)
            assert numbers(texts) == sorted(numbers(texts))
            taken += [text for text in texts if text not in taken]
        elif step == "ack" and taken:
            box.acknowledged(json.loads(taken[0])["msg_id"], "stored")
        elif step == "apply" and taken:
            session_of, seq = numbers([taken.pop(0)])[0]
            box.applied({str(session_of): seq})
            applied += 1
        elif step == "new link":
            session += 1
            box.begin(session, {})
    assert len(box) == said - applied
