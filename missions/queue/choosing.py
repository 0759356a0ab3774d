"""The queue: which mission goes next and to which robot. Pure, deterministic, explained in words.

Missions go by priority, then age. One that names its robot waits for that robot; one that names none takes the best
that can. Whoever cannot run now holds up nobody behind it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import hypot, inf

from missions.queue.reasons import MissionFacts, RobotFacts, listed, mission_obstacle, robot_obstacle

AT_ONCE = 25  # decisions of one look: with thousands of robots each takes milliseconds, and a worker has more to do
MOST = 200  # with those of other workers
NAMED = 20  # robots that did not get it, of which history says why
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


class Fit:
    """Robots of a site, for missions that are alike: who can take them now, and why not the others."""

    def __init__(self, mission: MissionFacts, candidates: Iterable[RobotFacts]) -> None:
        self.able: dict[str, RobotFacts] = {}
        self.refused: dict[str, str] = {}  # the first by id, as many as anybody reads
        self._others = 0
        self._mission = mission
        for robot in sorted(candidates, key=lambda r: r.id):
            reason = robot_obstacle(robot, mission)
            if reason is None:
                self.able[robot.id] = robot
            else:
                self._refuse(robot.id, reason.text)

    def taken(self, robot: RobotFacts) -> None:
        """It has work now, and can take none of these any more."""
        if self.able.pop(robot.id, None) is not None and (reason := robot_obstacle(robot, self._mission)):
            self._refuse(robot.id, reason.text)

    def _refuse(self, robot_id: str, why: str) -> None:
        self._others += 1
        if len(self.refused) < NAMED or robot_id < max(self.refused):
            self.refused = dict(sorted([*self.refused.items(), (robot_id, why)])[:NAMED])

    def choose(self, mission: MissionFacts) -> Choice:
        """By battery, distance, load, id."""
        if not self.able:
            return Choice(None, "", self.refused)
        able = list(self.able.values())
        best = min(able, key=lambda robot: _keys(mission, robot))
        others = listed(self.refused.values(), self._others)
        return Choice(best.id, _words(mission, best, able) + (f"; {others}" if others else ""), dict(self.refused))


def choose(mission: MissionFacts, candidates: Iterable[RobotFacts]) -> Choice:
    """The best robot for a mission that names none: of those that can take it now, by battery, distance, load, id.

    Battery: enough, then unknown, then low. Distance: metres to the first place, unknown last. Load: missions that
    wait for this very robot.
    """
    return Fit(mission, candidates).choose(mission)


def plan(
    missions: Iterable[MissionFacts],
    robots: Collection[RobotFacts],
    now: datetime,
    mine: Callable[[Decision], bool] = lambda decision: True,
) -> list[Decision]:
    """What can be dispatched at once, in the order of the queue; no robot and no charger twice. The rest at the next look.

    `mine`: what whoever asks will carry out; others see to theirs.
    """
    free = {robot.id: robot for robot in robots if not (robot.running or robot.held or robot.retired)}
    chargers: set[tuple[int, str]] = set()
    fits: dict[tuple[object, ...], Fit] = {}  # for missions that are alike
    found: list[Decision] = []
    ours = 0
    for mission in sorted(missions, key=order):
        if ours >= AT_ONCE or len(found) >= MOST:
            break
        if mission_obstacle(mission, now) or (mission.site_id, mission.charger) in chargers:
            continue
        if mission.robot is not None:
            decision = _named(mission, free.get(mission.robot.id))
        else:
            alike = (mission.site_id, mission.commands, mission.important, mission.not_robot)
            if alike not in fits:
                taken = {d.robot.id: replace(d.robot, running=d.mission.title) for d in found}
                fits[alike] = Fit(mission, (taken.get(r.id, r) for r in robots if r.site_id == mission.site_id))
            decision = _unnamed(mission, fits[alike])
        if decision is None:
            continue
        found.append(decision)
        ours += mine(decision)
        robot = replace(decision.robot, running=mission.title)
        free.pop(robot.id, None)
        for fit in fits.values():
            fit.taken(robot)
        if mission.charger:
            chargers.add((mission.site_id, mission.charger))
    return found


def _named(mission: MissionFacts, robot: RobotFacts | None) -> Decision | None:
    return None if robot is None or robot_obstacle(robot, mission) else Decision(mission, robot)


def _unnamed(mission: MissionFacts, fit: Fit) -> Decision | None:
    choice = fit.choose(mission)
    return Decision(mission, fit.able[choice.robot], choice) if choice.robot else None


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
