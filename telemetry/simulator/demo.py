"""The demo site: made once, resized on later runs, and kept busy with calm, seeded missions.

Everything goes the way of people: robots by `fleet.robots.actions`, missions by `missions.actions`. The tokens of the
simulated robots are kept in `robots.json` (mode 0600), because the database holds only their digests.
"""

import json
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from fleet.brands.actions import create_brand
from fleet.history import Origin
from fleet.models import Brand, Event, Hold, Mode, Person, Place, Presence, Robot, Site
from fleet.people.actions import grant_access
from fleet.ports import live
from fleet.refusals import Refused
from fleet.robots.actions import enrol_robot, reinstate_robot, retire_robot
from fleet.robots.credentials import issue_credential, robot_of_token
from fleet.running.keys import write_private
from fleet.sites.actions import add_place, create_site
from missions.actions import queue_mission
from missions.drawing_up import draft_mission
from missions.models import QUEUED, RUNNING, Mission, State
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
LOADS = ("pallet 7", "a crate of bolts", "two boxes", "the spare wheel", "sample 12", "a roll of film")
REST_S = (10.0, 60.0)  # between two missions of one robot
LINE_UP_S, IN_LINE = 15.0, 3  # how often, and how many missions at most wait for robots that are busy
LATER = timedelta(minutes=5)
LOW_BATTERY, ENOUGH_BATTERY = 30.0, 80.0  # per cent


