"""A thousand mutated and hostile payloads for each topic: each is read or complained of, in bounded time, and harms nothing."""

import json
import random
import time
import tracemalloc
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from telemetry import protocol
from telemetry.drivers.contract import Complaint, Dispatch, Heard, Place, Say, Send, Spec, Step, Tell, Wanted
from telemetry.drivers.vda5050 import VDA5050, meaning, reading
from telemetry.drivers.vda5050.picture import Connection, Factsheet, Picture, Visualization
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050 import recorded
from tests.telemetry.vda5050.words import MESSAGES, raw

COUNT = 1000
MOST_S = 1.0  # of CPU for one payload; the worst take a tenth of it
READ = {"state": Picture, "connection": Connection, "visualization": Visualization, "factsheet": Factsheet}
VALUES = [
    None, True, False, 0, -1, 7, 1.5, -0.0, 2**63, -(2**64), 10**400, 1e308, float("nan"), float("inf"), "", "x", "\0",
    "\ud800", "\udfff\ud800", "NONE", "FATAL", "nan", "1e999", "x" * 70_000, "\u202e<script>alert(1)</script>",
    [], [None], [[]], [7], ["x"], {}, {"": ""}, {"x": None}, [{}], [{"actionId": "a"}] * 3, [[[[[[[[[[]]]]]]]]]],
    "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-14:00", "0000-00-00T00:00:00Z", {"nodeId": {"nodeId": {}}},
]  # fmt: skip
TEXTS = [
    b"", b" ", b"\0", b"\xff\xfe", b"{", b"}", b"{}", b"[]", b"null", b"true", b"0", b'""', b"NaN", b"{not json",
    b"[" * 200_000, b'{"x":' * 50_000, b'{"x":' * 50_000 + b"1" + b"}" * 50_000, b"[" * 900 + b"]" * 900,
    b'{"orderId":"' + b"x" * 200_000 + b'"}', b'{"orderId":"' + b"\\ud800" * 30_000 + b'"}',
    b'{"orderId":"' + b"\\u0000" * 30_000 + b'"}', b'{"headerId":' + b"9" * 200_000 + b"}",
    b'{"driving":' + b"-" * 1000 + b"1}", b'{"orderId":1e999999999}', b'{"orderId":0.' + b"0" * 200_000 + b"1}",
    b'{"driving":true,"driving":"x","driving":[]}', b'{"x":"' + b"\\" * 100_000 + b'"}', b"x" * 300_000,
    b'{"nodeStates":[' + b"7," * 100_000 + b"7]}", b'{"nodeStates":[' + b"{}," * 80_000 + b"{}]}",
    b'{"orderId":"","errors":[' + b'{"errorReferences":[{}]},' * 9_000 + b"{}]}",
    b'{"orderId":"","actionStates":[' + b'{"actionId":1},' * 15_000 + b"{}]}",
    b'{"orderId":"","nodeStates":[' + b'{"sequenceId":"1"},' * 12_000 + b"{}]}",
    b'{"connectionState":"' + b"ONLINE" * 30_000 + b'"}', b'{"protocolFeatures":{"agvActions":[' + b"{}," * 80_000 + b"{}]}}",
    "{\"orderId\":\"\u0130\"}".encode(), "{\"orderId\":\"x\"}".encode("utf-16"), b'\xef\xbb\xbf{"orderId":"x"}',
]  # fmt: skip


NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def talk(name):
    begun = VDA5050().converse(Spec(id=f"RB-{name}", address=f"acme/{name}", profile=Profile()))
    list(begun.begun(1, {}, NOW))
    return begun


