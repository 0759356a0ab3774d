"""Signs of life and telemetry over MQTT: what is old proves nothing."""

import pytest

from telemetry import snapshots
from tests.telemetry.mqtt.fake_broker import begun, until

pytestmark = pytest.mark.django_db(transaction=True)


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


async def test_a_message_that_is_too_long_to_be_read_is_a_sign_of_life(stage):
    """Who sends nothing else would be told to be offline, and lose its link: no stop would reach it."""
    await begun(stage)
    await until(lambda: life().at)
    before, stage.talk().signs._passed_at = life().at["RB-009"], float("-inf")
    stage.raw(b" " * 10_001, part="state")
    await until(lambda: life().at["RB-009"] > before)
    assert stage.gateway.links.counts["bad message"] == 1
    assert stage.conversation.calls[-1] == ("hear", "state", b""), "its driver is spared the rest"


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
