"""The demo site: made once, and resized on later runs. What goes on there: `traffic`.

Everything goes the way of people, by `fleet.robots.actions` and its like. The tokens of the simulated robots are kept in
`robots.json` (mode 0600), because the database holds only their digests.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from fleet.brands.actions import create_brand
from fleet.history import Origin
from fleet.models import Brand, Event, Person, Place, Robot, Site
from fleet.people.actions import grant_access
from fleet.refusals import Refused
from fleet.robots.actions import enrol_robot, reinstate_robot, retire_robot
from fleet.robots.credentials import issue_credential, robot_of_token
from fleet.running.keys import write_private
from fleet.sites.actions import add_place, create_site
from telemetry.simulator import foreign_robots
from telemetry.simulator.memory import MEMORIES, file_of

log = logging.getLogger(__name__)
DEMO = Origin("system", actor_name="demo")

# name: x (m), y (m), heading (rad)
SITES: dict[str, dict[str, tuple[float, float, float]]] = {
    "North Hall": {
        "Dock A": (2, 4, 3.14),
        "Dock B": (2, 10, 3.14),
        "Shelf 1": (12, 18, 1.57),
        "Shelf 2": (18, 18, 1.57),
        "Shelf 3": (24, 18, 1.57),
        "Packing": (28, 6, 0),
        "Charger 1": (12, 2, -1.57),
        "Charger 2": (15, 2, -1.57),
    },
    "South Yard": {
        "Gate": (1, 12, 3.14),
        "Ramp": (8, 3, -1.57),
        "Bay 1": (14, 20, 1.57),
        "Bay 2": (19, 20, 1.57),
        "Bay 3": (24, 20, 1.57),
        "Workshop": (30, 8, 0),
        "Charger 1": (16, 2, -1.57),
        "Charger 2": (20, 2, -1.57),
    },
}

# name: what its robots can do, when silence means something (s), and when they are sent to charge (%)
BRANDS: dict[str, tuple[list[str], dict[str, int]]] = {
    "Mule 300": (
        ["navigate", "pick", "drop", "wait", "charge"],
        {"suspect_after_s": 9, "offline_after_s": 20, "abandon_after_s": 120, "charge_below_pct": 30},
    ),
    "Courier 50": (
        ["navigate", "wait", "charge"],
        {"suspect_after_s": 7, "offline_after_s": 15, "abandon_after_s": 90, "charge_below_pct": 30},
    ),
    "Picker A2": (
        ["navigate", "pick", "drop", "wait", "charge", "custom"],
        {"suspect_after_s": 9, "offline_after_s": 30, "abandon_after_s": 180, "charge_below_pct": 35},
    ),
}
FOREIGN_BRAND = "Virtual AGV"
STAYS = "runs until a later start can retire it"
STAYS_ALONE = "stays in service and nothing runs it until a start with ROBOTS=vda"


def make(count: int, *, url: str, file: Path, passwords: Mapping[str, str], foreign: int = 0) -> None:
    """Make what is missing, and exactly `count` simulated robots in service, with `foreign` more that others wrote.

    Those of an earlier run that nobody asks for now are retired; a simulated one that has a mission ends it first.
    `passwords`: role → first password.
    """
    sites = [_site(name, places) for name, places in SITES.items()]
    brands = [_brand(name, *row) for name, row in BRANDS.items()]
    for role, password in passwords.items():
        _user(role, password)
    tokens = known_tokens(file)
    numbers = [f"RB-{n:03}" for n in range(1, count + 1)]
    robots = []
    for index, robot_id in enumerate(numbers):
        robot = _robot(robot_id, sites[index % len(sites)], brands[index % len(brands)], file.parent / MEMORIES)
        if robot.retired_at is None:
            robots.append(_simulated(robot, tokens.get(robot_id, ""), index))
    strangers = [_foreign(f"VA-{n:03}", sites[n % len(sites)]) for n in range(1, foreign + 1)]
    kept = [*numbers, *(stranger["serial"] for stranger in strangers)]
    for robot in (
        Robot.objects.filter(id__regex=r"^(RB|VA)-\d{3,}$", retired_at=None).exclude(id__in=kept).order_by("pk")
    ):
        if refused := _retire_ours(robot):
            number = robot.pk.removeprefix("RB-")
            if simulated := number != robot.pk:
                robots.append(_simulated(robot, tokens.get(robot.pk, ""), int(number) - 1) | {"leaves": True})
            log.warning("%s %s: %s", robot.pk, STAYS if simulated else STAYS_ALONE, refused)
    write_private(file, json.dumps({"url": url, "robots": robots, "foreign": strangers}, indent=1))


def _foreign(robot_id: str, site: Site) -> dict[str, Any]:
    """A virtual robot of vda-5050-lib, enrolled under its serial number: what its process needs to know."""
    brand = Brand.objects.filter(name=FOREIGN_BRAND).first() or create_brand(
        FOREIGN_BRAND, driver="vda5050", profile=foreign_robots.PROFILE, capabilities=foreign_robots.CAPABILITIES,
        suspect_after_s=35, offline_after_s=65, charge_below_pct=30, by=DEMO,
    )  # fmt: skip
    address = f"{foreign_robots.MANUFACTURER}/{robot_id}"
    number = int(robot_id.removeprefix("VA-"))
    if _in_service(robot_id) is None:
        enrol_robot(id=robot_id, name=f"Virtual {number}", site=site, brand=brand, address=address, by=DEMO)
    places = list(Place.objects.filter(site=site).order_by("id"))
    at = places[number % len(places)] if places else None
    here = {"x": at.x, "y": at.y, "theta": at.theta} if at else {}
    return {"serial": robot_id, "battery": 40 + 50 * number % 60} | here


def _site(name: str, places: Mapping[str, tuple[float, float, float]]) -> Site:
    """The site; its places only when it is new, so that people may change them."""
    found = Site.objects.filter(name=name).first()
    if found is not None:
        return found
    with transaction.atomic():
        site = create_site(name, by=DEMO)
        for p, (x, y, a) in places.items():
            add_place(site, name=p, x=x, y=y, theta=a, is_charger=p.startswith("Charger"), by=DEMO)
    return site


def _brand(name: str, capabilities: list[str], timings: dict[str, int]) -> Brand:
    found = Brand.objects.filter(name=name).first()
    return found or create_brand(name, capabilities=capabilities, **timings, by=DEMO)


def _user(role: str, password: str) -> None:
    if not User.objects.filter(username=role).exists():
        User.objects.create_user(role, password=password)
    if not Person.objects.filter(user__username=role).exists():
        grant_access(User.objects.get(username=role), role=role, all_sites=True, by=DEMO)


def _robot(robot_id: str, site: Site, brand: Brand, memories: Path) -> Robot:
    """The robot, enrolled if it is new and back in service if the demo itself had retired it."""
    robot = _in_service(robot_id)
    if robot is None:
        file_of(memories, robot_id).unlink(missing_ok=True)  # of a site whose database is gone
        name = f"{brand.name.split()[0]} {int(robot_id.removeprefix('RB-'))}"
        return enrol_robot(id=robot_id, name=name, site=site, brand=brand, by=DEMO)
    return robot


def _in_service(robot_id: str) -> Robot | None:
    """The robot, if there is one; back in service if the demo itself had retired it."""
    robot = Robot.objects.filter(pk=robot_id).first()
    if robot is not None and robot.retired_at and _last_actor(robot_id, "robot.retired") == DEMO.actor_name:
        reinstate_robot(robot_id, by=DEMO)
        robot.retired_at = None
    return robot


def _retire_ours(robot: Robot) -> str:
    """Take a robot out of service that nobody asks for any more; why it has to stay, else empty."""
    if _last_actor(robot.pk, "robot.enrolled") == DEMO.actor_name:
        try:
            retire_robot(robot.pk, by=DEMO)
        except Refused as refused:
            return str(refused)
    return ""


def _last_actor(robot_id: str, kind: str) -> str:
    found = Event.objects.filter(aggregate=f"robot:{robot_id}", kind=kind).order_by("-seq")
    return found.values_list("actor_name", flat=True).first() or ""


def _simulated(robot: Robot, token: str, index: int) -> dict[str, Any]:
    """What its process needs to know."""
    if not token or robot_of_token(token) != robot.pk:
        token = issue_credential(robot.pk, label="demo", by=DEMO)
    places = list(Place.objects.filter(site=robot.site_id).order_by("id").values("name", "x", "y", "theta"))
    return {
        "id": robot.pk,
        "token": token,
        "brand": robot.brand.name,
        "capabilities": robot.brand.capabilities,
        "places": places,
        "transport": "http" if index % 6 == 5 else "ws",
        "start": places[index // len(SITES) % len(places)]["name"] if places else "",
    }


def names(file: Path) -> list[str]:
    """Ids of the demo's robots that are to have missions, as `make` noted them."""
    try:
        noted = json.loads(file.read_text())
        return [
            *(robot["id"] for robot in noted["robots"] if not robot.get("leaves")),
            *(r["serial"] for r in noted.get("foreign", ())),
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def known_tokens(file: Path) -> dict[str, str]:
    """Robot id → token of an earlier run."""
    try:
        return {robot["id"]: robot["token"] for robot in json.loads(file.read_text())["robots"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
