"""Scenarios of messages of which nothing can be read: old ones, other people's, broken ones, ones too long."""

from telemetry.drivers.kit.double import Case, Said
from telemetry.drivers.kit.playing import begun, finish

MOST_FIELDS = 60
HOSTILE = (
    b"", b"\0", b"\xff\xfe\x00", b"{", b"null", b"[]", b"7", b'"text"', b"{}", b"[" * 2000, b'{"a":' * 2000,
    b'{"headerId":null,"robot":7,"type":[],"data":"x"}', b'{"x":NaN}', b'{"x":1e999}', b'{"id":"' + b"9" * 5000 + b'"}',
    '{"type":"\N{PILE OF POO}","state":{"mode":{}}}'.encode(), b'{"a":1}{"a":2}', b"online\n",
)  # fmt: skip


def retained_messages_say_nothing(case: Case) -> None:
    """All that was ever heard comes again as if it had lain on the broker: `Bench` looks at the answers."""
    bench = begun(case)
    finish(bench)
    heard = list(bench.sayings)
    bench.connect()
    for said in heard:
        bench.hear(said, retained=True)
    sent = bench.down.count
    bench.assign()
    bench.run_until("the robot is given a new mission", lambda: bench.down.count > sent, 90)
    finish(bench)


def messages_too_long_to_be_read_say_that_it_lives(case: Case) -> None:
    """In the middle of a mission, on each topic: a robot that says nothing else is there all the same."""
    bench = begun(case)
    words, told = len(bench.words), len(bench.told)
    bench.hints.clear()
    for said in {said.topic: said for said in bench.sayings}.values():
        bench.hear(said, too_long=True)
    bench.check("alive" in bench.hints, "it speaks, and no Link says alive")
    bench.check(len(bench.words) == words and len(bench.told) == told, "a message without its payload was read")
    finish(bench)


def hostile_messages_cost_nothing_else(case: Case) -> None:
    """Rubbish on each topic, in the middle of a mission: complained of, and nothing is said because of it."""
    bench = begun(case)
    topics = {topic for topic, _ in bench.driver.topics(bench.spec) if "+" not in topic and "#" not in topic}
    topics |= {said.topic for said in bench.sayings}
    words, told = len(bench.words), len(bench.told)
    for topic in sorted(topics):
        for payload in HOSTILE:
            bench.hear(Said(topic=topic, payload=payload))
    bench.check(len(bench.words) == words and len(bench.told) == told, "rubbish was taken for a word of the robot")
    bench.check(bench.complaints, "nobody complained of rubbish")
    finish(bench)


def mutilated_messages_raise_nothing(case: Case) -> None:
    """Its own messages cut short, with bytes turned over and values exchanged, for a conversation of their own.

    Complaints are counted by field: what comes in may not make up new ones without end.
    """
    bench = begun(case)
    for said in {(said.topic, said.payload): said for said in bench.sayings}.values():
        talk = bench.driver.converse(bench.spec)
        for payload in _mutilated(said.payload):
            bench.try_out(talk, said.topic, payload)
    fields = {complaint.field for complaint in bench.complaints}
    bench.check(
        len(fields) <= MOST_FIELDS,
        f"complaints of {len(fields)} different fields, such as {max(fields, key=len)[:80]!r}",
    )


def _mutilated(payload: bytes) -> list[bytes]:
    cut = [payload[:n] for n in range(0, len(payload), max(1, len(payload) // 20))]
    turned = [payload[:n] + bytes([payload[n] ^ 0x15]) + payload[n + 1 :] for n in range(0, len(payload), 7)]
    pairs = ((b'"', b""), (b":", b":null,"), (b"0", b"-1"), (b"1", b"1e400"), (b"{", b"["), (b"true", b'"yes"'),
             (b":", b':[{"a":{}}],"b":'), (b"-", b"\0"), (b"2", b'"2"'))  # fmt: skip
    return [*cut, *turned, *(payload.replace(old, new) for old, new in pairs)]
