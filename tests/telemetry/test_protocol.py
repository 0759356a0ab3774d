"""What the robot protocol lets in, and which field it names when it does not."""

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import frames, protocol
from telemetry.protocol import Ack, Bad, Hello, decode_frame, decode_up

MSG, MISSION = "6f1f9f5e-9f30-4a4c-9b3a-0d6f6c4e7d10", "0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001"
ENOUGH = {
    "mission.rejected": {"why": "no arm"},
    "mission.step_failed": {"why": "blocked"},
    "robot.state": {"mode": "idle"},
    "robot.fault": {"code": "E1", "text": "wheel"},
    "robot.fault_cleared": {"code": "E1"},
    "robot.telemetry": {"x": 1, "y": 2.5, "theta": 0},
}


def message(type="robot.state", **fields):
    row = protocol.TYPES.get(type)
    filled = {"mission": MISSION, "dispatch_no": 1, "step": 2, "attempt": 1}
    return {
        "v": 1, "msg_id": MSG, "robot": "RB-001", "session": 7, "channel": row.channel if row else "critical",
        "seq": 812, "type": type, "occurred_at": "2026-11-29T10:00:00.123Z", "data": ENOUGH.get(type, {}),
        **{name: filled[name] for name in (row.needs if row else ())}, **fields,
    }  # fmt: skip


def without(name, type="robot.state"):
    return {key: value for key, value in message(type).items() if key != name}


def refusal(raw):
    with pytest.raises(Bad) as caught:
        decode_up(raw if isinstance(raw, bytes | str) else json.dumps(raw))
    return caught.value


@pytest.mark.parametrize("type", protocol.TYPES)
def test_each_type_is_taken_with_its_least_data_and_defaults_are_filled(type):
    up = decode_up(json.dumps(message(type)))
    assert (up.type, up.msg_id, up.robot, up.session, up.seq) == (type, uuid.UUID(MSG), "RB-001", 7, 812)
    assert up.data.keys() == set(protocol.TYPES[type].data.__struct_fields__)
    assert up.occurred_at == datetime(2026, 11, 29, 10, 0, 0, 123000, UTC)


@pytest.mark.parametrize("type", protocol.TYPES)
def test_each_type_asks_for_its_mission_and_step(type):
    for name in protocol.TYPES[type].needs:
        bad = refusal(message(type, **{name: None}))
        assert (bad.field, bad.envelope.type) == (name, type)


@pytest.mark.parametrize("type", protocol.TYPES)
def test_each_type_keeps_to_its_channel(type):
    other = {"critical": "lossy", "lossy": "critical"}[protocol.TYPES[type].channel]
    bad = refusal(message(type, channel=other))
    assert (bad.field, bad.envelope.channel) == ("channel", other)


WRONG = [
    ("message", b""),
    ("message", b"{"),
    ("message", b"[]"),
    ("message", b"\xff\xfe"),
    ("message", "\ud800"),
    ("message", json.dumps(message()).encode() + b" more"),
    ("message", b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
    ("message", json.dumps(message(data={"mode": "idle", "x": "x" * protocol.MAX_BYTES}))),
    ("message", b'{"a": "\x00"}'),
    *[(name, without(name)) for name in ("v", "msg_id", "robot", "session", "channel", "seq", "type", "occurred_at")],
    ("v", message(v=2)),
    ("v", message(v="1")),
    ("msg_id", message(msg_id="17")),
    ("robot", message(robot="")),
    ("robot", message(robot="RB 001")),
    ("robot", message(robot="RB-001\n")),
    ("robot", message(robot="R" * 65)),
    ("robot", message(robot=None)),
    ("session", message(session=-1)),
    ("session", message(session=0)),
    ("seq", message(seq=0)),
    ("session", message(session=2**63)),
    ("session", message(session=1.5)),
    ("seq", message(seq="812")),
    ("channel", message(channel="urgent")),
    ("type", message(type="x" * 61)),
    ("type", message(type="robot.\0")),
    ("occurred_at", message(occurred_at="yesterday")),
    ("occurred_at", message(occurred_at="2026-11-29T10:00:00")),
    ("occurred_at", message(occurred_at="0001-01-01T00:00:00+14:00")),
    ("occurred_at", message(occurred_at="9999-12-31T23:59:59Z")),
    ("mission", message(mission="none")),
    ("dispatch_no", message(dispatch_no=0)),
    ("step", message(step=40_000)),
    ("attempt", message(attempt=0)),
]


@pytest.mark.parametrize(("field", "raw"), WRONG)
def test_a_wrong_envelope_names_the_field(field, raw):
    bad = refusal(raw)
    assert (bad.field, bad.envelope) == (field, None)
    assert bad.reason


WRONG_DATA = [
    ("type", message("robot.danced")),
    ("type", message("command.delivered", data={"command": MSG})),
    ("data", message("robot.state", data=[])),
    ("data", message("robot.state", data=None)),
    ("data.mode", message("robot.state", data={})),
    ("data.mode", message("robot.state", data={"mode": "unknown"})),
    ("data.mission", message("robot.state", data={"mode": "idle", "mission": "x"})),
    ("data.ended", message("robot.state", data={"mode": "idle", "ended": "maybe"})),
    ("data.why", message("mission.rejected", data={})),
    ("data.why", message("mission.rejected", data={"why": "a\0b"})),
    ("data.why", message("mission.cancelled", data={"why": None})),
    ("data.result", message("mission.step_completed", data={"result": 3})),
    ("data.code", message("robot.fault", data={"code": "x" * 201, "text": ""})),
    ("data.danger", message("robot.fault", data={"code": "x", "text": "", "danger": "yes"})),
    ("data.battery", message("robot.heartbeat", data={"battery": 101})),
    ("data.x", message("robot.telemetry", data={"x": 1e8, "y": 0, "theta": 0})),
]


@pytest.mark.parametrize(("field", "raw"), WRONG_DATA)
def test_wrong_data_names_the_field_and_keeps_the_envelope(field, raw):
    bad = refusal(raw)
    assert (bad.field, bad.envelope.seq, bad.msg_id) == (field, 812, MSG)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 400])
