"""The published JSON Schema of the protocol is current, and decides as the gateways do."""

import json

import pytest
from jsonschema import Draft202012Validator

from telemetry import protocol, schema
from tests.telemetry import test_protocol as examples

PUBLISHED = json.loads(schema.FILE.read_text())
valid = Draft202012Validator(PUBLISHED).is_valid
# what a schema does not say: forms of text (uuid, date), a NUL, and the line end that only Python's `$` overlooks
BEYOND = ("msg_id", "occurred_at", "mission", "data.mission")
WRONG = [
    raw
    for field, raw in (*examples.WRONG, *examples.WRONG_DATA)
    if isinstance(raw, dict)
    and field not in BEYOND
    and r"\n" not in json.dumps(raw)
    and r"\u0000" not in json.dumps(raw)
]


def test_it_is_current():
    assert schema.FILE.read_text() == schema.text(), "run python -m telemetry.schema"


def test_it_is_a_schema():
    Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize("type", protocol.TYPES)
def test_it_takes_each_type_and_asks_for_what_that_needs(type):
    message = examples.message(type)
    assert valid(message)
    for name in ("msg_id", "session", *protocol.TYPES[type].needs):
        assert not valid({key: value for key, value in message.items() if key != name}), name


def test_it_takes_hello_and_ack():
    assert valid({"type": "hello", "v": 1, "robot": "RB-001"})
    assert valid({"type": "ack", "msg_id": examples.MSG})
    assert not valid({"type": "ack"})


@pytest.mark.parametrize("message", WRONG)
def test_it_refuses_what_gateways_refuse(message):
    assert not valid(message)
