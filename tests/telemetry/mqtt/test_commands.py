"""Commands over MQTT: through the conversation, and no try while they cannot leave."""

import msgspec
import pytest

from fleet.models import Command, Delivery
from fleet.robots import stopping
from telemetry.gateways.link import SILENT_S
from telemetry.gateways.mqtt.broker import Away
from tests.actors import SYSTEM
from tests.telemetry.mqtt.fake_broker import begun, until
from tests.telemetry.robots_talk import stored

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = {"mode": "idle"}


async def test_a_command_goes_through_the_conversation_and_is_delivered_when_it_says_so(stage, streams, ask):
    await begun(stage)
    await ask(lambda: stopping.stop_robot("RB-009", why="test", by=SYSTEM))
    await stage.gateway.links.step(["RB-009"])
    assert ("scripted/A9/order", b"robot.stop", 0) in stage.broker.published
    await until(lambda: [f for f in stored(streams, "RB-009") if f["type"] == "command.delivered"])
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
    await until(lambda: [f for f in stored(streams, "RB-009") if f["type"] == "command.delivered"])


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