def test_numbers_are_finite(number):
    raw = json.dumps(message("robot.telemetry", data={"x": "?", "y": 0, "theta": 0})).replace('"?"', number)
    assert refusal(raw).field in {"data.x", "message", "data"}


def test_the_sender_learns_which_message_was_wrong():
    assert refusal(message(session="x")).msg_id == MSG
    assert refusal(b"{").msg_id is None


def test_text_of_64_kb_markup_and_any_script_is_taken_as_it_is():
    text = "<img src=x onerror=alert(1)> \"'\\ 🙂 \u202eשלום " + "x" * 64_000  # noqa: RUF001
    raw = json.dumps(message("robot.fault", data={"code": "E1", "text": text}), ensure_ascii=False)
    assert decode_up(raw).data["text"] == text


def test_unknown_fields_are_passed_over():
    up = decode_up(json.dumps(message("robot.state", data={"mode": "idle", "colour": "red"}, colour="red")))
    assert "colour" not in up.data


def test_a_clock_that_is_wrong_is_no_bad_input_and_times_are_utc():
    up = decode_up(json.dumps(message(occurred_at="1970-01-01T02:00:00+02:00")))
    assert up.occurred_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert up.occurred_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",) * 2,
        ("nonsense", ""),
        (17, ""),
        ({"a": "é"}, ""),
    ],
)
def test_a_trace_that_is_not_in_order_costs_nothing(sent, kept):
    assert decode_up(json.dumps(message(traceparent=sent))).traceparent == kept


def test_frames_are_told_apart():
    assert decode_frame(json.dumps({"type": "hello", "v": 1, "robot": "RB-001"})) == Hello(v=1, robot="RB-001")
    assert decode_frame(json.dumps({"type": "ack", "msg_id": MSG})) == Ack(msg_id=uuid.UUID(MSG))
    assert decode_frame(json.dumps(message())).type == "robot.state"


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"type": "hello", "v": 2, "robot": "RB-001"}, "v"),
        ({"type": "hello", "v": 1, "robot": "no spaces"}, "robot"),
        ({"type": "hello", "v": 1}, "robot"),
        ({"type": "ack"}, "msg_id"),
        ({"v": 1}, "type"),
    ],
)
def test_a_wrong_frame_names_the_field(frame, field):
    with pytest.raises(Bad) as caught:
        decode_frame(json.dumps(frame))
    assert caught.value.field == field


def test_each_delivery_of_a_command_is_a_message_of_its_own():
    command, now = uuid.UUID(MSG), datetime(2026, 11, 29, tzinfo=UTC)
    msg_id, raw = frames.delivered(command, "RB-001", now)
    assert msg_id != frames.delivered(command, "RB-001", now + timedelta(seconds=5))[0]
    up = decode_up(raw)
    assert (up.msg_id, up.session, up.type, up.data) == (msg_id, 0, "command.delivered", {"command": command})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
fields = st.sampled_from([*message(), "mission", "dispatch_no", "step", "attempt", "traceparent"])


@given(st.binary(max_size=400) | st.text(max_size=400))
def test_no_bytes_raise_anything_but_bad(raw):
    for decode in (decode_up, decode_frame):
        with pytest.raises(Bad):
            decode(raw)


@given(st.sampled_from([*protocol.TYPES]), st.dictionaries(fields, json_values, max_size=3), st.data())
def test_no_field_value_raises_anything_but_bad(type, changed, data):
    raw = json.dumps({**message(type), **changed})
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + data.draw(st.text(max_size=2)) + raw[at + 1 :]
    for decode in (decode_up, decode_frame):
        try:
            decode(raw)
        except Bad as bad:
            assert bad.field
            assert bad.reason


data_fields = st.sampled_from(["why", "text", "mode", "x", "battery", "result"])


@given(st.sampled_from([*protocol.TYPES]), st.dictionaries(data_fields, json_values))
def test_no_data_raises_anything_but_bad_and_what_passes_can_be_stored(type, values):
    try:
        up = decode_up(json.dumps(message(type, data={**ENOUGH.get(type, {}), **values})))
    except Bad as bad:
        assert bad.field
        assert "\0" not in bad.reason
    else:
        assert not any("\0" in value for value in up.data.values() if isinstance(value, str))


def test_the_module_needs_no_django():
    source = Path(protocol.__file__).read_text()
    assert not re.search(r"^(from|import) (django|fleet|missions)", source, re.MULTILINE)


@pytest.mark.parametrize(("data", "allowed"), [
    ({"mode": "asleep"}, "idle, running, charging, paused, fault, manual"),
    ({"mode": "idle", "ended": "eaten"}, "“”, finished, cancelled, rejected, failed"),
])  # fmt: skip
def test_a_word_that_is_none_of_a_few_is_told_which_there_are(data, allowed):
    assert refusal(message("robot.state", data=data)).reason.endswith(f": it is one of {allowed}")
