"""The demo site is kept busy: calm, seeded missions for robots that are free, and a few that wait, each for another reason."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from fleet.models import Hold, Mode, Place, Presence, Robot
from fleet.ports import live
from fleet.refusals import Refused
from missions.actions import queue_mission
from missions.drawing_up import draft_mission
from missions.models import QUEUED, RUNNING, Mission, State
from telemetry.simulator.demo import DEMO

log = logging.getLogger(__name__)
LOADS = ("pallet 7", "a crate of bolts", "two boxes", "the spare wheel", "sample 12", "a roll of film")
REST_S = (10.0, 60.0)  # between two missions of one robot
LINE_UP_S, IN_LINE = 15.0, 3  # how often, and how many missions at most wait for robots that are busy
LATER = timedelta(minutes=5)
LOW_BATTERY, ENOUGH_BATTERY = 30.0, 80.0  # per cent

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
