"""The queue: which mission goes next and to which robot. Pure, deterministic, explained in words.

Missions go by priority, then age. One that names its robot waits for that robot; one that names none takes the best
that can. Whoever cannot run now holds up nobody behind it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import hypot, inf

from missions.queue.reasons import MissionFacts, RobotFacts, listed, mission_obstacle, robot_obstacle

LOW_PCT = 30  # a robot below this is chosen after the others, whatever its brand says


@dataclass(frozen=True, slots=True)
class Choice:
    """`robot` is the id of the best, or None. `because` says why in words; `refused`: robot → why not."""

    robot: str | None
    because: str = ""
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """This mission goes to this robot now. `choice` is None when the mission named it."""

    mission: MissionFacts
    robot: RobotFacts
    choice: Choice | None = None


def order(mission: MissionFacts) -> tuple[int, float, str]:
    """Sort key of the queue: priority (higher first), then age."""
    return -mission.priority, mission.queued_at.timestamp() if mission.queued_at else inf, mission.id


def choose(mission: MissionFacts, candidates: Iterable[RobotFacts]) -> Choice:
    """The best robot for a mission that names none: of those that can take it now, by battery, distance, load, id.

    Battery: enough, then unknown, then low. Distance: metres to the first place, unknown last. Load: missions that
    wait for this very robot.
    """
    able: list[RobotFacts] = []
    refused: dict[str, str] = {}
    for robot in sorted(candidates, key=lambda r: r.id):
        reason = robot_obstacle(robot, mission)
        if reason is None:
            able.append(robot)
        else:
            refused[robot.id] = reason.text
    if not able:
        return Choice(None, "", refused)
    best = min(able, key=lambda robot: _keys(mission, robot))
    others = listed(refused.values())
    return Choice(best.id, _words(mission, best, able) + (f"; {others}" if others else ""), refused)


def plan(missions: Iterable[MissionFacts], robots: Collection[RobotFacts], now: datetime) -> list[Decision]:
    """What can be dispatched at once, in the order of the queue; no robot and no charger twice."""
    known = {robot.id: robot for robot in robots}
    free = {pk: robot for pk, robot in known.items() if not (robot.running or robot.held or robot.retired)}
    chargers: set[tuple[int, str]] = set()
    in_vain: set[tuple[int, frozenset[str], bool, str]] = set()  # what no robot that is left can take
    found: list[Decision] = []
    for mission in sorted(missions, key=order):
        if mission_obstacle(mission, now) or (mission.site_id, mission.charger) in chargers:
            continue
        if mission.robot is not None:
            decision = _named(mission, free.get(mission.robot.id))
        elif (kind := (mission.site_id, mission.commands, mission.important, mission.not_robot)) in in_vain:
            continue
        else:
            decision = _unnamed(mission, free, known)
            if decision is None:
                in_vain.add(kind)
        if decision is None:
            continue
        found.append(decision)
        robot = decision.robot
        known[robot.id] = replace(robot, running=mission.title)
        del free[robot.id]
        if mission.charger:
            chargers.add((mission.site_id, mission.charger))
    return found


def _named(mission: MissionFacts, robot: RobotFacts | None) -> Decision | None:
    return None if robot is None or robot_obstacle(robot, mission) else Decision(mission, robot)


def _unnamed(mission: MissionFacts, free: dict[str, RobotFacts], known: dict[str, RobotFacts]) -> Decision | None:
    """The reasons of all others are put into words only when one is found."""
    if all(robot_obstacle(robot, mission) for robot in free.values()):
        return None
    choice = choose(mission, [robot for robot in known.values() if robot.site_id == mission.site_id])
    return Decision(mission, known[choice.robot], choice) if choice.robot else None


def _keys(mission: MissionFacts, robot: RobotFacts) -> tuple[int, float, int, str]:
    distance = distance_m(robot, mission.first_place)
    return _battery_class(robot), inf if distance is None else distance, robot.load, robot.id


def _battery_class(robot: RobotFacts) -> int:
    if robot.battery is None:
        return 1
    return 0 if robot.battery >= max(robot.charge_below_pct or 0, LOW_PCT) else 2


def distance_m(robot: RobotFacts, place: tuple[float, float] | None) -> float | None:
    """Straight line, in metres; None when one of the two is unknown."""
    if place is None or robot.x is None or robot.y is None:
        return None
    return hypot(robot.x - place[0], robot.y - place[1])


def _words(mission: MissionFacts, best: RobotFacts, able: list[RobotFacts]) -> str:
    distance = distance_m(best, mission.first_place)
    metres = f" ({distance:.0f} m)" if distance is not None else ""
    battery = f", {best.battery:.0f} % battery" if best.battery is not None else ""
    if len(able) == 1:
        how = f"the only one that can now{metres}"
    else:
        nearest = distance is not None and all(
            distance <= d for robot in able if (d := distance_m(robot, mission.first_place)) is not None
        )
        how = f"{'nearest' if nearest else 'best'} of {len(able)} that can{metres}"
    return f"{best.name}: {how}{battery}"
