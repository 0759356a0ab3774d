"""A worker's log lines name the message that they are about, by the trace that its events carry."""

import json
import logging

import pytest

from fleet import logs
from fleet.models import Event
from telemetry import translate
from tests.telemetry.robots_talk import message, say, work

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def lines(caplog):
    caplog.handler.setFormatter(logs.Json())
    return lambda: [json.loads(line) for line in caplog.text.splitlines()]


def test_a_dead_letter_is_logged_with_its_message_and_trace(worker, clock, robot, lines):
    bad = message("RB-001", "robot.state", data={"mode": "asleep"}, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    say(bad)
    work(worker, clock)
    (line,) = [line for line in lines() if "dead letter" in line["message"]]
    assert (line["msg_id"], line["trace_id"]) == (bad["msg_id"], TRACE)


def test_what_is_logged_while_a_message_is_applied_has_the_trace_of_its_events(
    worker, clock, dispatched, lines, monkeypatch, caplog
):
    tell = translate.tell

    def talkative(ledger, up, received_at):
        caplog.handler.setFormatter(logs.Json())

        logging.getLogger("test").warning("now")
        return tell(ledger, up, received_at)

    monkeypatch.setattr(translate, "tell", talkative)
    said = message("RB-001", "mission.accepted", mission=dispatched)
    say(said)
    work(worker, clock)
    (line,) = [line for line in lines() if line["message"] == "now"]
    event = Event.objects.get(kind="mission.started")
    assert (line["msg_id"], line["trace_id"]) == (said["msg_id"], event.trace_id)
