"""The charge policy: an idle robot with a low battery is sent to a free charger of its site.

In words: a robot below its brand's `charge_below_pct` that is idle, free, and has nothing that it could do now goes to
the nearest charger that no mission uses and no other robot stands at; the emptiest robot first. While there is work for
it, it works on, down to `HARD_MINIMUM_PCT`. One robot per charger is held by the database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import uuid4

from fleet.commit import new
from fleet.history import AGGREGATES, Origin
from fleet.models import Mode, Place, Robot
from fleet.ports import live
from missions import command_types, facts, plans, step_policy
from missions.decide import decide
from missions.ledger import Ledger
from missions.models import RUNNING, Mission, State
from missions.queue.choosing import distance_m
from missions.queue.dispatching import frames, locked, places_of
from missions.queue.reasons import MissionFacts, RobotFacts, robot_obstacle
from missions.queue.standing import robots_at

POLICY = Origin("policy", "charge", "charge policy", "policy:battery low")
AGAIN_S = 600  # after a charge that did not succeed, or was cancelled, the robot is not sent again so soon
AT_M = 1.0  # this near to a charger a robot stands at it
TIMEOUT_S = 4 * 3600


@dataclass(frozen=True, slots=True)
class Charger:
    site_id: int
    name: str
    x: float
    y: float
    taken: bool = False  # by a mission


@dataclass(frozen=True, slots=True)
class Run:
    """This robot goes to this charger."""

    robot: RobotFacts
    charger: Charger


def runs(
    robots: Iterable[RobotFacts], chargers: Iterable[Charger], standing_at: Mapping[str, str], tired: Iterable[str] = ()
) -> list[Run]:
    """Who goes where. `standing_at`: robot → place that it says it is at; `tired`: robots that were sent lately."""
    everybody = list(robots)
    free = [c for c in chargers if not c.taken and not _occupied(c, everybody, standing_at)]
    low = [r for r in everybody if needs_charge(r) and r.id not in set(tired)]
    found = []
    for robot in sorted(low, key=lambda r: (r.battery or 0.0, r.id)):
        own = [c for c in free if c.site_id == robot.site_id]
        if not own:
            continue
        nearest = min(own, key=lambda c: (_far(robot, c), c.name))
        free.remove(nearest)
        found.append(Run(robot, nearest))
    return found


def needs_charge(robot: RobotFacts) -> bool:
    """Idle, free, able, and known to be below its brand's threshold."""
    if robot.battery is None or robot.charge_below_pct is None or robot.mode != Mode.IDLE:
        return False
    task = MissionFacts("", "", robot.site_id, commands=frozenset({"charge"}))
    return robot.battery < robot.charge_below_pct and robot_obstacle(robot, task) is None


def look(now: datetime) -> list[Run]:
    """Who should be sent now. Costs one statement while no brand has a policy."""
    sites = set(
        Robot.objects.filter(
            retired_at=None, mode=Mode.IDLE, presence="online", brand__charge_below_pct__isnull=False
        ).values_list("site_id", flat=True)
    )  # fmt: skip
    places = list(Place.objects.filter(site__in=sites, is_charger=True)) if sites else []
    if not places:
        return []
    robots = robots_at({place.site_id for place in places})
    if not any(needs_charge(robot) for robot in robots.values()):
        return []
    used = set(Mission.objects.filter(RUNNING).exclude(charger="").values_list("site_id", "charger"))
    chargers = [Charger(p.site_id, p.name, p.x, p.y, (p.site_id, p.name) in used) for p in places]
    lately = Mission.objects.filter(
        created_by=POLICY.actor_name, state=State.ABORTED, ended_at__gt=now - timedelta(seconds=AGAIN_S)
    )
    at = {robot_id: known.place for robot_id, known in live.facts(robots).items()}
    return runs(robots.values(), chargers, at, [r for r in lately.values_list("robot_id", flat=True) if r])


def send(run: Run, now: datetime) -> bool:
    """Draw up the mission and hand it over, inside the caller's transaction. False when it no longer holds.

    Raises `IntegrityError` naming `mission_one_robot_per_charger` when somebody else took the charger.
    """
    ledger = Ledger.open([run.robot.id], now=now)
    robot = ledger.robots.get(run.robot.id)
    if robot is None or robot.row.site_id != run.charger.site_id or not needs_charge(locked(run.robot, robot, ledger)):
        return False
    change = new(AGGREGATES["mission"], uuid4())
    change.origin = POLICY
    decide(change, facts.DrawUp(*_plan(run)), now)
    places = places_of([run.charger.site_id])[run.charger.site_id]
    steps = frames(change, places, ledger.brand(run.robot.id))
    decide(change, facts.Dispatch(robot.row.name, steps, ledger.timings(run.robot.id)), now)
    ledger.missions[change.row.pk] = change
    ledger.commit()
    return True


def _plan(run: Run) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    until = run.robot.charge_until_pct
    params = command_types.validate(
        "charge",
        {"place": run.charger.name, "until_percent": until},
        places={run.charger.name},
        capabilities={"charge"},
    )
    steps = [{"command": "charge", "params": params, "timeout_s": TIMEOUT_S}]
    steps[0] |= step_policy.checked(1, steps[0])
    fields = {
        "title": f"Charge at {run.charger.name}"[:200], "site_id": run.robot.site_id, "robot_id": run.robot.id,
        "timeout_s": TIMEOUT_S, "charger": plans.charger(steps),
    }  # fmt: skip
    return fields, steps


def _occupied(charger: Charger, robots: Iterable[RobotFacts], standing_at: Mapping[str, str]) -> bool:
    """Some robot without a mission stands there; one with a mission is about to leave, or counts by its mission."""
    return any(
        not robot.running
        and robot.site_id == charger.site_id
        and not needs_charge(robot)
        and (standing_at.get(robot.id) == charger.name or _far(robot, charger) < AT_M)
        for robot in robots
    )


def _far(robot: RobotFacts, charger: Charger) -> float:
    distance = distance_m(robot, (charger.x, charger.y))
    return inf if distance is None else distance
