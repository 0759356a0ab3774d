"""What robots say over MQTT: bounded, whatever a robot or a broker sends."""

import pytest

from telemetry.gateways.mqtt import talk as talks
from telemetry.gateways.mqtt import waiting, words
from tests.telemetry.mqtt.fake_broker import begun, breaks, until
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = {"mode": "idle"}


async def test_of_states_that_wait_the_newest_count_and_events_all(stage, monkeypatch, streams):
    monkeypatch.setattr(waiting, "KEPT", 2)
    await begun(stage)
    talk = stage.talk()
    monkeypatch.setattr(type(talk), "is_held_up", property(lambda self: held[0]))
    held = [True]
    for n in range(5):
        stage.raw(b"[]" + b" " * n, part="state")
        stage.tell(["say", f"e{n}", "robot.state", IDLE])
    assert [m[1] for m in talk._messages].count("events") == 5
    held[0] = False
    stage.gateway.ready(talk)
    await until(lambda: len(stored(streams, "RB-009")) == 5)
    heard = [
        payload for what, part, payload in (c for c in stage.conversation.calls if c[0] == "hear") if part == "state"
    ]
    assert heard == [b"[]" + b" " * n for n in (3, 4)]


async def test_while_too_much_waits_of_all_robots_only_one_state_of_each_is_kept(stage, monkeypatch):
    await begun(stage)
    monkeypatch.setattr(waiting, "CROWD", 3)
    monkeypatch.setattr(type(stage.talk()), "is_held_up", property(lambda self: True))
    for n in range(9):
        stage.raw(b"[]" + b" " * n, part="state")
    assert len(stage.talk()._messages) <= 4
    assert list(stage.talk()._messages)[-1][0].payload == b"[]" + b" " * 8
    assert stage.gateway._crowd.messages == len(stage.talk()._messages)


async def test_a_robot_whose_words_wait_is_not_heard_until_there_is_room(stage, monkeypatch, streams):
    for module in (talks, waiting, words):
        monkeypatch.setattr(module, "WINDOW", 4)
    await begun(stage)
    down, asked = breaks(stage, monkeypatch)
    numbers = [stage.tell(["say", f"w{n}", "robot.state", IDLE]) for n in range(10)]
    await until(lambda: asked)
    assert len(stage.talk().words) == 4
    assert len(stage.talk()._messages) == 6
    down.clear()
    await until(lambda: numbers[-1] in stage.broker.acked)
    assert [f["seq"] for f in stored(streams, "RB-009")] == [*range(1, 11)]


async def test_who_sends_too_much_for_long_is_let_go_of_so_that_the_broker_has_room_for_others(
    stage, monkeypatch, streams
):
    for module in (talks, waiting, words):
        monkeypatch.setattr(module, "WINDOW", 4)
    await begun(stage)
    allowance = stage.gateway.links.allowance("RB-009")
    allowance.level, allowance.per_s, allowance.at = 0.0, 0.1, stage.gateway.clock()
    numbers = [stage.tell(["say", f"w{n}", "robot.state", IDLE]) for n in range(3)]
    await until(lambda: stage.talk().words.is_throttled)
    numbers += [stage.tell(["say", f"x{n}", "robot.state", IDLE]) for n in range(20)]
    assert len(stage.talk()._messages) <= 4
    assert stage.talk().link is None, "it has to begin anew, and repeat"
    assert stage.talk()._pause is not None, "and not at once"
    assert len([n for n in numbers if n not in stage.broker.acked]) <= 10


async def test_who_sends_too_much_that_says_nothing_is_let_go_of_as_well(stage, monkeypatch):
    """A hello that comes again and again, or what cannot be read: no word of it waits to be stored."""
    for module in (talks, waiting, words):
        monkeypatch.setattr(module, "WINDOW", 4)
    await begun(stage)
    rate = stage.talk()._rate
    rate.level, rate.per_s, rate.at = 0.0, 0.001, stage.gateway.clock()
    numbers = [stage.tell()]
    await until(lambda: stage.talk()._is_hasty)
    numbers += [stage.tell() for _ in range(20)]
    assert len(stage.talk()._messages) <= 4
    assert len([n for n in numbers if n not in stage.broker.acked]) <= 4
    assert stage.talk().link is None, "it has to begin anew, and repeat"


async def test_memory_and_log_are_bounded_whatever_a_broker_sends(stage, monkeypatch, caplog):
    await begun(stage)
    monkeypatch.setattr(waiting, "FLOOD", 50)
    monkeypatch.setattr(type(stage.talk()), "is_held_up", property(lambda self: True))
    numbers = [stage.tell(["say", f"w{n}", "robot.state", IDLE]) for n in range(200)]
    assert stage.gateway._crowd.messages <= 51
    assert len([n for n in numbers if n not in stage.broker.acked]) == stage.gateway._crowd.messages
    assert stage.talk().link is None, "it has to begin anew, and repeat"
    assert caplog.text.count("sends too much") == 1


async def test_a_driver_that_fails_at_each_message_fills_no_log(stage, caplog):
    await begun(stage)
    for what in ("boom", "garbage", "unwritable"):
        stage.tell([what])
    last = stage.tell(["boom"])
    await until(lambda: last in stage.broker.acked)
    assert caplog.text.count("Traceback") == 1
    stage.talk()._failures._last -= 11
    last = stage.tell(["boom"])
    await until(lambda: last in stage.broker.acked)
    assert "(and 3 before it)" in caplog.text
