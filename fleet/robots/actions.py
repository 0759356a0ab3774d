"""What people and programs can do with robots. Each verb is one transaction; a refusal is a sentence for people.

Stopping is in stopping.py, tokens are in credentials.py.
"""

import re
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.columns import accepted_text, plain_text
from fleet.commit import new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import ROBOT_ID, Brand, Robot, Site
from fleet.refusals import Refused
from fleet.robots import addresses, facts
from fleet.robots.telling import tell, told

LONGEST_HOLD = timedelta(days=366)


def enrol_robot(
    *,
    id: str,
    name: str,
    site: Site | int,
    brand: Brand | int,
    address: str = "",
    profile: dict[str, Any] | None = None,
    by: Origin,
) -> Robot:
    """Make a robot known. `profile`: settings of its driver in which it is not as its brand."""
    if not is_robot_id(id):
        raise Refused("id: A robot id has 1 to 64 letters, digits, dots, dashes or underscores, and is not dots alone.")
    change = new(AGGREGATES["robot"], id)
    try:
        with transaction.atomic():
            addresses.alone()
            address, profile = addresses.checked(id, _brand(brand), address, profile or {})
            fact = facts.Enrol(plain_text(name or id), _pk(site), _pk(brand), address, profile)
            told(change, fact, by, timezone.now())
    except IntegrityError as error:  # its history begins with event 1, and that is there already
        if not Robot.objects.filter(pk=id).exists():
            raise
        raise Refused(f"{id} is already enrolled. Choose another id, or edit that robot.") from error
    return change.row  # type: ignore[no-any-return]


def is_robot_id(text: str) -> bool:
    """Not `..`: an address with that in it leads elsewhere, and the robot's Stop would not reach it."""
    return bool(re.fullmatch(ROBOT_ID, text)) and bool(text.strip("."))


def edit_robot(
    robot_id: str,
    *,
    name: str | None = None,
    site: Site | int | None = None,
    brand: Brand | int | None = None,
    address: str | None = None,
    profile: dict[str, Any] | None = None,
    by: Origin,
) -> None:
    """Change name, site, brand, address, or settings. None: as it is, as far as the brand knows such a thing."""

    def fact(change: Change) -> facts.Edit:
        row = change.row
        told: dict[str, Any] = {
            "name": row.name if name is None else plain_text(name),
            "site_id": row.site_id if site is None else _pk(site),
            "brand_id": row.brand_id if brand is None else _pk(brand),
        }
        other = row.brand_id != told["brand_id"]
        addresses.alone()
        of = _brand(told["brand_id"])
        keeps = address is not None or not other or addresses.has_any(of)
        told["address"], told["profile"] = addresses.checked(
            row.pk, of, (row.address if address is None else address) if keeps else "",
            (({} if other else row.profile) if profile is None else profile),
        )  # fmt: skip
        return facts.Edit(told, _edited(row, told))

    tell(robot_id, fact, by)


def _edited(row: Any, new: dict[str, Any]) -> dict[str, str]:
    """Column → what becomes of it, in words."""
    site, brand = Site.objects.filter(pk=new["site_id"]).first(), Brand.objects.filter(pk=new["brand_id"]).first()
    return {
        "name": f"name {row.name} → {new['name']}",
        "site_id": f"site {row.site} → {site}",
        "brand_id": f"brand {row.brand} → {brand}",
        "address": f"address {row.address or 'none'} → {new['address'] or 'none'}",
        "profile": "settings of its driver",
    }


def set_maintenance(robot_id: str, *, why: str, until: datetime | None = None, by: Origin) -> None:
    """Out of service: no new work until a person releases it, or until `until`. Again: the new reason and end count."""
    now, why = timezone.now(), accepted_text(why)
    if not why:
        raise Refused("why: Say why, for whoever wonders on Monday.")
    if until is not None and not now < until <= now + LONGEST_HOLD:
        raise Refused("until: Choose a moment in the future, within a year.")

    def fact(change: Change) -> facts.HoldBack:
        if change.row.retired_at:
            raise Refused(f"{robot_id} is retired already.")
        return facts.HoldBack("maintenance", by.actor_name, why, until)

    tell(robot_id, fact, by)


def retire_robot(robot_id: str, *, by: Origin) -> None:
    """Take a robot out of the fleet; its history stays and its tokens are worth nothing."""
    with transaction.atomic():
        tell(robot_id, facts.Retire(), by)
        if Robot(pk=robot_id).missions.filter(dispatched_at__isnull=False, ended_at=None).exists():
            raise Refused(f"{robot_id} has a mission. Cancel it or let it finish first.")
        waiting = Robot(pk=robot_id).missions.filter(queued_at__isnull=False, dispatched_at=None, ended_at=None)
        if first := waiting.order_by("queued_at").first():
            others = waiting.count() - 1
            more = f" and {others} more wait" if others else " waits"
            raise Refused(f"“{first.title}”{more} for {robot_id}. Give another robot, or cancel, then retire it.")


def reinstate_robot(robot_id: str, *, by: Origin) -> None:
    """Bring a retired robot back."""

    def fact(change: Change) -> facts.Reinstate:
        addresses.check_again(change)
        return facts.Reinstate()

    tell(robot_id, fact, by)


def _brand(brand: Brand | int) -> Brand:
    found = brand if isinstance(brand, Brand) else Brand.objects.filter(pk=brand).first()
    if found is None:
        raise Refused(f"brand: There is no brand {brand}. Choose one of the list.")
    return found


def _pk(thing: Any) -> int:
    return int(getattr(thing, "pk", thing))
