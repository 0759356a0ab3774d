"""What robots say over MQTT: stored before it is acknowledged, in order, each word once."""

import asyncio
import json
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from fleet.models import Hold
from fleet.robots import stopping
from telemetry import protocol
from telemetry.drivers.contract import Say
from telemetry.gateways import rows
from telemetry.gateways.intake import Unavailable
from telemetry.gateways.mqtt import talk as talks
from telemetry.gateways.mqtt import words
from telemetry.models import Link
from tests.actors import SYSTEM
from tests.telemetry.mqtt.fake_broker import begun, breaks, until
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = {"mode": "idle"}


async def test_a_session_is_opened_under_the_gateways_stable_name_and_words_are_numbered_in_it(stage, streams, ask):
    link = await begun(stage)
    number = stage.tell(["say", "a", "robot.state", IDLE], ["say", "b", "robot.state", {"mode": "running"}])
    await until(lambda: number in stage.broker.acked)
    assert [(f["session"], f["seq"], f["data"]["mode"]) for f in stored(streams, "RB-009")] == [
        (1, 1, "idle"),
        (1, 2, "running"),
    ]
    assert ("begun", 1) in stage.conversation.calls
    assert [c for c in stage.conversation.calls if c[0] == "stored"] == [("stored", "robot.state", "stored")] * 2
    assert link.session == 1
    assert await ask(lambda: Link.objects.get(robot="RB-009").gateway) == "drover-one"


async def test_a_message_is_acknowledged_when_all_that_it_says_is_stored_and_not_before(stage, streams, monkeypatch):
    await begun(stage)
    down, asked = breaks(stage, monkeypatch)
    first = stage.tell(["say", "a", "robot.state", IDLE], ["say", "b", "robot.state", IDLE])
    second = stage.tell(["say", "c", "robot.state", IDLE])
    await until(lambda: len(asked) > 2)
    assert not {first, second} & set(stage.broker.acked)
    assert stage.talk().words._waiting[0].numbered is False
    down.clear()
    await until(lambda: second in stage.broker.acked)
    assert stage.broker.acked[-2:] == [first, second]
    assert [f["seq"] for f in stored(streams, "RB-009")] == [1, 2, 3]
    assert len(set(asked)) == len(asked), "each try is stamped anew: what comes late must not count as in time"


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "2026-11-29T10:00:00"])
async def test_a_clock_that_says_what_nobody_can_keep_costs_no_word(stage, streams, when):
    """Year 1 is what some robots say before they know the time."""
    await begun(stage)
    number = stage.tell(["say", "a", "robot.state", IDLE, when])
    await until(lambda: number in stage.broker.acked)
    (frame,) = stored(streams, "RB-009")
    assert protocol.decode_up(json.dumps(frame)).occurred_at.year > 2000


async def test_a_word_that_is_repeated_while_nothing_can_be_stored_waits_once(stage, streams, monkeypatch):
    """A driver says a word again and again until it is stored, and the store may be away for hours."""
    await begun(stage)
    down, asked = breaks(stage, monkeypatch)
    word = Say(id=uuid4(), type="robot.state", occurred_at=timezone.now(), data=IDLE)
    stage.conversation.step = lambda wanted, now: [word]
    await until(lambda: stage.talk()._opening is None)
    for _ in range(50):
        stage.talk().step(timezone.now())
    await until(lambda: asked)
    assert len(stage.talk().words) <= 2  # and the command that opened the link, perhaps
    down.clear()
    await until(lambda: len(stored(streams, "RB-009")) == 1)


async def test_a_report_of_pages_costs_no_word(stage, streams):
    await begun(stage)
    about = {"code": "E1", "text": "🤖" * 5000}
    assert len(json.dumps(about, ensure_ascii=False).encode()) > 10_000 > len(json.dumps(about["text"][:2000])) / 3
    stage.conversation.hear = lambda message, wanted: [
        Say(id=uuid4(), type="robot.fault", occurred_at=message.at, data=about | {"text": "🤖" * 40_000})
    ]
    number = stage.raw(b"a page")
    await until(lambda: number in stage.broker.acked)
    (frame,) = stored(streams, "RB-009")
    assert protocol.decode_up(json.dumps(frame, ensure_ascii=False)).data["text"].endswith("🤖…")


