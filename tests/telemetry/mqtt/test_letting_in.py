"""Links over MQTT: tokens, and who begins again and again."""

import pytest

from telemetry.gateways import limits
from telemetry.gateways.mqtt import talk as talks
from telemetry.models import Knock, Link
from tests.telemetry.mqtt.fake_broker import begun, until

pytestmark = pytest.mark.django_db(transaction=True)


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
