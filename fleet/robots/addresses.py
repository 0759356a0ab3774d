"""Which address and which settings of its driver a robot may have: judged by the driver, and one robot per address."""

import itertools
import json
import re
import unicodedata
from typing import Any

from django.db import connection
from django.db.models import Q

from fleet.history import Change
from fleet.models import MAX_ADDRESS, Brand, Robot
from fleet.ports import drivers
from fleet.refusals import Refused

MAX_PROFILE = 16_000  # bytes of JSON
_LOCK = 0x61646472  # who gives or frees an address, or changes what brands mean by one, does so alone


def alone() -> None:
    """Until the end of the transaction: an address that is found free stays free."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def checked_profile(profile: Any) -> dict[str, Any]:
    """Settings as they can be kept, whatever they mean. Raises `Refused`."""
    try:
        assert isinstance(profile, dict)
        text = json.dumps(profile, allow_nan=False)
        json.dumps(profile, ensure_ascii=False).encode()
    except (AssertionError, TypeError, ValueError, RecursionError):
        raise Refused("profile: Settings by their names, as plain JSON.") from None
    if len(text) > MAX_PROFILE:
        raise Refused(f"profile: At most {MAX_PROFILE} bytes.")
    if "\\u0000" in text:
        raise Refused("profile: Text must not contain the NUL character.")
    return dict(profile)


def check_settings(driver: drivers.Driver, profile: dict[str, Any]) -> None:
    """Raises `Refused` that names the first setting with which the driver cannot do."""
    for name, why in driver.wrong(profile).items():
        setting = next((s.label for s in driver.settings if s.name == name), name)
        raise Refused(f"profile: {setting}: {why}" if setting else f"profile: {why}")


def checked(robot_id: str, brand: Brand, address: str, profile: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Address and settings as they are kept. Raises `Refused`. Call it `alone()`."""
    driver, address = drivers.named(brand.driver), address.strip()
    profile = checked_profile(profile)
    check_settings(driver, brand.profile | profile)
    if len(address) > MAX_ADDRESS or not address.isprintable():
        raise Refused(f"address: At most {MAX_ADDRESS} printable characters.")
    if address and not driver.address and brand.driver in drivers.known():
        raise Refused(f"address: Robots of {brand} have none, as they speak {driver.label}. Leave it empty.")
    if driver.address and (why := driver.wrong_address(robot_id, address, brand.profile | profile)):
        raise Refused(f"address: {why}")
    other = _holder(robot_id, brand.driver, address or robot_id) if address or driver.address else None
    if other is not None:
        raise Refused(
            f"address: {other.pk} ({other}) has {address or robot_id} already. Retire that one first, or edit it."
        )
    return address, profile


def suggested_id(address: str) -> str:
    """An id for a robot that calls itself so, which nobody has: KIT/0001 → KIT-0001."""
    plain = unicodedata.normalize("NFKD", address).encode("ascii", "ignore").decode()
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-.")[:58] or "robot"
    taken = set(Robot.objects.filter(pk__startswith=stem).values_list("pk", flat=True))
    return next(id for n in itertools.count(1) if (id := stem if n == 1 else f"{stem}-{n}") not in taken)


def has_any(brand: Brand) -> bool:
    """Whether robots of this brand may have an address at all."""
    return bool(drivers.named(brand.driver).address) or brand.driver not in drivers.known()


def check_again(change: Change) -> None:
    """A robot that comes back may find its address taken. Raises `Refused`."""
    alone()
    row = change.row
    checked(row.pk, Brand.objects.get(pk=row.brand_id), row.address, row.profile)


def _holder(robot_id: str, driver: str, address: str) -> Robot | None:
    """Who else is called that, on the wire, in this driver's protocol. A robot without an address goes by its id."""
    called = Q(address=address) | Q(address="", pk=address)
    return Robot.objects.filter(called, brand__driver=driver, retired_at=None).exclude(pk=robot_id).first()
