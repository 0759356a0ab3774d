"""What a mission form offers to one person: their sites, the places there, and robots with who is free and why not."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q
from django.utils.text import Truncator

from fleet.models import Brand, OfflinePolicy, Place, Robot, Site
from fleet.people.access import at_sites
from fleet.robots import abilities
from missions.command_types import TYPES
from missions.models import OPEN, Mission
from missions.plans import MAX_STEPS
from missions.queue.choosing import choose
from missions.queue.reasons import MissionFacts, RobotFacts, nobody, robot_obstacle
from missions.queue.standing import robots_at
from missions.step_wording import WORDS
from missions.wording import mission_said

MAX_MISSIONS = 100  # open ones to come after, the newest
FREE, TAKEN = "Free now", "Not free now"


class RobotChoice(NamedTuple):
    """One robot; `says` is what it is at, with its name, `free` whether it could begin at once."""

    id: str
    name: str
    site_id: int
    can: list[str]
    says: str
    free: bool

    def __str__(self) -> str:
        return f"{self.id}, {self.says}"


@dataclass(frozen=True)
class Choices:
    """Everything by key of the site, as this person may see it. What only a page shows is worked out when it is."""

    sites: dict[int, str]
    places: dict[int, list[str]]
    facts: dict[str, RobotFacts]
    missions: dict[UUID, tuple[int, str]]  # those that others may come after: site and words

    @cached_property
    def robots(self) -> dict[str, RobotChoice]:
        return {robot.id: _choice(robot) for robot in self.facts.values()}

    def capabilities(self, site_id: int | None, robot_id: str) -> frozenset[str]:
        """What the chosen robot can do; of no robot what any robot of the site can do; of no site everything."""
        if robot_id in self.facts:
            return self.facts[robot_id].capabilities
        if site_id is None:
            return frozenset(TYPES)
        return abilities.together(r.capabilities for r in self.facts.values() if r.site_id == site_id)

    def whose(self, robot_id: str) -> str:
        """The name of the chosen robot, if it says itself what it can do."""
        robot = self.facts.get(robot_id)
        return robot.name if robot is not None and robot.own_word else ""

    def grouped_robots(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """For a select: those who are free first. With several sites each says where it works."""
        groups: dict[str, list[tuple[str, str]]] = {FREE: [], TAKEN: []}
        for robot in self.robots.values():
            where = f" · {self.sites[robot.site_id]}" if len(self.sites) > 1 else ""
            groups[FREE if robot.free else TAKEN].append((robot.id, f"{robot}{where}"))
        return [(label, robots) for label, robots in groups.items() if robots]

    def would_go_to(self, site_id: int, robot_id: str, steps: list[dict[str, Any]]) -> str:
        """Who would get a mission with these steps if it were run now, or why it would wait."""
        first = next((s["params"]["place"] for s in steps if s["params"].get("place")), "")
        place = Place.objects.filter(site=site_id, name=first).first() if first else None
        mission = MissionFacts(
            "", "", site_id, commands=frozenset(abilities.needed(s["command"], s["params"]) for s in steps),
            first_place=(place.x, place.y) if place else None,
        )  # fmt: skip
        if robot := self.facts.get(robot_id):
            reason = robot_obstacle(robot, mission)
            return f"{reason.text}. The mission would wait for it." if reason else ""
        here = [robot for robot in self.facts.values() if robot.site_id == site_id]
        if reason := nobody(mission, here):
            return f"{reason.text}. The mission would wait."
        return f"Now it would go to {choose(mission, here).because}."

    def for_page(self) -> dict[str, Any]:
        """What the page's script needs."""
        return {
            "types": {
                t.name: {
                    "label": t.label,
                    "help": t.help,
                    "timeout_s": t.timeout_s,
                    "repeatable": t.repeatable,
                    "confirm": t.confirm,
                    "inputs": {i.name: {"title": i.title, "help": i.help, "default": i.default} for i in t.inputs},
                }
                for t in TYPES.values()
            },
            "places": self.places,
            **_kinds(self.robots.values()),
            "words": WORDS,
            "missions": {str(pk): site for pk, (site, _) in self.missions.items()},
            "max_steps": MAX_STEPS,
        }


def choices_for(user: Any, mission: Mission | None = None) -> Choices:
    """As many queries however many robots there are, and one look at the live facts. `mission`: the one that is edited."""
    sites = dict(at_sites(user, Site.objects.order_by("name")).values_list("pk", "name"))
    places: dict[int, list[str]] = {}
    for site_id, name in Place.objects.filter(site__in=sites).order_by("name").values_list("site_id", "name"):
        places.setdefault(site_id, []).append(name)
    return Choices(sites, places, dict(sorted(robots_at(sites).items())), _missions(list(sites), mission))


def _kinds(robots: Iterable[RobotChoice]) -> dict[str, Any]:
    """Each robot's site and kind; and of each kind, once for all of its robots, what they can and what their brand says."""
    robots = list(robots)
    brand_of = dict(Robot.objects.filter(pk__in=[r.id for r in robots]).values_list("pk", "brand"))
    numbers: dict[tuple[int, tuple[str, ...]], int] = {}
    found = {
        r.id: {"site": r.site_id, "kind": numbers.setdefault((brand_of[r.id], tuple(r.can)), len(numbers))}
        for r in robots
    }
    brands = Brand.objects.in_bulk({brand for brand, _ in numbers})
    return {"robots": found, "kinds": [{"can": can, **_usual(brands[brand])} for brand, can in numbers]}


def _usual(brand: Brand) -> dict[str, Any]:
    """What holds where a mission says nothing."""
    offline = str(OfflinePolicy(brand.offline_policy).label)
    return {"step_timeouts": brand.step_timeouts, "timeout_s": brand.mission_timeout_s, "offline": offline}


def _missions(site_ids: list[int], mission: Mission | None) -> dict[UUID, tuple[int, str]]:
    """The newest open ones, and those that were chosen before; never the mission itself."""
    chosen = list(mission.dependencies.values_list("on", flat=True)) if mission else []
    found = Mission.objects.filter(site__in=site_ids).exclude(pk=mission.pk if mission else None)
    newest = found.filter(state__in=OPEN).order_by("-created_at").values("pk")[:MAX_MISSIONS]
    rows = found.filter(Q(pk__in=newest) | Q(pk__in=chosen)).select_related("robot").order_by("-created_at")
    return {row.pk: (row.site_id, _mission_words(row)) for row in rows}


def _mission_words(mission: Mission) -> str:
    robot = f", {mission.robot}" if mission.robot else ""
    return f"{mission.title} ({mission_said(mission).word.lower()}{robot}, {str(mission.pk)[:8]})"


def _choice(robot: RobotFacts) -> RobotChoice:
    """By the rule of the queue: what would keep it from a mission that anybody can do."""
    reason = robot_obstacle(robot, MissionFacts("", "", robot.site_id))
    battery = f", {robot.battery:.0f} %" if robot.battery is not None else ""
    says = Truncator(reason.text).chars(120) if reason else f"{robot.name}: free{battery}"
    return RobotChoice(robot.id, robot.name, robot.site_id, abilities.types(robot.capabilities), says, reason is None)
