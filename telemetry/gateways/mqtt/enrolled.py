"""Which robots talk over a broker, as the database has it, and whose driver can be used."""

import logging
from collections.abc import Container
from typing import Any, NamedTuple

from msgspec import Struct

from fleet import models
from telemetry.drivers import registry
from telemetry.drivers.contract import Driver, Spec
from telemetry.gateways.link import SILENT_S
from telemetry.stream import partition_of

log = logging.getLogger(__name__)
_COLUMNS = ("pk", "address", "profile", "brand_id", "brand__driver", "brand__profile", "brand__suspect_after_s")
_told: set[str] = set()  # what is wrong with settings is said once


class Robot(Struct, frozen=True, kw_only=True):
    """An enrolled robot, with its driver."""

    spec: Spec
    driver: Driver
    brand: int
    suspect_after_s: float = SILENT_S


class Enrolled(NamedTuple):
    """`mine`: robots of the partitions that were asked for. `addresses`: (driver, address) of all, so that none is a stranger."""

    mine: dict[str, Robot]
    addresses: frozenset[tuple[str, str]]


def look(partitions: Container[int]) -> Enrolled:
    """One statement. Raises `django.db.Error`."""
    mine, addresses = {}, set()
    for row in models.Robot.objects.filter(retired_at=None).values_list(*_COLUMNS):
        pk, address, _, _, driver = row[:5]
        addresses.add((driver, address or pk))
        if partition_of(pk) in partitions and (robot := _robot(*row)) is not None:
            mine[pk] = robot
    return Enrolled(mine, frozenset(addresses))


def strangers() -> list[tuple[Driver, Any]]:
    """(driver, settings) of each brand, and of each driver as usual: where robots that nobody has enrolled show up."""
    usual = ((name, {}, {}, f"the driver {name}") for name in registry.names())
    found = [made for each in usual if (made := _settings(*each)) is not None]
    for driver_name, profile in models.Brand.objects.values_list("driver", "profile").distinct():
        if (made := _settings(driver_name, profile, {}, f"brand with driver {driver_name}")) is not None:
            found.append(made)
    return found


def _robot(
    pk: str, address: str, profile: dict[str, Any], brand: int, driver: str, brand_profile: dict[str, Any], suspect_s: int
) -> Robot | None:  # fmt: skip
    made = _settings(driver, brand_profile, profile, pk)
    if made is None:
        return None
    spec = Spec(id=pk, address=address or pk, profile=made[1])
    return Robot(spec=spec, driver=made[0], brand=brand, suspect_after_s=float(suspect_s))


def _settings(driver_name: str, brand: dict[str, Any], robot: dict[str, Any], whose: str) -> tuple[Driver, Any] | None:
    try:
        driver = registry.get(driver_name)
        return driver, registry.settings(driver, brand or {}, robot or {})
    except Exception as error:  # a driver's own settings may raise anything
        if (text := f"{whose} cannot be served: {error}") not in _told:
            _told.add(text)
            log.error("%s", text)
        return None
