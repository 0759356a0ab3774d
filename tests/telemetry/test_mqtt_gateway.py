"""What the gateway does with what a driver answers: stored before acknowledged, in order, bounded; commands; signs of life."""

import asyncio
import json
from uuid import uuid4

import msgspec
import pytest
import redis
from django.db import OperationalError
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Alert, Command, Delivery, Hold
from fleet.robots import actions, stopping
from telemetry import protocol, snapshots, stream
from telemetry.drivers import registry
from telemetry.drivers.contract import Say
from telemetry.gateways import limits, rows
from telemetry.gateways.intake import Unavailable
from telemetry.gateways.link import SILENT_S
from telemetry.gateways.mqtt import gateway as gateways
from telemetry.gateways.mqtt import talk as talks
from telemetry.gateways.mqtt import waiting, words
from telemetry.gateways.mqtt.broker import Away
from telemetry.gateways.mqtt.shown import without_tokens
from telemetry.models import Knock, Link
from telemetry.one_connection import OneConnection
from telemetry.pages import inspector
from tests.actors import SYSTEM, online
from tests.telemetry.fake_broker import on_stage

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = {"mode": "idle"}


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "scripted", "tests.telemetry.scripted_driver:driver")
    registry.forget()
    yield
    monkeypatch.undo()
    registry.forget()


@pytest.fixture(autouse=True)
def streams(settings):
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live, redis.Redis.from_url(settings.REDIS_URL) as durable:
        live.flushdb()
        durable.flushdb()
        yield durable


@pytest.fixture
def scripted_robot(site, scripted):
    brand = create_brand("Scripted", driver="scripted", capabilities=["navigate"], by=SYSTEM)
    actions.enrol_robot(id="RB-009", name="Nine", site=site, brand=brand, address="A9", by=SYSTEM)
    online("RB-009")
    return brand


@pytest.fixture
async def ask():
    asking = OneConnection("test")
    yield asking.ask
    asking.close()


@pytest.fixture
async def stage(scripted_robot):
    async with on_stage() as stage:
        yield stage


async def until(predicate):
    """It comes about by what is under way; nobody waits for a clock."""
    for _ in range(2000):
        if found := predicate():
            return found
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come about")


def stored(durable, robot="RB-009"):
    entries = durable.xrange(stream.key(stream.partition_of(robot)))
    return [json.loads(fields[b"raw"]) for _, fields in entries if fields[b"robot"] == robot.encode()]


async def begun(stage):
    stage.tell(["begin"])
    return await until(lambda: stage.talk().link)


def breaks(stage, monkeypatch):
    """The durable Redis takes nothing until the list is emptied; what was asked of it."""
    asked, intake = [], stage.gateway.links.intake
    works, down = intake.store, [True]

    async def store(robot, msg_id, raw, received_at):
        asked.append(received_at)
        if down:
            raise Unavailable("down")
        return await works(robot, msg_id, raw, received_at)

    monkeypatch.setattr(intake, "store", store)
    monkeypatch.setattr(words, "RETRY_S", (0.01,))
    return down, asked


# --- words


async def test_a_session_is_opened_under_the_gateways_stable_name_and_words_are_numbered_in_it(stage, streams, ask):
    link = await begun(stage)
    number = stage.tell(["say", "a", "robot.state", IDLE], ["say", "b", "robot.state", {"mode": "running"}])
    await until(lambda: number in stage.broker.acked)
    assert [(f["session"], f["seq"], f["data"]["mode"]) for f in stored(streams)] == [(1, 1, "idle"), (1, 2, "running")]
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
    assert [f["seq"] for f in stored(streams)] == [1, 2, 3]
    assert len(set(asked)) == len(asked), "each try is stamped anew: what comes late must not count as in time"


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "2026-11-29T10:00:00"])
async def test_a_clock_that_says_what_nobody_can_keep_costs_no_word(stage, streams, when):
    """Year 1 is what some robots say before they know the time."""
    await begun(stage)
    number = stage.tell(["say", "a", "robot.state", IDLE, when])
    await until(lambda: number in stage.broker.acked)
    (frame,) = stored(streams)
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
    await until(lambda: len(stored(streams)) == 1)


