"""A robot of a driver that says what it is told to, and a gateway that drives it over a broker in memory."""

import pytest

from fleet.brands.actions import create_brand
from fleet.robots import actions
from telemetry.drivers import registry
from tests.actors import SYSTEM, online
from tests.telemetry.mqtt.fake_broker import on_stage


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "scripted", "tests.telemetry.mqtt.scripted_driver:driver")
    registry.forget()
    yield
    monkeypatch.undo()
    registry.forget()


@pytest.fixture
def scripted_robot(site, scripted, streams):
    brand = create_brand("Scripted", driver="scripted", capabilities=["navigate"], by=SYSTEM)
    actions.enrol_robot(id="RB-009", name="Nine", site=site, brand=brand, address="A9", by=SYSTEM)
    online("RB-009")
    return brand


@pytest.fixture
async def stage(scripted_robot):
    async with on_stage() as stage:
        yield stage
