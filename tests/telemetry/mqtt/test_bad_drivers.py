"""A driver that misbehaves costs its own robots: the gateway, and everybody else's robots, go on."""

import itertools
import math

import pytest
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.robots import actions
from telemetry.drivers import registry
from telemetry.drivers.contract import Link
from telemetry.gateways.mqtt import asking, gateway
from telemetry.gateways.mqtt.broker import Incoming
from tests.actors import SYSTEM, online
from tests.telemetry.mqtt import scripted_driver
from tests.telemetry.mqtt.fake_broker import begun, on_stage, until

EMPTY_STATE = b'{"orderId": "", "driving": false, "nodeStates": []}'


class Bad(scripted_driver.Driver):
    """Comes before all others in order of the alphabet."""

    name, label = "awful", "Awful"

    def topics(self, robot):
        return [(f"awful/{robot.address}/state", 0)]

    def whose(self, topic):
        match topic.split("/"):
            case ["awful", address, "state" as part]:
                return address, part
        return None


bad = Bad()


@pytest.fixture
def drivers(scripted, monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "awful", f"{__name__}:bad")
    registry.forget()


@pytest.fixture
def two_robots(transactional_db, site, drivers):
    """One of the good driver, one of the bad one."""
    for id, driver in (("RB-009", "scripted"), ("RB-666", "awful")):
        brand = create_brand(driver, driver=driver, capabilities=["navigate"], by=SYSTEM)
        actions.enrol_robot(id=id, name=id, site=site, brand=brand, address=f"A{id[-1]}", by=SYSTEM)
        online(id)


@pytest.fixture
def two_halls(transactional_db, site):
    """They share a broker; only the interface name tells their robots apart. One of ours has the name of one of theirs."""
    ours, _ = (
        create_brand(
            name, driver="vda5050", capabilities=["navigate"], profile={"interface": interface}, by=SYSTEM
        )
        for name, interface in (("Ours", "uagv"), ("Theirs", "lab"))
    )  # fmt: skip
    actions.enrol_robot(id="RB-009", name="Nine", site=site, brand=ours, address="KIT/0001", by=SYSTEM)
    online("RB-009")


def raising(*_):
    raise KeyError("a defect of the driver")


@pytest.mark.parametrize(
    "answer", [raising, lambda topic: 7, lambda topic: ("A9", "events")], ids=["raises", "number", "all"]
)
async def test_whatever_a_driver_says_of_a_topic_the_others_robots_are_heard(two_robots, monkeypatch, answer):
    monkeypatch.setattr(Bad, "whose", staticmethod(answer))
    async with on_stage() as stage:
        assert await begun(stage)


@pytest.mark.parametrize(
    "answer", [lambda topic: 7, lambda topic: ([], {}), lambda topic: ("a", "b", "c"), lambda topic: "a", raising]
)
def test_an_answer_that_names_no_robot_is_passed_over(monkeypatch, answer):
    monkeypatch.setattr(Bad, "whose", staticmethod(answer))
    topic = "scripted/A9/events"
    good = scripted_driver.driver
    assert list(asking.whose([bad, good], topic)) == [(good, "A9", "events")]


@pytest.mark.parametrize(
    "answer",
    [raising, lambda it: 7, lambda it: [7], lambda it: [("a/#/b", 0)], lambda it: ["a/#/b"], lambda it: ["a+/b"],
     lambda it: [("a", 9)], lambda it: [({}, 0)], lambda it: [{}], lambda it: [("", 1)], lambda it: [""],
     lambda it: itertools.count(), lambda it: itertools.repeat("a"), lambda it: itertools.repeat(("a", 0)),
     lambda it: ["a\0"], lambda it: [("\ud800", 0)], lambda it: ["a" * 70_000]],
)  # fmt: skip
def test_filters_that_a_broker_would_refuse_are_never_asked_for(monkeypatch, answer):
    for asked in ("topics", "commands", "discovery"):
        monkeypatch.setattr(Bad, asked, staticmethod(answer))
    assert not asking.topics(bad, None)
    assert not asking.commands(bad, None)
    assert not asking.discovery(bad, None)