async def test_a_report_of_pages_costs_no_word(stage, streams):
    await begun(stage)
    about = {"code": "E1", "text": "🤖" * 5000}
    assert len(json.dumps(about, ensure_ascii=False).encode()) > 10_000 > len(json.dumps(about["text"][:2000])) / 3
    stage.conversation.hear = lambda message, wanted: [
        Say(id=uuid4(), type="robot.fault", occurred_at=message.at, data=about | {"text": "🤖" * 40_000})
    ]
    number = stage.raw(b"a page")
    await until(lambda: number in stage.broker.acked)
    (frame,) = stored(streams)
    assert protocol.decode_up(json.dumps(frame, ensure_ascii=False)).data["text"].endswith("🤖…")


async def test_a_word_that_is_known_takes_no_number_and_its_message_is_acknowledged(stage, streams):
    await begun(stage)
    for key in ("a", "b", "a", "c"):
        number = stage.tell(["say", key, "robot.state", IDLE])
    await until(lambda: number in stage.broker.acked)
    assert [f["seq"] for f in stored(streams)] == [1, 2, 3]
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
    assert [f["seq"] for f in stored(streams)] == [1, 2]


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
    assert len(stored(streams)) == 1


async def test_without_the_database_the_first_message_waits_and_is_heard_again(stage, monkeypatch, streams):
    failed = []

    def broken(*_):
        failed.append(1)
        raise OperationalError("gone")

    works = rows.open_session
    monkeypatch.setattr(rows, "open_session", broken)
    monkeypatch.setattr(talks, "REST_S", 0.01)
    number = stage.tell(["begin"], ["say", "a", "robot.state", IDLE])
    await until(lambda: len(failed) > 1)
    assert number not in stage.broker.acked
    monkeypatch.setattr(rows, "open_session", works)
    await until(lambda: number in stage.broker.acked)
    assert len(stored(streams)) == 1


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
    told = [f["data"]["capabilities"] for f in stored(streams) if f["type"] == "robot.capabilities"]
    assert told == [["pick"], ["drop", "pick"]]


# --- too much


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
    await until(lambda: len(stored(streams)) == 5)
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
    assert [f["seq"] for f in stored(streams)] == [*range(1, 11)]


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


async def test_memory_is_bounded_whatever_a_broker_sends(stage, monkeypatch):
    await begun(stage)
    monkeypatch.setattr(waiting, "FLOOD", 50)
    monkeypatch.setattr(type(stage.talk()), "is_held_up", property(lambda self: True))
    numbers = [stage.tell(["say", f"w{n}", "robot.state", IDLE]) for n in range(200)]
    assert stage.gateway._crowd.messages <= 51
    assert len([n for n in numbers if n not in stage.broker.acked]) == stage.gateway._crowd.messages
    assert stage.talk().link is None, "it has to begin anew, and repeat"


# --- tokens, and too many links


async def test_a_token_that_is_not_valid_is_answered_and_ends_the_link_that_there_was(stage, ask):
    await begun(stage)
    number = stage.tell(["begin", "drover_wrong"])
    await until(lambda: number in stage.broker.acked)
    assert stage.broker.published == [("scripted/A9/order", b"refused", 0)]
    assert stage.talk().link is None
    assert stage.gateway.links.of("RB-009") is None
    await stage.gateway.links.knocks.step()
    assert await ask(lambda: list(Knock.objects.values_list("robot", "why"))) == [("RB-009", "unknown")]


async def test_who_begins_again_and_again_has_to_wait_and_is_let_in_later(stage, monkeypatch, ask):
    monkeypatch.setattr(limits, "HELLOS", 3.0)
    monkeypatch.setattr(talks, "REST_S", 0.01)
    stage.gateway.links.clock = lambda: 100.0
    for _ in range(5):
        stage.tell(["begin"])
    await until(lambda: stage.talk()._pause is not None)
    assert await ask(lambda: Link.objects.get(robot="RB-009").session) == 3
    stage.gateway.links.clock = lambda: 102.0
    await until(lambda: stage.talk().link is not None and stage.talk().link.session == 5)


# --- signs of life, telemetry


def life(robot="RB-009"):
    return snapshots.last_received([robot])