async def test_a_word_that_is_known_takes_no_number_and_its_message_is_acknowledged(stage, streams):
    await begun(stage)
    for key in ("a", "b", "a", "c"):
        number = stage.tell(["say", key, "robot.state", IDLE])
    await until(lambda: number in stage.broker.acked)
    assert [f["seq"] for f in stored(streams, "RB-009")] == [1, 2, 3]
    assert ("stored", "robot.state", "duplicate") in stage.conversation.calls


async def test_a_word_that_may_have_been_stored_keeps_its_number(stage, streams, monkeypatch):
    """The answer was lost, not the word: it is told as known, and the next one must not have its number again."""
    await begun(stage)
    works, lost = stage.gateway.links.intake.store, [True]

    async def store(*args):
        answer = await works(*args)
        if lost:
            lost.clear()
            raise Unavailable("no answer")
        return answer

    monkeypatch.setattr(stage.gateway.links.intake, "store", store)
    monkeypatch.setattr(words, "RETRY_S", (0.01,))
    stage.tell(["say", "a", "robot.state", IDLE])
    number = stage.tell(["say", "b", "robot.state", IDLE])
    await until(lambda: number in stage.broker.acked)
    assert [f["seq"] for f in stored(streams, "RB-009")] == [1, 2]


@pytest.mark.parametrize(
    "payload",
    [b"not json", b'[["boom"]]', b'[["garbage"]]', b'[["unwritable"]]', b'[["complain"]]', b"x" * 10_001, b"[[1]]"],
)
async def test_what_is_wrong_is_acknowledged_and_costs_nothing_else(stage, streams, payload):
    await begun(stage)
    bad = stage.raw(payload)
    good = stage.tell(["say", "a", "robot.state", IDLE])
    await until(lambda: good in stage.broker.acked)
    assert bad in stage.broker.acked
    assert len(stored(streams, "RB-009")) == 1


async def test_without_the_database_the_first_message_waits_and_is_heard_again(stage, monkeypatch, streams, caplog):
    failed = []

    def broken(*_):
        failed.append(1)
        raise OperationalError("gone")

    works = rows.open_session
    monkeypatch.setattr(rows, "open_session", broken)
    monkeypatch.setattr(talks, "REST_S", 0.01)
    number = stage.tell(["begin"], ["say", "a", "robot.state", IDLE])
    await until(lambda: len(failed) > 3)
    assert number not in stage.broker.acked
    assert caplog.text.count("robots cannot be let in, the database does not answer") == 1
    monkeypatch.setattr(rows, "open_session", works)
    await until(lambda: number in stage.broker.acked)
    assert len(stored(streams, "RB-009")) == 1


async def test_that_a_robot_stands_is_written_while_the_durable_redis_is_away(stage, monkeypatch, ask):
    await begun(stage)
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    breaks(stage, monkeypatch)
    stage.tell(["say", "s", "robot.stopped", {}])
    for _ in range(500):
        if await ask(lambda: Hold.objects.filter(robot="RB-009", confirmed_at__isnull=False).exists()):
            break
        await asyncio.sleep(0.01)
    else:
        raise AssertionError("nobody wrote it")


async def test_what_it_can_do_is_said_once_until_it_says_otherwise(stage, streams):
    await begun(stage)
    for can in (["pick"], ["pick"], ["drop", "pick"]):
        stage.tell(["offers", can])
    number = stage.tell(["say", "a", "robot.state", IDLE])
    await until(lambda: number in stage.broker.acked)
    told = [f["data"]["capabilities"] for f in stored(streams, "RB-009") if f["type"] == "robot.capabilities"]
    assert told == [["pick"], ["drop", "pick"]]
