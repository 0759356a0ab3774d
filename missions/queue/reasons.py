"""Why a mission waits: the one rule, pure, over plain facts. Admin, API, live page and the queue all use it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from fleet.models import Mode, Presence
from fleet.robots.abilities import cannot_words, missing
from fleet.robots.faults import has_words
from fleet.wording import clock
from missions.models import FINAL, State

HARD_MINIMUM_PCT = 10  # below this, known, a robot gets no work but charging
FEW = 3  # robots that a sentence names


class Reason(NamedTuple):
    """`text` says why, `todo` what a person can do about it."""

    text: str
    todo: str = ""

    def __str__(self) -> str:
        return f"{self.text}. {self.todo}".strip()


@dataclass(frozen=True, slots=True)
class RobotFacts:
    """What counts of a robot. `own_word`: it says itself what it can do. `held`: its open holds in words; `running`: title of its mission; `load`: how many wait for it.

    Battery (%) and pose (m) are None when nobody knows.
    """

    id: str
    name: str
    site_id: int
    capabilities: frozenset[str] = frozenset()
    own_word: bool = False
    presence: str = Presence.ONLINE
    presence_since: datetime | None = None
    mode: str = Mode.IDLE
    fault: str = ""
    retired: bool = False
    held: str = ""
    running: str = ""
    battery: float | None = None
    x: float | None = None
    y: float | None = None
    charge_below_pct: int | None = None
    charge_until_pct: int = 80
    load: int = 0


@dataclass(frozen=True, slots=True)
class MissionFacts:
    """What counts of a mission. `robot` is the one that was named, if any.

    `after`: (title, state) of missions that it depends on and that have not succeeded. `ahead`: how many are before it
    in the same queue, the last of them called `behind`. `charger_taken_by`: title of the mission that charges there.
    `not_robot`: it was handed over from that one.
    """

    id: str
    title: str
    site_id: int
    state: str = State.PENDING
    robot: RobotFacts | None = None
    commands: frozenset[str] = frozenset()
    priority: int = 0
    important: bool = False
    dispatched: bool = False
    delivered: bool = False
    stopping: bool = False
    queued_at: datetime | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    unapproved: bool = False
    after: tuple[tuple[str, str], ...] = ()
    charger: str = ""
    charger_taken_by: str = ""
    first_place: tuple[float, float] | None = None
    ahead: int = 0
    behind: str = ""
    version: int = 0
    not_robot: str = ""


def why(mission: MissionFacts, now: datetime, candidates: Iterable[RobotFacts] = ()) -> str:
    """Why it does not run; empty when it runs or has ended. `candidates`: robots of its site, if it names none."""
    if mission.state in FINAL or mission.state != State.PENDING:
        return ""
    robot = mission.robot
    if mission.stopping:
        return f"Stopping: waiting for {robot.name if robot else 'the robot'} to say that it stands"
    if mission.dispatched:
        return _dispatched(mission)
    reason = obstacle(mission, now, candidates)
    place = _place_in_queue(mission)
    if reason is None:
        if mission.queued_at is None:
            return "Ready: it runs when somebody asks it to"
        return place[:1].upper() + place[1:] if place else "Next: it is dispatched in a moment"
    busy = robot is not None and bool(robot.running) and not mission_obstacle(mission, now)
    return f"{reason.text}; {place}" if place and (busy or robot is None) else reason.text


def obstacle(
    mission: MissionFacts, now: datetime, candidates: Iterable[RobotFacts] = (), *, insist: bool = False
) -> Reason | None:
    """What keeps it from being dispatched now. With `insist`, a person takes the battery upon themselves."""
    if reason := mission_obstacle(mission, now):
        return reason
    if mission.robot is not None:
        return robot_obstacle(mission.robot, mission, insist=insist)
    return nobody(mission, candidates)


def mission_obstacle(mission: MissionFacts, now: datetime) -> Reason | None:
    """What keeps it from any robot."""
    if mission.unapproved:
        return Reason("It needs approval", "Somebody else than its author must approve it.")
    if failed := [title for title, state in mission.after if state == State.ABORTED]:
        return Reason(f"“{failed[0]}”, which it depends on, did not succeed", "It is about to be aborted.")
    if mission.after:
        more = f" and {len(mission.after) - 1} more" if len(mission.after) > 1 else ""
        return Reason(f"It comes after “{mission.after[0][0]}”{more}", "It runs when that has succeeded.")
    if mission.expires_at and mission.expires_at <= now:
        return Reason(f"It had to start by {clock(mission.expires_at)}", "It is about to be aborted.")
    if mission.not_before and mission.not_before > now:
        return Reason(f"It may not start before {clock(mission.not_before)}")
    if mission.charger_taken_by:
        return Reason(f"{mission.charger} is taken by “{mission.charger_taken_by}”", "It runs when that has ended.")
    return None


# holds, words after the robot's name, what to do; the first that holds is said
_ROBOT: tuple[
    tuple[Callable[[RobotFacts, MissionFacts], bool], Callable[[RobotFacts, MissionFacts], str], str], ...
] = (
    (lambda r, m: r.retired, lambda r, m: "is retired", "Choose another robot."),
    (
        lambda r, m: r.site_id != m.site_id,
        lambda r, m: "works at another site",
        "Choose a robot of the mission's site.",
    ),
    (
        lambda r, m: bool(missing(m.commands, r.capabilities)),
        lambda r, m: cannot_words(m.commands, r.capabilities, r.own_word),
        "Choose another robot.",
    ),
    (lambda r, m: r.id == m.not_robot, lambda r, m: "had it before", "Name it if it shall have it again."),
    (lambda r, m: bool(r.held), lambda r, m: f"is on hold. {r.held}", "Release the hold first."),
    (lambda r, m: bool(r.running), lambda r, m: _busy(r), "Dispatch this one when that has ended."),
    (lambda r, m: r.presence == Presence.OFFLINE, lambda r, m: f"is offline{_since(r)}", "Dispatch when it is back."),
    (
        lambda r, m: r.presence == Presence.UNKNOWN,
        lambda r, m: f"has not been heard of{_since(r)}",
        "Dispatch when it is there.",
    ),
    (
        lambda r, m: bool(r.fault) or r.mode == Mode.FAULT,
        lambda r, m: has_words(r.fault) if r.fault else "has a fault",
        "Clear the fault at the robot first.",
    ),
    (lambda r, m: r.mode == Mode.MANUAL, lambda r, m: "is driven by hand", "Dispatch when it is given back."),
    (lambda r, m: r.mode == Mode.PAUSED, lambda r, m: "is paused", "Dispatch when it goes on."),
)


def robot_obstacle(robot: RobotFacts, mission: MissionFacts, *, insist: bool = False) -> Reason | None:
    """What keeps this robot from taking it now: the first of these that holds."""
    for holds, words, todo in _ROBOT:
        if holds(robot, mission):
            return Reason(f"{robot.name} {words(robot, mission)}", todo)
    if not insist and "charge" not in mission.commands and (low := charging(robot, mission.important)):
        return Reason(f"{robot.name} {low}", "It takes work again when it has charged.")
    return None


def charging(robot: RobotFacts, important: bool = False) -> str:
    """Why its battery keeps a robot from work that is not charging; empty when it does not, or nobody knows it.

    A charging robot charges to its brand's `charge_until_pct`; important work may have it from `charge_below_pct` on.
    """
    if robot.battery is None:
        return f"is charging (to {robot.charge_until_pct} %)" if robot.mode == Mode.CHARGING and _sent(robot) else ""
    if robot.battery < HARD_MINIMUM_PCT:
        return f"has {robot.battery:.0f} % battery and must charge first"
    enough = (robot.charge_below_pct or 0) if important else robot.charge_until_pct
    if robot.mode == Mode.CHARGING and _sent(robot) and robot.battery < enough:
        return f"is charging ({robot.battery:.0f} %, free at {enough} %)"
    return ""


class Robots:
    """Robots that a mission may go to. Why none of them can take it is worked out once for all missions that are alike."""

    def __init__(self, robots: Iterable[RobotFacts]) -> None:
        self._robots = sorted(robots, key=lambda r: r.id)
        self._known: dict[tuple[object, ...], Reason | None] = {}

    def __iter__(self) -> Iterator[RobotFacts]:
        return iter(self._robots)

    def why_none(self, mission: MissionFacts) -> Reason | None:
        """None when one can."""
        alike = (mission.site_id, mission.commands, mission.important, mission.not_robot)  # all that counts of it
        if alike not in self._known:
            self._known[alike] = _nobody(mission, self._robots)
        return self._known[alike]


def nobody(mission: MissionFacts, candidates: Iterable[RobotFacts]) -> Reason | None:
    """Why no robot of the site can take it now; None when one can."""
    return (candidates if isinstance(candidates, Robots) else Robots(candidates)).why_none(mission)


def _nobody(mission: MissionFacts, candidates: Iterable[RobotFacts]) -> Reason | None:
    why_not = []
    for robot in candidates:
        reason = robot_obstacle(robot, mission)
        if reason is None:
            return None
        why_not.append((robot, reason))
    able = [reason for robot, reason in why_not if not missing(mission.commands, robot.capabilities)]
    if not able:
        what = " and ".join(sorted(command.replace(":", " ") for command in mission.commands))
        return Reason(f"No robot of its site can {what}", "Enrol one, or change the steps.")
    return Reason(f"No robot is free: {listed(reason.text for reason in able)}", "Run it and it waits for one.")


def listed(sentences: Iterable[str], total: int = 0) -> str:
    """A few of them, and how many more; `total`, if there are more than are given."""
    found = list(sentences)
    total = max(total, len(found))
    more = [f"and {total - FEW} more"] if total > FEW else []
    return "; ".join(found[:FEW] + more)


def _dispatched(mission: MissionFacts) -> str:
    robot = mission.robot
    if robot is None:
        return ""
    if mission.delivered:
        return f"{robot.name} has it and has not accepted yet"
    return f"Waiting for {robot.name} to take it" + ("" if robot.presence == Presence.ONLINE else " (not online)")


def _place_in_queue(mission: MissionFacts) -> str:
    if mission.queued_at is None or not mission.ahead:
        return ""
    whose = f"{mission.robot.name}'s queue" if mission.robot else "the queue for any robot"
    return f"{_ordinal(mission.ahead + 1)} in {whose}, behind “{mission.behind}”"


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _busy(robot: RobotFacts) -> str:
    if robot.mode != Mode.CHARGING:
        return f"is busy with “{robot.running}”"
    return "is charging" + (f" ({robot.battery:.0f} %)" if robot.battery is not None else "")


def _since(robot: RobotFacts) -> str:
    return f" since {clock(robot.presence_since)}" if robot.presence_since else ""


def _sent(robot: RobotFacts) -> bool:
    """Its brand has a charge policy; without one, charging is the robot's own affair."""
    return robot.charge_below_pct is not None
