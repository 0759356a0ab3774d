"""How things stand: the plain facts that the rules of the queue need, read with as many queries for one as for many."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from fleet.models import Hold, HoldKind, Place, Robot
from fleet.ports import live
from fleet.robots import abilities
from fleet.wording import clock
from missions.models import QUEUED, RUNNING, Dependency, Importance, Mission, OriginKind, State, Step
from missions.queue.choosing import order
from missions.queue.reasons import MissionFacts, RobotFacts, Robots


@dataclass(frozen=True, slots=True)
class Standing:
    """Missions as facts, in the order in which they were given, and the robots that they may go to."""

    missions: dict[UUID, MissionFacts]
    robots: dict[str, RobotFacts]

    _at: dict[int, Robots] = field(default_factory=dict)

    def candidates(self, mission: MissionFacts) -> Iterable[RobotFacts]:
        """Robots that a mission may be given to if it names none: one object for all missions of a site."""
        if mission.robot is not None:
            return ()
        if mission.site_id not in self._at:
            here = (r for r in self.robots.values() if r.site_id == mission.site_id and not r.retired)
            self._at[mission.site_id] = Robots(here)
        return self._at[mission.site_id]


# columns of a mission that this module reads
COLUMNS = (
    "pk", "title", "site_id", "robot_id", "state", "version", "priority", "importance", "dispatched_at", "delivered_at",
    "stop_requested_at", "origin", "origin_kind", "queued_at", "not_before", "expires_at", "needs_approval", "approved_at", "charger",
)  # fmt: skip


def queued(**where: Any) -> list[Mission]:
    """Missions that wait in the queue, unsorted."""
    return list(Mission.objects.filter(QUEUED, **where).only(*COLUMNS))


def standing(missions: Iterable[Mission], *, all_robots: bool = False) -> Standing:
    """Facts about these missions and their robots. `all_robots`: all of their sites, whether or not they are named."""
    rows = list(missions)
    anywhere = {m.site_id for m in rows if all_robots or not m.robot_id}
    robots = _robots(anywhere, {m.robot_id for m in rows if m.robot_id})
    running = _running(robots, {m.site_id for m in rows})
    robots = {pk: replace(robot, running=running.get(pk, "")) for pk, robot in robots.items()}
    steps = _steps(rows)
    after = _after(rows)
    poses = _poses(rows, steps)
    line = _line(robots, anywhere)
    places = _places(line)
    had_it = _had_it(rows)
    loads = {pk: len(waiting) for pk, waiting in line.items()}
    robots = {pk: replace(robot, load=loads.get(pk, 0)) for pk, robot in robots.items()}
    found = {}
    for row in rows:
        mine = steps.get(row.pk, [])
        first = next((params["place"] for _, params in mine if params.get("place")), "")
        ahead, behind = places.get(row.pk, (0, ""))
        found[row.pk] = MissionFacts(
            id=str(row.pk), title=row.title, site_id=row.site_id, state=row.state,
            robot=robots.get(row.robot_id or ""), commands=frozenset(abilities.needed(command, params) for command, params in mine),
            priority=row.priority, important=row.importance == Importance.IMPORTANT,
            dispatched=row.dispatched_at is not None, delivered=row.delivered_at is not None,
            stopping=row.stop_requested_at is not None, queued_at=row.queued_at, not_before=row.not_before,
            expires_at=row.expires_at,
            unapproved=row.needs_approval and row.approved_at is None, after=tuple(after.get(row.pk, ())),
            charger=row.charger, charger_taken_by=running.get((row.site_id, row.charger), "") if row.charger else "",
            first_place=poses.get((row.site_id, first)), ahead=ahead, behind=behind,
            version=row.version, not_robot=had_it.get(row.origin, "") if row.origin_kind == OriginKind.HAND_OVER else "",
        )  # fmt: skip
    return Standing(found, robots)


def robots_at(sites: Iterable[int]) -> dict[str, RobotFacts]:
    """Robots in service at these sites, with what they are at; how many wait for each is left open."""
    robots = _robots(set(sites), set())
    running = _running(robots, ())
    return {pk: replace(robot, running=running.get(pk, "")) for pk, robot in robots.items()}


def robot_facts(robot: Any, held: str) -> RobotFacts:
    """From a row with its brand; what others know of it is left open."""
    brand = robot.brand
    return RobotFacts(
        id=robot.pk, name=robot.name or robot.pk, site_id=robot.site_id, capabilities=abilities.of(robot),
        own_word=robot.capabilities is not None, presence=robot.presence, presence_since=robot.presence_since, mode=robot.mode, fault=robot.fault,
        retired=robot.retired_at is not None, held=held, charge_below_pct=brand.charge_below_pct,
        charge_until_pct=brand.charge_until_pct,
    )  # fmt: skip


def held_words(holds: Iterable[Any]) -> str:
    """Open holds, in words: kind, who, until when, why."""
    return "; ".join(
        f"{HoldKind(hold.kind).label} by {hold.by}"
        + (f" until {clock(hold.until)}" if hold.until else "")
        + (f": {hold.why}" if hold.why else "")
        for hold in holds
    )


def _robots(sites: set[int], named: set[str]) -> dict[str, RobotFacts]:
    rows = list(Robot.objects.filter(Q(site__in=sites, retired_at=None) | Q(pk__in=named)).select_related("brand"))
    holds: dict[str, list[Hold]] = {}
    for hold in Hold.objects.filter(robot__in=[r.pk for r in rows], released_at=None).order_by("since"):
        holds.setdefault(hold.robot_id, []).append(hold)
    known = live.facts([r.pk for r in rows]) if rows else {}
    found = {}
    for row in rows:
        facts = robot_facts(row, held_words(holds.get(row.pk, ())))
        if now := known.get(row.pk):
            facts = replace(facts, battery=now.battery, x=now.x, y=now.y)
        found[row.pk] = facts
    return found


def _running(robots: Iterable[str], sites: Iterable[int]) -> dict[Any, str]:
    """Title of the dispatched open mission by robot, and by (site, charger)."""
    rows = Mission.objects.filter(RUNNING, Q(robot__in=list(robots)) | (Q(site__in=list(sites)) & ~Q(charger="")))
    found: dict[Any, str] = {}
    for robot, site, charger, title in rows.values_list("robot_id", "site_id", "charger", "title"):
        found[robot] = title
        if charger:
            found[site, charger] = title
    return found


def _steps(rows: list[Mission]) -> dict[UUID, list[tuple[str, dict[str, Any]]]]:
    found: dict[UUID, list[tuple[str, dict[str, Any]]]] = {}
    steps = Step.objects.filter(mission__in=[m.pk for m in rows]).order_by("mission", "number")
    for mission, command, params in steps.values_list("mission_id", "command", "params"):
        found.setdefault(mission, []).append((command, params))
    return found


def _had_it(rows: list[Mission]) -> dict[UUID | None, str]:
    """Robots from which missions were handed over: those that name none go to another."""
    origins = [row.origin for row in rows if row.origin_kind == OriginKind.HAND_OVER and not row.robot_id]
    return dict(Mission.objects.filter(pk__in=origins).values_list("pk", "robot_id")) if origins else {}


def _after(rows: list[Mission]) -> dict[UUID, list[tuple[str, str]]]:
    """What has not succeeded of what each depends on."""
    found: dict[UUID, list[tuple[str, str]]] = {}
    unmet = Dependency.objects.filter(mission__in=[m.pk for m in rows]).exclude(on__state=State.SUCCESS)
    for mission, title, state in unmet.order_by("number").values_list("mission_id", "on__title", "on__state"):
        found.setdefault(mission, []).append((title, state))
    return found


def _poses(rows: list[Mission], steps: dict[UUID, list[Any]]) -> dict[tuple[int, str], tuple[float, float]]:
    """Where the first places of missions without a robot are."""
    names = {p["place"] for m in rows if not m.robot_id for _, p in steps.get(m.pk, ()) if p.get("place")}
    places = Place.objects.filter(site__in={m.site_id for m in rows}, name__in=names) if names else ()
    return {(place.site_id, place.name): (place.x, place.y) for place in places}


def _line(robots: Iterable[str], sites: Iterable[int]) -> dict[Any, list[Any]]:
    """Everything that waits, sorted, by robot, and by site for missions that name none."""
    waiting = Mission.objects.filter(QUEUED, Q(robot__in=list(robots)) | Q(site__in=list(sites), robot=None))
    rows = list(waiting.only("pk", "title", "robot_id", "site_id", "priority", "queued_at"))
    found: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=_order):
        found.setdefault(row.robot_id or row.site_id, []).append(row)
    return found


_order: Callable[[Any], Any] = lambda row: order(
    MissionFacts(str(row.pk), "", 0, priority=row.priority, queued_at=row.queued_at)
)


def _places(line: dict[Any, list[Any]]) -> dict[UUID, tuple[int, str]]:
    """Mission → how many are before it in its queue, and the title of the last of them."""
    return {
        row.pk: (n, waiting[n - 1].title if n else "") for waiting in line.values() for n, row in enumerate(waiting)
    }
