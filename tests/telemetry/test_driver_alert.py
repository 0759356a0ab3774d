"""Robots whose driver is not here, or cannot be used, are an alert that says why and what to do."""

import pytest
from django.utils import timezone

from fleet.models import Severity
from fleet.robots import actions
from telemetry.drivers import registry
from telemetry.watching.checks import Checks
from tests.actors import SYSTEM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("drivers_anew")]


def found():
    registry.forget()  # robots were enrolled with all drivers there
    return Checks().drivers(timezone.now())


def test_with_their_driver_all_is_well(robot, other_robot):
    assert found() == {}


def test_robots_without_their_driver_are_counted_with_the_reason(robot, other_robot, monkeypatch):
    monkeypatch.delitem(registry.BUILT_IN, "native")
    ((cause, one),) = found().items()
    assert (cause, one.severity) == ("driver_unusable:native", Severity.CRITICAL)
    assert one.text.startswith("2 robots are not served: There is no driver 'native' here, only ")
    assert "Install the package that brings it, and restart" in one.text
    assert "robot-does-not-show-up.md" in one.text


def test_a_driver_that_cannot_be_used_says_why(robot, monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "native", "telemetry.drivers.nowhere:driver")
    (one,) = found().values()
    assert one.text.startswith("1 robot is not served: The driver 'native' (")
    assert "cannot be used: ModuleNotFoundError" in one.text and "Correct or update the package" in one.text


def test_retired_robots_need_none(robot, monkeypatch):
    actions.retire_robot("RB-001", by=SYSTEM)
    monkeypatch.delitem(registry.BUILT_IN, "native")
    assert found() == {}
