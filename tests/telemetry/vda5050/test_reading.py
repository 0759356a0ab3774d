"""A robot's messages are read liberally: whatever a field holds costs that field, and both ways of reading agree."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from telemetry.drivers.contract import Complaint
from telemetry.drivers.vda5050 import liberal, reading
from telemetry.drivers.vda5050.picture import (
    ActionState,
    Battery,
    Connection,
    Element,
    Factsheet,
    Issue,
    Load,
    OwnAction,
    Picture,
    Position,
    Velocity,
    Visualization,
)  # fmt: skip
from tests.telemetry.vda5050 import recorded
from tests.telemetry.vda5050.words import CONNECTION, FACTSHEET, STATE, VISUALIZATION, raw

AT = datetime(2026, 11, 29, 10, 0, 0, 123000, tzinfo=UTC)
PICTURE = Picture(
    header_id=41, at=AT, version="2.1.0", order_id="o7", order_update_id=1, last_node_id="n2", last_node_sequence=4,
    node_states=(Element("n3", 6, True), Element("n4", 8, False)),
    edge_states=(Element("e5", 5, True), Element("e7", 7, False)),
    actions={"a1": ActionState("pick", "FINISHED", "pallet 7"), "a2": ActionState("drop", "WAITING", "")},
    driving=True, paused=False, new_base_request=True, operating_mode="AUTOMATIC", e_stop="NONE", field_violation=False,
    errors=(Issue("orderError", "WARNING", "not mine", (("orderId", "o8"),)),),
    battery=Battery(62.5, False), position=Position(1.5, -2.0, 0.25, "hall", True),
    velocity=Velocity(0.3, 0.4, 0.1), loads=(Load("p7", "EPAL"),),
)  # fmt: skip
EMPTY = Picture()

# field of the message → what of the picture rests on it
FIELDS = {
    "headerId": "header_id", "timestamp": "at", "version": "version", "orderId": "order_id",
    "orderUpdateId": "order_update_id", "lastNodeId": "last_node_id", "lastNodeSequenceId": "last_node_sequence",
    "nodeStates": "node_states", "edgeStates": "edge_states", "actionStates": "actions", "driving": "driving",
    "paused": "paused", "newBaseRequest": "new_base_request", "operatingMode": "operating_mode",
    "errors": "errors", "batteryState": "battery", "agvPosition": "position", "velocity": "velocity",
    "loads": "loads",
}  # fmt: skip


def without(*attributes):
    return msgspec.structs.replace(PICTURE, **{name: getattr(EMPTY, name) for name in attributes})


def same(read, expected):
    """Equal but for what is complained of."""
    assert msgspec.structs.replace(read, wrong=()) == expected


# --- whole messages, both ways


def test_a_state():
    assert reading.state(raw(STATE)) == PICTURE


def test_a_state_that_has_to_be_read_field_by_field_is_read_the_same():
    assert reading.state(raw(STATE, extra=float("nan"))) == PICTURE


def test_what_robots_usually_send_never_takes_the_slow_way(monkeypatch):
    """It costs five times as much."""
    monkeypatch.setattr(liberal, "parse", lambda payload: pytest.fail("read field by field"))
    assert reading.state(raw(STATE)) == PICTURE
    assert reading.visualization(raw(VISUALIZATION)).position == PICTURE.position
    assert reading.connection(raw(CONNECTION)).state == "online"
    for path in recorded.folder("samples").glob("*.jsonl"):
        for message in recorded.messages(path.name):
            if message.part in ("state", "connection", "visualization"):
                getattr(reading, message.part)(message.raw)


@pytest.mark.parametrize("extra", [{}, {"extra": float("nan")}])
def test_a_visualization(extra):
    expected = Visualization(at=AT, position=PICTURE.position, velocity=PICTURE.velocity)
    assert reading.visualization(raw(VISUALIZATION, **extra)) == expected


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("ONLINE", "online"), ("OFFLINE", "offline"), ("CONNECTIONBROKEN", "broken"), ("online", "online"),
        ("CONNECTION_BROKEN", "broken"), ("HIBERNATING", "offline"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("extra", [{}, {"extra": float("nan")}])
def test_a_connection(told, state, extra):
    read = reading.connection(raw(CONNECTION, connectionState=told, **extra))
    assert read == Connection(state=state, at=AT)


@pytest.mark.parametrize("told", ["WELL", "", None, 1, {}])
def test_a_connection_that_says_nothing_known_is_complained_of(told):
    assert reading.connection(raw(CONNECTION, connectionState=told)).field == "connectionState"


def test_a_factsheet():
    assert reading.factsheet(raw(FACTSHEET)) == Factsheet(
        actions=(
            OwnAction("pick", frozenset({"NODE"})),
            OwnAction("startPause", frozenset({"INSTANT"})), OwnAction("startCharging", frozenset({"INSTANT", "NODE"})),
            OwnAction("beep", frozenset({"NODE"})), OwnAction("reboot", frozenset({"INSTANT"})),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("features", [None, {}, {"agvActions": None}])
def test_a_factsheet_that_does_not_say_what_it_can_do(features):
    assert reading.factsheet(raw(FACTSHEET, protocolFeatures=features)).actions is None


# --- one field


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("extra", [{}, {"extra": float("nan")}])
def test_null_costs_its_field_and_is_not_complained_of(name, extra):
    assert reading.state(raw(STATE, **{name: None}, **extra)) == without(FIELDS[name])


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "nodeStates"])
@pytest.mark.parametrize("extra", [{}, {"extra": float("nan")}])
def test_what_is_missing_costs_its_field_and_is_not_complained_of(name, extra):
    message = {key: value for key, value in STATE.items() if key != name}
    assert reading.state(raw(message, **extra)) == without(FIELDS[name])


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_field_costs_that_field_and_is_named(name):
    wrong = 7 if isinstance(STATE[name], (dict, list)) else [7]
    read = reading.state(raw(STATE, **{name: wrong}))
    same(read, without(FIELDS[name]))
    assert [complaint.field for complaint in read.wrong] == [name]


@pytest.mark.parametrize("name", ["nodeStates", "edgeStates", "actionStates", "errors", "loads"])
def test_a_wrong_entry_costs_that_entry(name):
    read = reading.state(raw(STATE, **{name: [*STATE[name], 7]}))
    same(read, PICTURE)
    assert read.wrong == (Complaint(field=name, reason="a list of objects is expected, not one with a number"),)


def test_a_wrong_field_of_an_entry_costs_that_field():
    nodes = [{"nodeId": ["n3"], "sequenceId": 6, "released": True}, STATE["nodeStates"][1]]
    read = reading.state(raw(STATE, nodeStates=nodes))
    same(read, msgspec.structs.replace(PICTURE, node_states=(Element("", 6, True), Element("n4", 8, False))))
    assert [complaint.field for complaint in read.wrong] == ["nodeStates.nodeId"]


def test_a_position_without_x_is_none():
    assert reading.state(raw(STATE, agvPosition={"y": 1})).position is None


def test_an_action_without_an_id_is_complained_of():
    read = reading.state(raw(STATE, actionStates=[*STATE["actionStates"], {"actionStatus": "RUNNING"}]))
    same(read, PICTURE)
    assert [complaint.field for complaint in read.wrong] == ["actionStates.actionId"]


def test_a_field_is_named_once_and_crowds_out_no_other():
    read = reading.state(raw(STATE, nodeStates=[{"nodeId": []}] * 500, errors=7))
    assert [complaint.field for complaint in read.wrong] == ["nodeStates.nodeId", "errors"]


def test_of_a_list_of_very_many_the_first_are_read():
    read = reading.state(raw(STATE, nodeStates=[{"sequenceId": n} for n in range(5001)]))
    assert [node.sequence for node in read.node_states] == list(range(5000))
    assert read.wrong == (Complaint(field="nodeStates", reason="it has 5001 entries; 5000 are read"),)
    assert reading.state(raw(STATE, nodeStates=[{}] * 5000)).wrong == ()


# --- habits


@pytest.mark.parametrize(
    ("name", "told", "read"),
    [
        ("orderId", 12, "12"),
        ("orderUpdateId", "3", 3),
        ("orderUpdateId", 3.0, 3),
        ("lastNodeSequenceId", 2.5, None),
        ("driving", "false", False),
        ("driving", 1, True),
        ("velocity", {"vx": "1.5"}, Velocity(1.5)),
        ("velocity", {"vx": float("nan")}, Velocity()),
        ("velocity", {"vx": float("inf")}, Velocity()),
        ("velocity", {"vx": "inf"}, Velocity()),
        ("headerId", 10**30, None),
        ("headerId", 1e30, None),
        ("version", "v2.0.0", "2.0.0"),
        ("operatingMode", "automatic", "AUTOMATIC"),
        ("operatingMode", "DOZING", "DOZING"),
        ("timestamp", "2026-11-29T10:00:00.123", AT),
        ("timestamp", "2026-11-29 10:00:00.123", AT),
        ("timestamp", "2026-11-29T12:00:00.123+02:00", AT),
        ("timestamp", "20261129T100000.123Z", AT),
        ("timestamp", "yesterday", None),
        ("timestamp", "0001-01-01T00:00:00+14:00", None),
        ("orderId", "a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("orderId", "\ud83e", "?"),
        ("orderId", "\U0001f916", "\U0001f916"),
    ],
)
def test_habits_of_robots(name, told, read):
    assert getattr(reading.state(raw(STATE, **{name: told})), FIELDS[name]) == read


def test_a_mark_of_byte_order_and_broken_characters_are_passed_over():
    assert reading.state(b"\xef\xbb\xbf" + raw(STATE)) == PICTURE
    assert reading.state(raw(STATE).replace(b"pallet 7", b"pallet \xff")).actions["a1"].result == "pallet \ufffd"


def test_a_number_of_five_thousand_digits_costs_its_field():
    text = json.dumps(STATE).replace('"headerId": 41', '"headerId": ' + "9" * 5000)
    read = reading.state(text.encode())
    same(read, without("header_id"))
    assert [complaint.field for complaint in read.wrong] == ["headerId"]


def test_charge_at_the_top_is_one_robots_way():
    told = {"orderId": None, "nodeStates": [], "driving": False, "batteryCharge": 85}
    assert reading.state(raw(told)).battery == Battery(85.0)


# --- nothing of it can be used


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "it is not JSON"),
        (b"{not json", "it is not JSON"),
        (b"[]", "an object is expected, not a list"),
        (b"null", "an object is expected, not nothing"),
        (b'"state"', "an object is expected, not a text"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a":' * 40_000 + b"1" + b"}" * 40_000, "it is nested too deeply"),
    ],
)
@pytest.mark.parametrize("part", ["state", "connection", "visualization", "factsheet"])
def test_what_is_no_message(part, payload, reason):
    read = getattr(reading, part)(payload)
    assert read.field == "payload"
    assert read.reason.startswith(reason)


@pytest.mark.parametrize("part", ["state", "connection", "visualization", "factsheet"])
def test_what_is_too_long_is_not_looked_at(part):
    read = getattr(reading, part)(b"x" * 1025, max_bytes=1024)
    assert read == Complaint(field="payload", reason="1025 bytes; at most 1024 are read")


@pytest.mark.parametrize("payload", [{}, {"headerId": 1}, {"hello": "world"}])
def test_a_state_that_says_nothing_is_complained_of(payload):
    assert reading.state(raw(payload)) == Complaint(field="payload", reason="it says nothing that a state says")


def test_an_order_without_what_is_left_of_it_is_complained_of():
    told = {"orderId": "o1", "driving": False}
    assert [complaint.field for complaint in reading.state(raw(told)).wrong] == ["nodeStates"]
    assert reading.state(raw(told | {"orderId": ""})).wrong == ()
