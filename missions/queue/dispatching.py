"""Dispatching what waits: facts are read, the queue decides, and rows are written under lock if it still holds."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from fleet.history import Change, Origin
from fleet.models import Brand, Place
from missions import facts
from missions.ledger import Ledger
from missions.queue.because import Before
from missions.queue.choosing import Decision, plan
from missions.queue.reasons import RobotFacts, mission_obstacle, robot_obstacle
from missions.queue.standing import held_words, queued, standing

_NATIVE = Brand._meta.get_field("driver").get_default()  # its robots go by the pose
LOST_RACES = ("mission_one_dispatched_per_robot", "mission_one_robot_per_charger")  # somebody else was faster


def decisions(now: datetime, mine: Callable[[Decision], bool] = lambda decision: True, **where: Any) -> list[Decision]:
    """What can be dispatched at once of everything that waits; `where` narrows by columns, e.g. `site=3`."""
    waiting = queued(**where)
    if not waiting:
        return []
    found = standing(waiting, all_robots=True)
    return plan(found.missions.values(), found.robots.values(), now, mine)


def carry_out(chosen: Iterable[Decision], now: datetime, *, by: Origin | None = None) -> list[UUID]:
    """Dispatch what still can be, inside the caller's transaction; returns what was.

    Raises `IntegrityError` naming one of `LOST_RACES`, or `Conflict`, when somebody was faster.
    """
    wanted = list(chosen)
    robots, missions = {d.robot.id for d in wanted}, [UUID(d.mission.id) for d in wanted]
    ledger = Ledger.open(robots, missions, now=now)
    places = places_of({d.mission.site_id for d in wanted})
    before = Before({}, {}) if by else Before.of(robots, missions)
    done = []
    for decision in wanted:
        mission_id, robot_id = UUID(decision.mission.id), decision.robot.id
        if not still_holds(ledger, decision, now):
            continue
        change, robot = ledger.missions[mission_id], ledger.robots[robot_id].row
        origin = by or Origin("policy", "queue", "queue", before.cause(change.row, robot))
        if choice := decision.choice:
            because = choice.because[:1000]
            ledger.tell_mission(mission_id, facts.ChooseRobot(robot_id, because, choice.refused), origin)
        steps = frames(change, places[change.row.site_id], ledger.brand(robot_id))
        ledger.tell_mission(mission_id, facts.Dispatch(robot.name, steps, ledger.timings(robot_id)), origin)
        ledger.running[robot_id] = mission_id
        done.append(mission_id)
    ledger.commit()
    return done


def still_holds(ledger: Ledger, decision: Decision, now: datetime) -> bool:
    """Whether the locked rows are still what was decided on."""
    change, robot = ledger.missions.get(UUID(decision.mission.id)), ledger.robots.get(decision.robot.id)
    if change is None or robot is None or change.row.version != decision.mission.version:
        return False
    return not (
        mission_obstacle(decision.mission, now)
        or robot_obstacle(locked(decision.robot, robot, ledger), decision.mission)
    )


def locked(known: RobotFacts, change: Change, ledger: Ledger) -> RobotFacts:
    """What was known of the robot, corrected by its locked row."""
    row = change.row
    holds = [hold for hold in change.children["holds"].values() if hold.released_at is None]
    own = {"capabilities": frozenset(row.capabilities), "own_word": True} if row.capabilities is not None else {}
    return replace(
        known, **own, site_id=row.site_id, presence=row.presence, mode=row.mode, fault=row.fault, held=held_words(holds),
        retired=row.retired_at is not None, running="another" if row.pk in ledger.running else "",
    )  # fmt: skip


def places_of(sites: Collection[int]) -> dict[int, dict[str, Place]]:
    """Places by site and name. One query."""
    found: dict[int, dict[str, Place]] = {site: {} for site in sites}
    for place in Place.objects.filter(site__in=sites):
        found[place.site_id][place.name] = place
    return found


def frames(change: Change, places: Mapping[str, Place], brand: Brand) -> list[dict[str, Any]]:
    """Steps as the robot of this brand gets them: places by name and by pose. `places`: those of its site.

    Where a driver speaks for it, also by the node that is noted for the brand: like the pose, it stays as it was sent.
    """
    found, driven = [], brand.driver != _NATIVE
    for number, step in sorted(change.children["steps"].items()):
        params = dict(step.params)
        node = {}
        if place := places.get(params.get("place", "")):
            params.update(x=place.x, y=place.y, theta=place.theta)
            node = {"node": place.nodes.get(str(brand.pk), "")} if driven else {}
        found.append(
            {
                "number": number, "command": step.command, "params": params, "timeout_s": step.timeout_s, "attempt": 1,
                **node,
            }
        )  # fmt: skip
    return found
