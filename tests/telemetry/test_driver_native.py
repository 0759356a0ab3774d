"""The native protocol over MQTT, message by message: what it means, and what it is answered."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from telemetry import protocol
from telemetry.drivers import native
from telemetry.drivers.contract import Begins, Command, Complaint, Delivered, Heard, Link, Say, Send, Spec, Tell, Wanted
from telemetry.drivers.native import ASK_AGAIN, driver

NOW = datetime(2026, 11, 29, 10, tzinfo=UTC)
ROBOT = Spec(id="RB-001", address="RB-001", profile=driver.profile())
ALIVE = Link(hint="alive")
IDLE = {"mode": "idle"}


class Talking:
    """A conversation, and what a robot says in it."""

    def __init__(self, session: int | None = 7):
        self.talk = driver.converse(ROBOT)
        if session:
            self.hear(hello())
            list(self.talk.begun(session, {5: 3}, NOW))

    def hear(self, frame, part="events", *, at=NOW, retained=False, wanted=Wanted()):  # noqa: B008
        payload = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        return list(self.talk.hear(Heard(part=part, payload=payload, at=at, retained=retained), wanted))


def hello(**over):
    return {"v": 1, "type": "hello", "robot": "RB-001", "msg_id": str(uuid.uuid4()), "data": {"token": "T"}, **over}


def up(type, data=None, **over):
    channel = protocol.TYPES[type].channel if type in protocol.TYPES else "critical"
    return {
        "v": 1, "msg_id": str(uuid.uuid4()), "robot": "RB-001", "session": 7, "channel": channel, "seq": 1, "type": type,
        "occurred_at": "2026-11-29T09:59:58Z", "data": data or {}, **over,
    }  # fmt: skip


def sent(*effects):
    """The frames that go to the robot."""
    found = [effect for effect in effects if isinstance(effect, Send)]
    assert all((s.topic, s.qos) == ("drover/v1/RB-001/commands", 1) for s in found)
    return [json.loads(s.payload) for s in found]


# --- topics


def test_its_topics():
    topics = dict(driver.topics(ROBOT))
    assert topics == {
        f"drover/v1/RB-001/{part}": qos for part, qos in [("events", 1), ("telemetry", 0), ("presence", 1)]
    }
    assert {driver.whose(topic) for topic in topics} == {
        ("RB-001", part) for part in ("events", "telemetry", "presence")
    }
    assert list(driver.commands(ROBOT)) == ["drover/v1/RB-001/commands"]


@pytest.mark.parametrize(
    "topic", ["drover/v1/RB-001/commands", "drover/v2/RB-001/events", "drover/v1/events", "a/drover/v1/R/events", "", "drover/v1/a/b/events"]
)  # fmt: skip
def test_other_topics_are_nobodys(topic):
    assert driver.whose(topic) is None


# --- the link


def test_hello_shows_the_token_and_is_welcomed_once_the_session_is_open():
    talking = Talking(session=None)
    assert talking.hear(hello()) == [ALIVE, Begins(token="T")]
    [welcome] = sent(*talking.talk.begun(7, {5: 3}, NOW))
    assert (welcome["type"], welcome["session"], welcome["applied"]) == ("welcome", 7, {"5": 3})


def test_the_same_hello_again_has_the_same_answer_and_another_one_begins_anew():
    talking, first = Talking(session=None), hello()
    talking.hear(first)
    [welcome] = sent(*talking.talk.begun(7, {}, NOW))
    alive, again = talking.hear(first)
    assert alive == ALIVE and sent(again) == [welcome]
    assert Begins(token="T") in talking.hear(hello())
    nameless = hello(msg_id=None)
    assert Begins(token="T") in talking.hear(nameless)
    list(talking.talk.begun(8, {}, NOW))
    assert Begins(token="T") in talking.hear(nameless)


@pytest.mark.parametrize("session", [0, None, 1])
def test_who_has_said_no_hello_is_told_of_that_and_not_of_its_session(session):
    frame = up("robot.state", IDLE, session=session)
    with pytest.raises(protocol.Bad, match="hello comes first") as bad:
        native.read_in_turn(json.dumps(frame), "RB-001", None)
    assert (bad.value.field, bad.value.msg_id) == ("type", frame["msg_id"])


def test_who_shows_a_token_that_is_not_valid_is_told_to_stay_away():
    talking = Talking(session=None)
    talking.hear(hello())
    [told] = sent(*talking.talk.refused(NOW))
    assert (told["type"], told["code"]) == ("close", protocol.UNAUTHORISED)
    assert "token" in told["reason"]


@pytest.mark.parametrize("data", [{}, {"token": ""}, {"token": 7}, {"token": None}])
def test_a_hello_without_a_token_is_refused(data):
    effects = Talking(session=None).hear(hello(data=data))
    assert Complaint(field="data.token", reason="is missing") in effects
    assert not any(isinstance(effect, Begins) for effect in effects)
    assert [(frame["verdict"], frame["field"]) for frame in sent(*effects)] == [("invalid", "data.token")]


def test_a_gateway_that_knows_of_no_link_asks_for_a_hello_now_and_then_and_takes_nothing():
    talking = Talking(session=None)
    assert sent(*talking.hear(up("robot.state", IDLE))) == [{"type": "close", "code": 4012, "reason": "say hello"}]
    assert talking.hear(up("robot.heartbeat"), "telemetry") == [ALIVE]
    assert talking.hear(up("robot.state", {"mode": "asleep"})) == [ALIVE], "no verdict: it comes again after the hello"
    assert len(talking.hear(up("robot.heartbeat"), "telemetry", at=NOW + ASK_AGAIN)) == 2


def test_while_a_hello_waits_for_its_answer_nobody_asks_for_another_one():
    talking = Talking(session=None)
    talking.hear(hello())
    assert talking.hear(up("robot.state", IDLE), at=NOW + timedelta(seconds=1)) == [ALIVE]
    assert sent(*talking.hear(up("robot.state", IDLE), at=NOW + ASK_AGAIN))[0]["type"] == "close"


def test_a_message_of_a_newer_link_is_left_to_the_gateway_that_has_it():
    assert Talking().hear(up("robot.state", IDLE, session=8)) == [ALIVE]
    assert Talking().hear(up("robot.state", {"mode": "asleep"}, session=8)) == [ALIVE]


@pytest.mark.parametrize(("payload", "hint"), [(b"online", "alive"), (b"offline", "gone")])
def test_presence_is_a_hint_but_not_when_it_is_retained(payload, hint):
    assert Talking(None).hear(payload, "presence") == [Link(hint=hint)]
    assert Talking(None).hear(payload, "presence", retained=True) == []


@pytest.mark.parametrize("payload", [b"", b"gone", b"\xff", b'{"online": true}'])
def test_other_presence_is_complained_of(payload):
    assert Talking(None).hear(payload, "presence") == [Complaint(field="presence", reason="must be online or offline")]


def test_a_retained_message_is_old_and_says_nothing():
    talking = Talking()
    for frame in (hello(), up("robot.state", IDLE), up("robot.telemetry", {"x": 1.0, "y": 2.0, "theta": 0.0})):
        assert [effect.field for effect in talking.hear(frame, retained=True)] == ["retain"]


# --- words


def test_a_critical_message_is_said_as_it_came_and_acknowledged_when_it_is_stored():
    talking, mission = Talking(), uuid.uuid4()
    about = {"mission": str(mission), "dispatch_no": 2, "step": 3, "attempt": 4}
    frame = up("mission.step_completed", {"result": "done"}, session=6, seq=9, **about)
    alive, word = talking.hear(frame)
    assert alive == ALIVE
    assert word == Say(
        id=uuid.UUID(frame["msg_id"]), type="mission.step_completed", occurred_at=NOW - timedelta(seconds=2),
        data={"result": "done"}, mission=mission, dispatch_no=2, step=3, attempt=4, session=6, seq=9,
        raw=json.dumps(frame).encode(),
    )  # fmt: skip
    for verdict in ("stored", "duplicate"):
        assert sent(*talking.talk.stored(word, verdict, NOW)) == [
            {"type": "ack", "msg_id": frame["msg_id"], "verdict": verdict}
        ]


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (up("robot.state", {"mode": "asleep"}), "data.mode"),
        (up("robot.dance"), "type"),
        (up("mission.accepted", mission=str(uuid.uuid4())), "dispatch_no"),
    ],
)
def test_a_critical_message_with_wrong_data_is_said_all_the_same_and_refused_once_it_is_stored(frame, field):
    talking = Talking()
    complaint, alive, word = talking.hear(frame)
    assert isinstance(complaint, Complaint) and complaint.field == field
    assert alive == ALIVE, "what it says is refused, not that it speaks"
    assert (word.id, word.seq, word.raw) == (uuid.UUID(frame["msg_id"]), 1, json.dumps(frame).encode())
    [answer] = sent(*talking.talk.stored(word, "stored", NOW))
    assert (answer["verdict"], answer["field"], answer["msg_id"]) == ("invalid", field, frame["msg_id"])


def test_what_is_too_long_to_be_read_says_that_it_lives_and_is_refused_for_that():
    talking = Talking()
    effects = list(talking.talk.hear(Heard(part="events", payload=b"", at=NOW, too_long=True), Wanted()))
    assert ALIVE in effects
    [answer] = sent(*effects)
    assert (answer["verdict"], answer["reason"]) == ("invalid", f"is longer than {protocol.MAX_BYTES} bytes")


BAD = {
    "no json": (b"{", "message"),
    "no text": (b"\xff\xfe", "message"),
    "nul": (b'{"a": "\0"}', "message"),
    "deep": (b"[" * 40000, "message"),
    "long": (json.dumps({"x": "y" * 70000}).encode(), "message"),
    "another robot": (up("robot.state", IDLE, robot="RB-002"), "robot"),
    "another's hello": (hello(robot="RB-002"), "robot"),
    "version": (up("robot.state", IDLE, v=2), "v"),
    "no seq": (up("robot.state", IDLE, seq=0), "seq"),
    "session 0": (up("robot.state", IDLE, session=0), "session"),
    "old session of a lossy message": (up("robot.heartbeat", session=6), "session"),
    "channel": (up("robot.heartbeat", channel="critical"), "channel"),
    "data of a lossy message": (up("robot.telemetry", {"x": "far"}), "data.x"),
}


@pytest.mark.parametrize(("frame", "field"), BAD.values(), ids=BAD)
def test_bad_input_is_named_by_field_and_costs_nothing_else(frame, field):
    talking = Talking()
    effects = talking.hear(frame)
    assert [effect.field for effect in effects if isinstance(effect, Complaint)] == [field]
    kept = [effect for effect in effects if isinstance(effect, Say)]
    answers = sent(*(effects if not kept else talking.talk.stored(kept[0], "stored", NOW)))
    assert [(answer["verdict"], answer["field"]) for answer in answers] == [("invalid", field)]
    assert any(isinstance(effect, Say) for effect in talking.hear(up("robot.state", IDLE)))


def test_telemetry_is_told_with_the_skew_of_its_clock():
    pose = {"x": 1.0, "y": 2.0, "theta": 0.5}
    _, told = Talking().hear(up("robot.telemetry", pose, seq=4), "telemetry")
    assert told == Tell(facts={**pose, "speed": 0.0, "battery": None, "place": "", "skew_s": -2.0}, session=7, seq=4)


def test_a_heartbeat_is_answered_with_what_is_applied():
    beat = up("robot.heartbeat", {"battery": 50.0})
    _, told, answer = Talking().hear(beat, "telemetry", wanted=Wanted(applied={7: 12}))
    assert told.facts["battery"] == 50.0
    assert sent(answer) == [{"type": "ack", "msg_id": beat["msg_id"], "verdict": "seen", "applied": {"7": 12}}]


# --- commands


def test_a_command_goes_out_as_it_is_and_is_delivered_when_it_is_acknowledged():
    talking, pk = Talking(), uuid.uuid4()
    command = Command(id=pk, type="robot.stop", raw=json.dumps({"type": "robot.stop", "msg_id": str(pk)}))
    for _ in range(2):
        assert sent(*talking.talk.command(command, Wanted(), NOW)) == [{"type": "robot.stop", "msg_id": str(pk)}]
    ack = {"type": "ack", "msg_id": str(pk)}
    assert talking.hear(ack) == talking.hear(ack) == [ALIVE, Delivered(command=pk)]


def test_before_the_welcome_nothing_is_commanded():
    talking = Talking(session=None)
    command = Command(id=uuid.uuid4(), type="robot.stop", raw="{}")
    assert list(talking.talk.command(command, Wanted(), NOW)) == list(talking.talk.step(Wanted(), NOW)) == []


def test_all_its_effects_are_of_the_contract():
    from telemetry.drivers import contract

    talking = Talking()
    for frame, _ in BAD.values():
        for effect in talking.hear(frame):
            assert isinstance(effect, contract.Effect)
            msgspec.structs.asdict(effect)
