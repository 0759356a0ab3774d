"""A worker's log lines name the message that they are about, by the trace that its events carry."""

import json
import logging

import pytest
from django.db import OperationalError
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisIsAway

from fleet import logs
from fleet.models import Event
from telemetry import translate
from telemetry.worker import loop
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


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RedisIsAway("refused"), "the durable Redis does not answer, or refuses; will try again: refused"),
        (OperationalError("refused"), "PostgreSQL does not answer, or refuses; will try again: refused"),
        (KeyError("place"), "a step of the worker raised, will try again: 'place'"),
    ],
)
def test_the_store_that_is_away_is_named_once_and_a_mistake_of_ours_is_called_one(error, says, monkeypatch, caplog):
    def work(*_):
        raise error

    monkeypatch.setattr(loop, "reconnect", lambda: None)
    worker = loop.Worker(name="w")
    monkeypatch.setattr(worker, "_work", work)
    for tick in range(3):
        worker.step(timezone.now(), float(tick))
    worker.streams.close()
    assert [r.getMessage() for r in caplog.records if r.name == loop.__name__] == [says]
    assert ("Traceback" in caplog.text) == isinstance(error, KeyError)
