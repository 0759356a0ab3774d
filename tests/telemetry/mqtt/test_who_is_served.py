"""Which robots a gateway serves over MQTT, whom it takes for strangers, and what it subscribes to."""

import pytest
from django.db import OperationalError
from django.utils import timezone

from fleet.models import Alert
from fleet.robots import actions, stopping
from telemetry.gateways.mqtt import gateway as gateways
from telemetry.gateways.mqtt.sharing import Share
from telemetry.gateways.mqtt.shown import without_tokens
from telemetry.models import Knock
from telemetry.pages import inspector
from tests.actors import SYSTEM
from tests.telemetry.mqtt.fake_broker import begun, on_stage, until
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = {"mode": "idle"}


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
    assert len(stored(streams, "RB-009")) == 1
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
    assert not stored(streams, "RB-009")


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
    assert not stage.gateway.links.alarms.leaving
    for _ in range(3):
        stage.raw(b"{}", part="order", topic="scripted/A9/order", retained=True)
    [task] = stage.gateway.links.alarms.leaving
    await task
    found = await ask(lambda: list(Alert.objects.values_list("cause", "robot_id", "text")))
    assert [(cause, robot) for cause, robot, _ in found] == [("retained_command:robot:RB-009", "RB-009")]
    assert "scripted/A9/order" in found[0][2]


async def test_one_that_the_broker_refuses_gives_up_its_robots_at_once_to_one_that_hears(stage, ask):
    other = Share("drover-two", 8, lease_s=3600)
    await ask(other.tend)
    stage.broker.hears, stage.broker.why = False, "the broker is away"
    await stage.gateway._tend()
    assert len(stage.gateway.share.mine) == 4, "that may pass"
    stage.broker.is_refused = True
    await stage.gateway._tend()
    assert not stage.gateway.share.mine
    assert len(await ask(other.tend)) == 8


async def test_two_robots_under_one_address_raise_an_alarm_once(stage, ask):
    await begun(stage)
    for _ in range(3):
        stage.tell(["link", "doubled"], part="state")
    await until(lambda: stage.gateway.links.alarms._told)
    await stage.gateway.links.alarms.end()
    [(cause, robot, text)] = await ask(lambda: list(Alert.objects.values_list("cause", "robot_id", "text")))
    assert (cause, robot) == ("two_robots:robot:RB-009", "RB-009")
    assert "Two robots speak as RB-009" in text and "(A9)" in text


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