async def test_wants_that_no_broker_takes_keep_nobody_from_being_heard(two_robots, monkeypatch):
    for asked in ("topics", "commands", "discovery"):
        monkeypatch.setattr(Bad, asked, staticmethod(lambda it: ["a/#/b", 7]))
    async with on_stage() as stage:
        assert await begun(stage)
        ours = {name: qos for name, qos in stage.broker.filters.items() if not name.startswith(("drover/", "uagv/"))}
    assert ours == {"scripted/A9/events": 1, "scripted/+/state": 0}


async def test_an_answer_without_end_is_given_up_and_the_next_message_is_heard(two_robots, monkeypatch):
    """Before it has eaten all memory."""
    answers = [itertools.islice(itertools.repeat(Link(hint="alive")), 1_000_000), []]
    monkeypatch.setattr(scripted_driver.Talk, "hear", lambda *_: answers.pop(0))
    async with on_stage() as stage:
        talk, counts = stage.talk("RB-666"), []
        monkeypatch.setattr(talk, "_carry_out", lambda effects, *_, **__: counts.append(len(list(effects))))
        for _ in range(2):
            talk.take(Incoming("awful/A6/state", b"[]", 0, False, 0, 1), "state", timezone.now())
            talk.work()
        assert counts == [0, 0]


async def test_topics_that_somebody_makes_up_do_not_fill_the_memory(two_robots, monkeypatch):
    monkeypatch.setattr(gateway, "TOPICS", 10)
    async with on_stage() as stage:
        for n in range(100):
            stage.raw(b"x", topic=f"made/up/{n}" + "x" * (n % 2 * 1000))
        assert len(stage.gateway._topics) <= 10
        assert max(map(len, stage.gateway._topics), default=0) < 400


async def test_a_driver_that_was_left_alone_is_asked_again(two_robots, monkeypatch):
    async with on_stage() as stage:
        monkeypatch.setitem(asking._rests_until, "awful", math.inf)
        stage.raw(b'[["begin"]]', topic="awful/A6/state", part="state")
        assert stage.talk("RB-666").link is None
        monkeypatch.delitem(asking._rests_until, "awful")
        stage.raw(b'[["begin"]]', topic="awful/A6/state", part="state")
        assert await until(lambda: stage.talk("RB-666").link)


async def test_settings_that_a_driver_cannot_bear_cost_its_robots_only(two_robots, monkeypatch):
    def settings(driver, brand, robot):
        if driver.name == "awful":
            raise KeyError("a defect of the driver")
        return works(driver, brand, robot)

    works = registry.settings
    monkeypatch.setattr(registry, "settings", settings)
    async with on_stage() as stage:
        assert await begun(stage)
        assert "RB-666" not in stage.gateway.talks


async def test_a_robot_of_the_same_name_under_another_prefix_is_not_taken_for_ours(two_halls):
    async with on_stage() as stage:
        assert "lab/v2/+/+/state" in stage.broker.filters, "it would come"
        for topic in ("lab/v2/KIT/0001/state", "uagv/v3/KIT/0001/state"):
            stage.raw(EMPTY_STATE, topic=topic, part="state")
        assert not stage.talk().has_work
        stage.raw(EMPTY_STATE, topic="uagv/v2/KIT/0001/state", part="state")
        assert await until(lambda: stage.talk().link)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(asking, "LONGEST_S", 0.05)
    yield
    asking._rests_until.clear()


def endless(*_):
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: S112 - so that nothing it can catch stops it
            continue


async def test_a_driver_that_computes_without_end_is_cut_short_and_left_alone(two_robots, monkeypatch, impatient):
    async with on_stage() as stage:
        talk, calls = stage.talk("RB-666"), []
        monkeypatch.setattr(talk._conversation, "hear", lambda *args: calls.append(args) or endless())
        for _ in range(3):
            talk.take(Incoming("awful/A6/state", b"[]", 0, False, 0, 1), "state", timezone.now())
            stage.gateway.ready(talk)
        await until(lambda: asking.is_left_alone(bad))
        assert await begun(stage)
        talk.step(timezone.now())
        assert len(calls) == 1
        with pytest.raises(ConnectionError):
            await talk.send("{}")


@pytest.mark.parametrize("asked", ["whose", "topics", "commands", "discovery", "converse"])
async def test_whatever_never_ends_the_others_robots_are_heard(two_robots, monkeypatch, impatient, asked):
    monkeypatch.setattr(Bad, asked, endless)
    async with on_stage() as stage:
        assert await begun(stage)
        assert asking.is_left_alone(bad)