def places(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def mutated(message, chance):
    """A copy with one to three changes at any depth."""
    message = json.loads(json.dumps(message))
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice([path for path in places(message) if path])
        at = message
        for key in way:
            at = at[key]
        match chance.randrange(6):
            case 0:
                del at[last]
            case 1:
                at[last] = [at[last]] * chance.choice([1, 2, 300])
            case 2:
                at[last] = {"value": at[last]}
            case 3:
                at[last] = str(at[last])
            case _:
                at[last] = deepcopy(chance.choice(VALUES))
        if not message:
            break
    return message


def garbled(text, chance):
    """Cut, or with a few bytes changed, put in or taken out."""
    if chance.random() < 0.3:
        return text[: chance.randrange(len(text))]
    text = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        text[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(text)


def payloads(part, seeds):
    chance = random.Random(f"hostile {part}")
    made = list(TEXTS)
    made += [raw(MESSAGES[part], **{name: value}) for name in MESSAGES[part] for value in VALUES][: COUNT // 2]
    while len(made) < COUNT:
        seed = chance.choice(seeds)
        text = json.dumps(mutated(seed, chance)).encode()
        made.append(garbled(text, chance) if chance.random() < 0.3 and len(text) > 1 else text)
    return made


def samples():
    """What foreign robots sent, where it is to be had; so much more to mutate."""
    found = {part: [message] for part, message in MESSAGES.items()}
    if (recorded.SHARED / "samples").is_dir():
        for path in sorted((recorded.SHARED / "samples").glob("*.jsonl")):
            for message in recorded.messages(path.name):
                if message.part in found:
                    found[message.part].append(message.payload)
    return found


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts(inner)


def harmless(read):
    """Every store takes its texts, and whatever is said of it fits the protocol."""
    for text in texts(msgspec.to_builtins(read)):
        assert "\0" not in text
        text.encode()
    if isinstance(read, Picture):
        mode, faults = meaning.mode(read), meaning.faults(read)
        assert (mode is None) == (faults is None)
        if mode is not None:
            msgspec.convert({"mode": mode}, protocol.State)
        for fault in (*(faults or ()), *meaning.warnings(read)):
            msgspec.convert(fault._asdict(), protocol.Fault)
        assert len(meaning.rejected(read, "x")) <= 500
        assert len(meaning.refused_action(read, "")) <= 500
    if isinstance(read, (Picture, Visualization)):
        told = meaning.telemetry(read.position, read.velocity, getattr(read, "battery", None))
        msgspec.convert({"x": 0.0, "y": 0.0, "theta": 0.0} | told, protocol.Telemetry)
    if isinstance(read, Factsheet):
        meaning.capabilities(read, Profile())


@pytest.mark.parametrize("part", READ)
def test_nothing_escapes_and_all_is_counted(part):
    read = getattr(reading, part)
    good = raw(MESSAGES[part])
    before, outcomes, fields, slowest = read(good), {"read": 0, "complaint": 0}, set(), 0.0
    made = payloads(part, samples()[part])
    for payload in made:
        began = time.process_time()
        found = read(payload)
        if not isinstance(found, Complaint):
            assert type(found) is READ[part]
            harmless(found)
        slowest = max(slowest, time.process_time() - began)
        complaints = [found] if isinstance(found, Complaint) else getattr(found, "wrong", ())
        outcomes["complaint" if isinstance(found, Complaint) else "read"] += 1
        fields |= {complaint.field for complaint in complaints}
        assert all(0 < len(complaint.reason) < 300 for complaint in complaints)
        assert len(complaints) == len({complaint.field for complaint in complaints})
    assert sum(outcomes.values()) == len(made) == COUNT
    assert min(outcomes.values()) > 50, outcomes  # it is a test of both
    assert all(name.replace(".", "").isalpha() for name in fields), fields  # the standard's own, so they can be counted
    assert slowest < MOST_S
    assert read(good) == before


@pytest.mark.parametrize("part", READ)
def test_a_conversation_survives_it_and_the_robot_beside_it_hears_nothing_of_it(part):
    """On a mission, so that states are looked at for receipts. Whatever it says fits the protocol."""
    step = Step(number=1, command="navigate", params={"place": "A"}, place=Place(name="A", x=1, y=2))
    dispatch = Dispatch(mission=UUID(int=7), dispatch_no=1, steps=(step,))
    victim, neighbour, now = talk("1"), talk("2"), NOW
    good = Heard(part="state", payload=raw(MESSAGES["state"]), at=NOW)
    expected = list(talk("2").hear(good, Wanted()))
    counted = 0
    for payload in payloads(part, samples()[part]):
        payload = payload.replace(b'"o7"', f'"{dispatch.mission}.1.1.1"'.encode())  # its own order
        now += timedelta(seconds=1)
        effects = list(victim.hear(Heard(part=part, payload=payload, at=now), Wanted(dispatch=dispatch)))
        counted += any(isinstance(effect, Complaint) for effect in effects)
        for effect in (*effects, *victim.step(Wanted(dispatch=dispatch), now)):
            if isinstance(effect, Say):
                msgspec.convert(effect.data, protocol.TYPES[effect.type].data)
            elif isinstance(effect, Tell):
                msgspec.convert({"x": 0.0, "y": 0.0, "theta": 0.0} | effect.facts, protocol.Telemetry)
            elif isinstance(effect, Send):
                json.loads(effect.payload)
    assert counted > 50
    assert list(neighbour.hear(good, Wanted())) == expected
    later = Heard(part="state", payload=good.payload, at=now + timedelta(seconds=1))
    told, before = (
        [{**e.facts, "skew_s": None} for e in effects if isinstance(e, Tell)]
        for effects in (victim.hear(later, Wanted()), expected)
    )
    assert told == before


@pytest.mark.parametrize("part", ["state", "connection", "visualization"])
def test_both_ways_of_reading_agree(part, monkeypatch):
    """What the typed decoder takes is read the same field by field."""

    def never(payload):
        raise ValueError

    read, typed = getattr(reading, part), getattr(reading.typed, part)
    fast = {}
    for payload in payloads(part, samples()[part]):
        try:
            typed(payload)
        except reading._NOT_TYPED:
            continue
        fast[payload] = read(payload)
    assert len(fast) > 100
    monkeypatch.setattr(reading.typed, part, never)
    differ = {payload[:300]: (found, read(payload)) for payload, found in fast.items() if found != read(payload)}
    assert differ == {}


def test_what_is_complained_of_are_fields_of_the_standard():
    """A robot that invents names makes no new ones to count."""
    message = MESSAGES["state"] | {"evil" + str(n): {"evil": [n]} for n in range(50)}
    assert reading.state(raw(message, extra=float("nan"))).wrong == ()


def test_order_ids_of_a_robot_that_makes_up_long_ones_do_not_fill_the_memory():
    """They are looked up with each state, and what was found is kept for thousands of them."""
    begun, wanted = talk("ids"), Wanted(stopped=True)
    tracemalloc.start()
    try:
        for n in range(200):
            payload = json.dumps({"orderId": f"{n}" + "x" * 100_000, "driving": True, "nodeStates": [{"nodeId": "a"}]})
            list(begun.hear(Heard(part="state", payload=payload.encode(), at=NOW + timedelta(seconds=n)), wanted))
        assert tracemalloc.get_traced_memory()[0] < 2_000_000, "a fiftieth of what came"
    finally:
        tracemalloc.stop()
