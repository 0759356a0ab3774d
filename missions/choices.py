"""What a mission form offers to one person: their sites, the places there, and robots with who is free and why not."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from fleet import live
from fleet.access import at_sites
from fleet.models import HoldKind, Mode, Place, Presence, Robot, Site
from fleet.wording import MODES
from missions.actions import MAX_STEPS
from missions.command_types import TYPES
from missions.waiting import open_holds, running_missions

FREE, TAKEN = "Free now", "Not free now"


class RobotChoice(NamedTuple):
    """One robot; `says` is what it is at, in a few words, `free` whether it could begin at once."""

    id: str
    name: str
    site_id: int
    can: list[str]
    says: str
    free: bool

    def __str__(self) -> str:
        return f"{self.id}, {self.name}: {self.says}"


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
    return Choices(sites, places, {r.id: r for r in _robots(list(sites))})


def _robots(site_ids: list[int]) -> list[RobotChoice]:
    rows = list(Robot.objects.filter(site__in=site_ids, retired_at=None).select_related("brand").order_by("id"))
    ids = [robot.pk for robot in rows]
    holds, running, facts = open_holds(ids), running_missions(ids), live.facts(ids)
    found = []
    for robot in rows:
        fact = facts.get(robot.pk)
        battery = fact.battery if fact else None
        says, free = _condition(robot, holds.get(robot.pk, []), running.get(robot.pk), battery)
        found.append(RobotChoice(robot.pk, robot.name, robot.site_id, robot.brand.capabilities, says, free))
    return found


def _condition(robot: Robot, holds: list[Any], running: Any, battery: float | None) -> tuple[str, bool]:
    """The first of these that holds, and whether the robot could begin a mission at once."""
    charge = f" {battery:.0f} %" if battery is not None else ""
    if holds:
        return "; ".join(f"{HoldKind(h.kind).label.lower()} by {h.by}" for h in holds), False
    if robot.presence in (Presence.OFFLINE, Presence.UNKNOWN):
        since = f" since {robot.presence_since:%H:%M} UTC" if robot.presence_since else ""
        return ("offline" if robot.presence == Presence.OFFLINE else "link unknown") + since, False
    if robot.fault:
        return "fault", False
    if running:
        return f"busy with “{running[1][:60]}”", False
    if robot.mode in (Mode.MANUAL, Mode.CHARGING, Mode.PAUSED, Mode.RUNNING):
        return f"{MODES[robot.mode].word.lower()}{charge}", False
    return f"free{',' + charge if charge else ''}", True