async def test_a_live_message_is_a_sign_of_life_a_retained_one_and_one_that_waited_at_the_broker_are_none(stage):
    await begun(stage)
    await until(lambda: life().at)
    talk, before = stage.talk(), life().at["RB-009"]
    for old in ("retained", "catches_up"):
        stage.broker.catches_up, talk.signs._passed_at = old == "catches_up", float("-inf")
        stage.tell(["link", "alive"], retained=old == "retained")
        number = stage.tell(["link", "gone"], retained=old == "retained")
        await until(lambda: number in stage.broker.acked)  # noqa: B023
        await stage.gateway.links.vitals.step()
    assert (life().at["RB-009"], life().gone) == (before, {})
    stage.broker.catches_up = False
    stage.tell(["link", "alive"])
    await until(lambda: life().at["RB-009"] > before)


async def test_wills_and_unanswered_questions_are_passed_on(stage):
    await begun(stage)
    stage.tell(["link", "gone"], ["link", "unanswered"], part="state")
    await until(lambda: life().gone and life().unanswered)


async def test_telemetry_becomes_the_snapshot_without_what_is_unsound(stage, settings):
    await begun(stage)
    stage.tell(
        ["tell", {"x": 1.5, "y": 2, "battery": 140, "speed": "fast", "place": "Dock A", "nonsense": 1}], part="state"
    )
    await until(lambda: snapshots.last_known(["RB-009"]))
    known = snapshots.last_known(["RB-009"])["RB-009"]
    assert (known.x, known.y, known.battery, known.speed, known.place) == (1.5, 2.0, None, None, "Dock A")


# --- commands


async def test_a_command_goes_through_the_conversation_and_is_delivered_when_it_says_so(stage, streams, ask):
    await begun(stage)
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    await stage.gateway.links.step(["RB-009"])
    assert ("scripted/A9/order", b"robot.stop", 0) in stage.broker.published
    await until(lambda: [f for f in stored(streams) if f["type"] == "command.delivered"])
    await stage.gateway.links.tries.step()
    assert await ask(lambda: list(Delivery.objects.values_list("over", "tries", "gateway"))) == [
        ("MQTT", 1, "drover-one")
    ]


async def test_over_a_broker_that_is_away_nothing_is_marked_as_sent(stage, ask):
    await begun(stage)
    stage.broker.hears = False
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    await stage.gateway.links.step(["RB-009"])
    assert not await ask(lambda: Command.objects.get().sent_at)
    stage.broker.hears = True
    await stage.gateway.links.step(["RB-009"])
    assert stage.broker.published


async def test_a_command_whose_frame_could_not_leave_is_not_delivered_and_comes_again(stage, streams, ask, monkeypatch):
    link = await begun(stage)
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    publish = stage.broker.publish
    monkeypatch.setattr(stage.broker, "publish", lambda *_: (_ for _ in ()).throw(Away("it takes nothing more")))
    await stage.gateway.links.step(["RB-009"])
    [sending] = link.commands.values()
    assert (sending.sent, sending.acknowledged) == (1, False)
    monkeypatch.setattr(stage.broker, "publish", publish)
    sending.due = 0.0
    await stage.gateway.links.step(["RB-009"])
    await until(lambda: [f for f in stored(streams) if f["type"] == "command.delivered"])


async def test_no_time_passes_for_a_conversation_while_the_broker_is_away(stage):
    await begun(stage)
    steps = []
    stage.conversation.step = lambda wanted, now: steps.append(now) or []
    stage.broker.hears = False
    await stage.gateway.links.step(["RB-009"])
    assert not steps
    stage.broker.hears = True
    await stage.gateway.links.step(["RB-009"])
    assert steps  # by this look, and perhaps by the one of each second


async def test_a_robot_that_says_little_is_not_cut_off_before_its_brand_suspects_it(stage):
    link = await begun(stage)
    stage.talk().robot = msgspec.structs.replace(stage.talk().robot, suspect_after_s=35.0)
    assert [link.silent(link.heard + after_s) for after_s in (34, 36)] == [False, True]
    stage.talk().robot = msgspec.structs.replace(stage.talk().robot, suspect_after_s=1.0)
    assert [link.silent(link.heard + after_s) for after_s in (SILENT_S - 1, SILENT_S + 1)] == [False, True]


