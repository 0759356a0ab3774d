"""What a mission form offers to one person: their sites, the places there, and robots with who is free and why not."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.text import Truncator

from fleet.access import at_sites
from fleet.models import Place, Site
from missions.command_types import TYPES
from missions.plans import MAX_STEPS
from missions.reasons import MissionFacts, RobotFacts, robot_obstacle
from missions.standing import robots_at

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


@dataclass(frozen=True, slots=True)
class Choices:
    """Everything by key of the site, as this person may see it."""

    sites: dict[int, str]
    places: dict[int, list[str]]
    robots: dict[str, RobotChoice]

    def capabilities(self, site_id: int | None, robot_id: str) -> list[str]:
        """What the chosen robot can do; of no robot what any robot of the site can do; of no site everything."""
        if robot_id in self.robots:
            return self.robots[robot_id].can
        if site_id is None:
            return list(TYPES)
        return sorted({command for r in self.robots.values() if r.site_id == site_id for command in r.can})

    def grouped_robots(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """For a select: those who are free first. With several sites each says where it works."""
        groups: dict[str, list[tuple[str, str]]] = {FREE: [], TAKEN: []}
        for robot in self.robots.values():
            where = f" · {self.sites[robot.site_id]}" if len(self.sites) > 1 else ""
            groups[FREE if robot.free else TAKEN].append((robot.id, f"{robot}{where}"))
        return [(label, robots) for label, robots in groups.items() if robots]

    def for_page(self) -> dict[str, Any]:
        """What the page's script needs."""
        return {
            "types": {
                t.name: {
                    "label": t.label,
                    "help": t.help,
                    "timeout_s": t.timeout_s,
                    "inputs": {i.name: {"title": i.title, "help": i.help, "default": i.default} for i in t.inputs},
                }
                for t in TYPES.values()
            },
            "places": self.places,
            "robots": {r.id: {"site": r.site_id, "can": r.can} for r in self.robots.values()},
            "max_steps": MAX_STEPS,
        }


def choices_for(user: Any) -> Choices:
    """Five queries and one look at the live facts, however many robots there are."""
    sites = dict(at_sites(user, Site.objects.order_by("name")).values_list("pk", "name"))
    places: dict[int, list[str]] = {}
    for site_id, name in Place.objects.filter(site__in=sites).order_by("name").values_list("site_id", "name"):
        places.setdefault(site_id, []).append(name)
    robots = sorted(robots_at(sites).values(), key=lambda robot: robot.id)
    return Choices(sites, places, {robot.id: _choice(robot) for robot in robots})


def _choice(robot: RobotFacts) -> RobotChoice:
    """By the rule of the queue: what would keep it from a mission that anybody can do."""
    reason = robot_obstacle(robot, MissionFacts("", "", robot.site_id))
    battery = f", {robot.battery:.0f} %" if robot.battery is not None else ""
    says = Truncator(reason.text).chars(120) if reason else f"{robot.name}: free{battery}"
    return RobotChoice(robot.id, robot.name, robot.site_id, sorted(robot.capabilities), says, reason is None)
