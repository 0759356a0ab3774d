"""Missions that wait, as the board tells of them: their place in line, and what the robots that may take them are at."""

from collections.abc import Iterable, Mapping

import msgspec

from missions.queue.reasons import RobotFacts, Robots
from telemetry.live.loading import MissionRow, RobotRow
from telemetry.live.queue_facts import robot_facts
from telemetry.snapshots import Snapshot

Places = dict[str, tuple[int, str | None]]  # mission → how many are before it, and the title of the last of them


class WaitingLine:
    """Reads a board's rows and snapshots, and remembers what of them changed since missions were last told of."""

    def __init__(
        self, robots: Mapping[str, RobotRow], missions: Mapping[str, MissionRow], snapshots: Mapping[str, Snapshot]
    ) -> None:
        self._robots, self._missions, self._snapshots = robots, missions, snapshots
        self._candidates: dict[int, Robots] = {}  # site → its robots as the queue's rule sees them
        self._places: dict[int, Places] = {}  # by site, of missions that name no robot
        self._moved: set[int] = set()  # sites where robots or missions changed since the last look
        self._percents: dict[str, int | None] = {}  # robot → battery as missions that wait for it say it

    def facts(self, robot_id: str) -> RobotFacts | None:
        """What the queue's rule needs to know of a robot, if it is here."""
        row, snapshot = self._robots.get(robot_id), self._snapshots.get(robot_id)
        return None if row is None else robot_facts(row, snapshot.battery if snapshot else None)

    def robots_at(self, site: int) -> Robots:
        """Robots that may take what names none; worked out once until one of them changes."""
        if site not in self._candidates:
            here = [robot_id for robot_id, row in self._robots.items() if row.site == site]
            self._candidates[site] = Robots(facts for r in here if (facts := self.facts(r)) is not None)
        return self._candidates[site]

    def placed(self, row: MissionRow) -> MissionRow:
        """With its place among those of its site that name no robot."""
        if row.waits is None or row.queued_at is None:
            return row
        ahead, behind = self._places_at(row.site).get(row.id, (0, None))
        return msgspec.structs.replace(row, waits=msgspec.structs.replace(row.waits, ahead=ahead, behind=behind))

    def _places_at(self, site: int) -> Places:
        """Worked out once until a mission changes."""
        if site not in self._places:
            waiting = sorted(
                (-m.priority, m.queued_at, m.id, m.title)
                for m in self._missions.values()
                if m.waits is not None and m.queued_at is not None and not m.robot and m.site == site
            )
            before = [None, *(title for *_, title in waiting)]
            self._places[site] = {m[2]: (n, before[n]) for n, m in enumerate(waiting)}
        return self._places[site]

    def forget_order(self) -> None:
        """Some mission changed."""
        self._places.clear()

    def forget(self, robot_id: str) -> None:
        """It is not here any more."""
        self._percents.pop(robot_id, None)

    def moved(self, sites: Iterable[int]) -> None:
        """Something changed at these."""
        self._moved.update(sites)

    def charged(self, snapshots: Mapping[str, Snapshot]) -> set[str]:
        """Robots whose battery is another whole per cent than it was."""
        known = {r: None if s.battery is None else round(s.battery) for r, s in snapshots.items() if r in self._robots}
        found = {r for r, percent in known.items() if self._percents.get(r) != percent}
        self._percents.update(known)
        self.moved(self._robots[r].site for r in found)
        return found

    def for_robots(self, robots: set[str]) -> list[str]:
        """Missions that wait for these: they say how full their batteries are."""
        waiting = self._missions.items() if robots else ()
        return [pk for pk, row in waiting if row.waits is not None and row.robot in robots]

    def for_any(self) -> list[str]:
        """Missions that wait for any robot, at sites where something changed since the last call: they say what all are at."""
        sites, self._moved = self._moved, set()
        for site in sites:
            self._candidates.pop(site, None)
        waiting = self._missions.items() if sites else ()
        return [pk for pk, row in waiting if row.waits is not None and not row.robot and row.site in sites]