# --- who is served


async def test_a_gateway_that_was_frozen_sends_nothing_until_it_knows_that_its_robots_are_still_its_own(
    stage, streams, ask
):
    """Another one may drive them by now. What it hears is heard all the same: that has the same ids with both."""
    link = await begun(stage)
    works, stage.gateway.clock = stage.gateway.clock, lambda: works() + stage.gateway.share.lease_s
    stage.broker.published.clear()
    number = stage.tell(["send"], ["say", "a", "robot.state", IDLE])
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    await stage.gateway.links.step(["RB-009"])
    await until(lambda: number in stage.broker.acked)
    assert len(stored(streams)) == 1
    assert not stage.broker.published
    assert not [call for call in stage.conversation.calls if call[0] == "command"]
    assert link.ask().takes is False, "nothing is marked as sent"
    await stage.gateway._tend()
    await stage.gateway.links.step(["RB-009"])
    assert [payload for _, payload, _ in stage.broker.published] == [b"robot.stop"]


async def test_what_the_site_wants_is_there_before_the_first_message(stage, ask):
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    await stage.gateway.links.step(["RB-009"])
    await begun(stage)
    stage.tell()
    await until(lambda: hasattr(stage.conversation, "wanted"))
    assert stage.conversation.wanted.stopped is True


async def test_a_robot_of_which_no_address_was_noted_goes_by_its_id(stage, ask, scripted_robot, site):
    await ask(lambda: actions.enrol_robot(id="RB-010", name="Ten", site=site, brand=scripted_robot, by=SYSTEM))
    stage.gateway._next.clear()
    await stage.gateway._tend()
    stage.tell(["begin"], address="RB-010")
    link = await until(lambda: stage.talk("RB-010").link)
    await stage.gateway.links.step(["RB-010"])
    assert stage.talk("RB-010").link is link, "it is not taken for one whose address has changed"


async def test_a_robot_that_is_retired_is_refused_within_the_next_look(stage, ask, streams):
    await begun(stage)
    await ask(lambda: actions.retire_robot("RB-009", by=SYSTEM))
    stage.gateway._next.clear()
    await stage.gateway._tend()
    assert "RB-009" not in stage.gateway.talks
    assert not [name for name in stage.broker.filters if "A9" in name]
    number = stage.tell(["say", "a", "robot.state", IDLE])
    assert number in stage.broker.acked
    assert not stored(streams)


async def test_the_last_messages_say_which_topic_they_came_on_and_what_was_made_of_them(stage, streams, ask):
    await begun(stage)
    last = [
        stage.tell(["say", "a", "robot.state", IDLE], ["tell", {"x": 1.0}]),
        stage.tell(["complain"], ["tell", {"x": 2.0}]),
        stage.tell(["complain"]),
    ]
    await until(lambda: set(last) <= set(stage.broker.acked))
    await stage.gateway.links.heard.step()
    lines = await ask(lambda: inspector.last_messages("RB-009", timezone.now()))
    assert [(line.type, line.said.word, line.made, line.why) for line in reversed(lines)] == [
        ("events", "Taken", "", ""),
        ("events", "Taken", "robot.state", ""),
        ("events", "Taken in part", "", "state: it is odd"),
        ("events", "Invalid", "", "state: it is odd"),
    ]


async def test_a_stranger_is_listed_and_an_enrolled_robot_of_nobody_here_is_not(stage, ask):
    stage.tell(address="Z1", part="state")
    stage.gateway._enrolled = stage.gateway._enrolled._replace(addresses=frozenset({("scripted", "A7")}))
    stage.tell(address="A7", part="state")
    await stage.gateway.links.knocks.step()
    assert await ask(lambda: list(Knock.objects.values_list("robot", "over"))) == [("Z1", "MQTT")]


async def test_strangers_are_looked_for_where_a_driver_expects_them_also_before_there_is_a_brand(stage):
    stage.gateway._next.clear()
    await stage.gateway._tend()
    assert stage.broker.filters["uagv/v2/+/+/state"] == 0  # nobody has made a brand for VDA 5050