def make(count: int, *, url: str, file: Path, passwords: Mapping[str, str], foreign: int = 0) -> None:
    """Make what is missing, and exactly `count` simulated robots in service, with `foreign` more that others wrote.

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
    for robot in Robot.objects.filter(id__regex=r"^(RB|VA)-\d{3,}$", retired_at=None).exclude(id__in=kept):
        _retire_ours(robot)
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


def _retire_ours(robot: Robot) -> None:
    """Take a robot out of service that has no process any more."""
    if _last_actor(robot.pk, "robot.enrolled") == DEMO.actor_name:
        try:
            retire_robot(robot.pk, by=DEMO)
        except Refused as refused:
            log.info("%s stays in service: %s", robot.pk, refused)


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
    """Ids of all robots of the demo, as `make` noted them."""
    try:
        noted = json.loads(file.read_text())
        return [*(robot["id"] for robot in noted["robots"]), *(r["serial"] for r in noted.get("foreign", ()))]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def known_tokens(file: Path) -> dict[str, str]:
    """Robot id → token of an earlier run."""
    try:
        return {robot["id"]: robot["token"] for robot in json.loads(file.read_text())["robots"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


Steps = list[dict[str, Any]]


def _go(place: str) -> dict[str, Any]:
    return {"command": "navigate", "params": {"place": place}, "timeout_s": 120}


def _carry(rng: random.Random, places: list[str]) -> tuple[str, Steps]:
    (a, b), load = rng.sample(places, 2), rng.choice(LOADS)
    handle = {"load": load}
    return f"Carry {load} from {a} to {b}", [
        _go(a), {"command": "pick", "params": {"place": a, **handle}},
        _go(b), {"command": "drop", "params": {"place": b, **handle}},
    ]  # fmt: skip


def _round(rng: random.Random, places: list[str]) -> tuple[str, Steps]:
    stops = rng.sample(places, 3)
    return f"Round: {', '.join(stops)}", [_go(stop) for stop in stops]


def _errand(rng: random.Random, places: list[str]) -> tuple[str, Steps]:
    a, b = rng.sample(places, 2)
    wait = {"command": "wait", "params": {"seconds": float(rng.randint(3, 10))}}
    return f"Papers from {a} to {b}", [_go(a), wait, _go(b)]


# mission: commands that it needs, how it is drawn up
JOBS: tuple[tuple[frozenset[str], Callable[[random.Random, list[str]], tuple[str, Steps]]], ...] = (
    (frozenset({"navigate", "pick", "drop"}), _carry),
    (frozenset({"navigate"}), _round),
    (frozenset({"navigate", "wait"}), _errand),
)


@dataclass(slots=True)
class Traffic:
    """Keeps missions coming for those of `robots` (ids) that are free, and a few in the queue. `step` about once a second."""

    robots: list[str]
    seed: int = 1
    speed_up: float = 1.0
    next_at: dict[str, datetime] = field(default_factory=dict)
    line_up_at: datetime | None = None
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def step(self, now: datetime) -> bool:
        """Give work to robots that have rested. True when a mission was dispatched."""
        free = self._free()
        facts = live.facts([robot.pk for robot in free])
        worked = False
        for robot in free:
            if robot.pk not in self.next_at:
                self.next_at[robot.pk] = now + self._rest() / 2
            if self.next_at[robot.pk] > now:
                continue
            battery = facts[robot.pk].battery if robot.pk in facts else None
            if robot.mode == Mode.CHARGING and (battery is None or battery < ENOUGH_BATTERY):
                continue
            if battery is not None and battery < LOW_BATTERY:
                continue  # the charge policy sends it
            worked |= self._give(robot)
            self.next_at[robot.pk] = now + self._rest()
        busy = self.next_at.keys() - {robot.pk for robot in free}
        for robot_id in busy:  # rest begins when the work ends
            self.next_at[robot_id] = now + self._rest()
        if self.line_up_at is not None and now >= self.line_up_at:
            self._line_up(now, sorted(set(self.robots) - {robot.pk for robot in free}))
        if self.line_up_at is None or now >= self.line_up_at:
            self.line_up_at = now + timedelta(seconds=LINE_UP_S)
        return worked

    def _rest(self) -> timedelta:
        return timedelta(seconds=self.rng.uniform(*REST_S) / self.speed_up)

    def _free(self) -> list[Robot]:
        found = Robot.objects.filter(
            ~Exists(Hold.objects.filter(robot=OuterRef("pk"), released_at=None)),
            ~Exists(Mission.objects.filter(RUNNING, robot=OuterRef("pk"))),
            id__in=self.robots,
            retired_at=None,
            presence=Presence.ONLINE,
            mode__in=[Mode.IDLE, Mode.CHARGING],
        )
        return list(found.select_related("brand").order_by("id"))

    def _give(self, robot: Robot) -> bool:
        """Something to do now, unless something waits for it already."""
        try:
            if _in_line(robot=robot).exists():
                return False
            mission_id = self._draft(robot, robot)
            return mission_id is not None and queue_mission(mission_id, by=DEMO).startswith("dispatched")
        except Refused as refused:  # a person was quicker; next time
            log.info("no mission for %s: %s", robot.pk, refused)
            return False

    def _line_up(self, now: datetime, busy: list[str]) -> None:
        """A few missions that wait: for a busy robot, for any, for each other, for a time, for an approval."""
        robots = list(Robot.objects.filter(pk__in=busy, retired_at=None).select_related("brand").order_by("id"))
        if not robots or _in_line(created_by=DEMO.actor_name).count() >= IN_LINE:
            return
        robot = self.rng.choice(robots)
        running = Mission.objects.filter(RUNNING, site=robot.site_id).first()
        drafts = Mission.objects.filter(created_by=DEMO.actor_name, state=State.PENDING, needs_approval=True)
        kind = self.rng.choice(("robot", "robot", "any", "after", "later", "approval"))
        wanted: dict[str, Any] = {"priority": self.rng.choice((0, 0, 0, 5))}
        if kind == "after" and running is not None:
            wanted["after"] = [running.pk]
        elif kind == "later":
            wanted["not_before"] = now + LATER
        elif kind == "approval" and not drafts.exists():
            self._draft(robot, robot, needs_approval=True, importance="important")
            return
        mission_id = self._draft(robot, None if kind == "any" else robot, **wanted)
        if mission_id is not None:
            try:
                queue_mission(mission_id, by=DEMO)
            except Refused as refused:
                log.info("not queued: %s", refused)

    def _draft(self, like: Robot, robot: Robot | None, **wanted: Any) -> Any:
        """A job that `like` can do, at its site; for `robot`, or for any."""
        places = list(Place.objects.filter(site=like.site_id, is_charger=False).order_by("id"))
        stops, can = [place.name for place in places], set(like.brand.capabilities)
        jobs = [job for needs, job in JOBS if needs <= can]
        if len(stops) < 3 or not jobs:
            return None
        title, steps = self.rng.choice(jobs)(self.rng, stops)
        return draft_mission(
            title=title, site=like.site_id, robot=robot, steps=steps, by=DEMO, timeout_s=900, **wanted
        )  # fmt: skip


def _in_line(**where: Any) -> QuerySet[Mission]:
    return Mission.objects.filter(QUEUED, **where)