async def test_of_several_gateways_one_looks_for_strangers(stage, monkeypatch):
    assert "scripted/+/state" in stage.broker.filters
    for partitions, looks in [({3}, False), ({0, 3}, True)]:
        monkeypatch.setattr(stage.gateway.share, "tend", lambda *_, has=partitions: frozenset(has))
        stage.gateway._next.clear()
        await stage.gateway._tend()
        assert ("scripted/+/state" in stage.broker.filters) is looks


async def test_a_subscription_of_an_earlier_life_is_dropped(stage):
    number = stage.tell(address="A7")
    assert number in stage.broker.acked
    assert stage.broker.dropped == ["scripted/A7/events"]


async def test_a_command_that_somebody_left_retained_raises_an_alarm_once(stage, ask):
    assert stage.broker.commands == {"scripted/A9/order"}
    stage.raw(b"{}", part="order", topic="scripted/A9/order")  # another master's, or ours: not left there
    stage.raw(b"", part="order", topic="scripted/A9/order", retained=True)  # somebody takes one away
    assert not stage.gateway._leaving
    for _ in range(3):
        stage.raw(b"{}", part="order", topic="scripted/A9/order", retained=True)
    [task] = stage.gateway._leaving
    await task
    found = await ask(lambda: list(Alert.objects.values_list("cause", "robot_id", "text")))
    assert [(cause, robot) for cause, robot, _ in found] == [("retained_command:robot:RB-009", "RB-009")]
    assert "scripted/A9/order" in found[0][2]


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b'{"data": {"token": "drover_Ab-9_x"}}', '{"data": {"token": "drover_…"}}'.encode()),
        (b'{"orderId": "1"}', b'{"orderId": "1"}'),
        (b"\xff drover_x", b"\xff drover_\xe2\x80\xa6"),
    ],
)
def test_a_token_in_a_message_is_shown_to_nobody(payload, shown):
    assert without_tokens(payload) == shown


async def test_what_the_filter_for_strangers_shows_is_subscribed_to_once(stage):
    """The owner of the first partition looks for strangers; another gateway subscribes to its robots' own topics."""
    stage.gateway._next.clear()
    await stage.gateway._tend()
    mine = {name: qos for name, qos in stage.broker.filters.items() if name.startswith("scripted/")}
    assert mine == {"scripted/+/state": 0, "scripted/A9/events": 1}
    stage.gateway._discovery = []
    stage.gateway._subscribe()
    assert stage.broker.filters == {"scripted/A9/state": 0, "scripted/A9/events": 1}


async def test_the_robots_of_a_gateway_that_ends_are_met_by_another(scripted_robot):
    async with on_stage("drover-two") as two:
        async with on_stage("drover-one") as one:
            for _ in range(2):
                for stage in (one, two):
                    stage.gateway._next.clear()
                    await stage.gateway._tend()
            assert len(one.gateway.share.mine) == len(two.gateway.share.mine) == 4
            met = [len(stage.gateway.talks) for stage in (one, two)]
            assert sorted(met) == [0, 1]
            there = one if met[0] else two
            there.tell(["begin"])
            await until(lambda: there.talk().link)
        await two.gateway._tend()
        assert list(two.gateway.talks) == ["RB-009"]
        assert (two.talk().link is None) == (there is one), "what the other knew is not known here"
        two.tell(["begin"])
        await until(lambda: two.talk().link)


async def test_a_database_that_is_away_is_told_of_once_and_again_when_it_is_back(monkeypatch, caplog):
    caplog.set_level("INFO")
    answers = [None, OperationalError("refused"), OperationalError("refused"), OperationalError("refused"), None, None]

    async def tend():
        if not answers:
            raise gateways.Clash("that was all")
        if error := answers.pop(0):
            raise error

    gateway = gateways.Gateway("mqtt://127.0.0.1:1", "drover-x")
    monkeypatch.setattr(gateway, "_tend", tend)
    monkeypatch.setattr(gateways, "TEND_S", 0)
    with pytest.raises(gateways.Clash):
        await gateway.run()
    await gateway.end()
    said = [record.getMessage() for record in caplog.records if record.name == gateways.__name__]
    assert [line.partition(",")[0] for line in said] == [
        "the share of robots cannot be renewed", "the share of robots is renewed again",
    ]  # fmt: skip
