"""The board: what is known and shown of the whole fleet, what of it is dirty, and what is news to which viewer.

Plain memory without I/O or clock. The hub brings dirty signals and loaded rows, and carries the frames away.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from missions.models import FINAL
from telemetry.live import cards, fragments, looks
from telemetry.live.alarms import AlertRow
from telemetry.live.fragments import EVERYWHERE, Fragment, Shell, View
from telemetry.live.loading import Loaded, MissionRow, RobotRow, Versions
from telemetry.live.viewer import Viewer, in_order
from telemetry.live.waiting import WaitingLine
from telemetry.snapshots import Snapshot

T = TypeVar("T")
log = logging.getLogger(__name__)
LINGER_S = 10.0  # a mission that has ended stays in the strip for so long, so that people see how


class Dirty(NamedTuple):
    """What to look at: rows in the database, live facts in Redis. `all`: everything there is."""

    all: bool
    robots: set[str]
    missions: set[str]
    live: set[str]
    alerts: bool = False

    def __bool__(self) -> bool:
        return self.all or self.alerts or bool(self.robots or self.missions or self.live)


class Board:
    """Everything that any socket of this process may show."""

    def __init__(self) -> None:
        self.robots: dict[str, RobotRow] = {}
        self.missions: dict[str, MissionRow] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.waiting = WaitingLine(self.robots, self.missions, self.snapshots)
        self.fragments: dict[str, Fragment] = {}  # by key: DOM id, or DOM id@view
        self.buckets: dict[str, str] = {}  # robot → its part of the bar
        self.shells: dict[str, Shell] = {}  # robot → its card without the vitals
        self.vitals: dict[str, Fragment] = {}  # by DOM id: the part of a card that changes all the time
        self.ended: dict[tuple[int, str], int] = {}
        self.lingering: dict[str, float] = {}  # mission that has ended → until when it stays
        self.viewers: set[Viewer] = set()
        self.alerts: list[AlertRow] | None = None  # not known yet
        self.loaded = False
        self._dirty = Dirty(True, set(), set(), set())

    # --- dirty signals

    def signal(self, signals: Iterable[Any]) -> None:
        """Signals as they come from Redis, `[kind, id, scope, at_ms]`; what is not understood is skipped."""
        for kind, entity_id, scope, *_ in signals:
            if not isinstance(entity_id, str):
                raise TypeError(f"{entity_id!r} is no id")
            if kind == "alert":
                self._dirty = self._dirty._replace(alerts=True)
            elif kind == "mission":
                self._dirty.missions.add(entity_id)
            elif kind == "robot":
                (self._dirty.live if scope == "live" else self._dirty.robots).add(entity_id)

    def all_dirty(self) -> None:
        self._dirty = Dirty(True, set(), set(), set())

    def compare(self, found: Versions) -> None:
        """Find what was missed: every entity whose version in the database is not the one that is shown."""
        for known, now, dirty in (
            (self.robots, found.robots, self._dirty.robots),
            ({k: m for k, m in self.missions.items() if m.state not in FINAL}, found.missions, self._dirty.missions),
        ):
            dirty |= {key for key, version in now.items() if key not in known or known[key].version < version}
            dirty |= known.keys() - now.keys()
        for mission_id, row in self.missions.items():  # what changes without a row of theirs
            if row.waits is not None and row.waits.not_before is not None:
                self._dirty.missions.add(mission_id)
        self._changed(self._render_missions(self.waiting.for_any()))
        if found.ended != self.ended:
            self.ended = found.ended
            self._changed(self._count())

    def take(self) -> Dirty:
        """What to load now; from here on new signals collect anew."""
        dirty, self._dirty = self._dirty, Dirty(False, set(), set(), set())
        return dirty

    def give_back(self, dirty: Dirty) -> None:
        """It could not be loaded: it is still dirty."""
        new = self._dirty
        self._dirty = Dirty(
            dirty.all or new.all,
            dirty.robots | new.robots,
            dirty.missions | new.missions,
            dirty.live | new.live,
            dirty.alerts or new.alerts,
        )

    # --- what was loaded

    def put(self, dirty: Dirty, rows: Loaded, snapshots: dict[str, Snapshot], now: float) -> None:
        """Take in what was loaded for `dirty`, render what became different, and queue it for every viewer."""
        changed: set[str] = set()
        robots = self.robots.keys() | rows.robots.keys() if dirty.all else dirty.robots
        missions = self.missions.keys() if dirty.all else dirty.missions
        if missions or rows.missions:
            self.waiting.forget_order()
        for robot_id in robots - rows.robots.keys():
            self.robots.pop(robot_id, None)
            self.snapshots.pop(robot_id, None)
            self.waiting.forget(robot_id)
            self.shells.pop(robot_id, None)
            self.buckets.pop(robot_id, None)
            self.vitals.pop(fragments.vitals_id(robot_id), None)
            changed |= self._drop(fragments.robot_id(robot_id))
        for mission_id in missions - rows.missions.keys() - self.lingering.keys():
            self.missions.pop(mission_id, None)
            changed |= self._drop(fragments.mission_id(mission_id))
        self.robots.update(rows.robots)
        self.snapshots.update({r: s for r, s in snapshots.items() if r in self.robots})
        charged = self.waiting.charged(snapshots)
        self.waiting.moved(row.site for row in (*rows.robots.values(), *rows.missions.values()))
        for robot_id in rows.robots.keys() | snapshots.keys():
            if robot_id in self.robots:
                changed |= self._safely(self._render_robot, robot_id) or set()
        for mission_id, row in rows.missions.items():
            if mission_id not in self.missions and row.state in FINAL:
                continue  # it had ended before anybody saw it open
            if row.state in FINAL:
                self.lingering.setdefault(mission_id, now + LINGER_S)
            self.missions[mission_id] = row
        for mission_id in rows.missions.keys() & self.missions.keys():
            changed |= self._safely(self._render_mission, mission_id) or set()
        changed |= self._render_missions(self.waiting.for_robots(charged))
        self.loaded = True
        self._changed(changed | self._count())

    def open(self, rows: Loaded, snapshots: dict[str, Snapshot], view: View, most: int) -> None:
        """As a page begins: whatever the view shows is counted, but only the worst are rendered, `most` of each kind."""
        self.robots.update(rows.robots)
        self.missions.update(rows.missions)
        self.snapshots.update(snapshots)
        self._open(self.robots, self._robot_place, self._render_robot, view, most)
        self._open(self.missions, self._mission_place, self._render_mission, view, most)
        self._count()

    def _open(
        self,
        rows: Mapping[str, RobotRow | MissionRow],
        place: Callable[[str], tuple[Any, ...]],
        render: Callable[[str], set[str]],
        view: View,
        most: int,
    ) -> None:
        seen = [key for key, row in rows.items() if view is EVERYWHERE or row.site in view]
        placed = [(at, key) for key in seen if (at := self._safely(place, key)) is not None]
        for _, key in nsmallest(most, placed, key=itemgetter(0)):
            self._safely(render, key)

    def _robot_place(self, robot_id: str) -> tuple[Any, ...]:
        row = self.robots[robot_id]
        look = looks.robot_look(row, cards.battery_low(self.snapshots.get(robot_id)))
        self.buckets[robot_id] = cards.bucket(look)
        return cards.order(row, look)

    def _mission_place(self, mission_id: str) -> tuple[Any, ...]:
        row = self.missions[mission_id]
        return cards.mission_order(row, looks.mission_look(row))

    def put_alerts(self, rows: list[AlertRow]) -> None:
        """Take in all open alerts."""
        if rows != self.alerts:
            self.alerts = rows
            self._changed(self._ring(self._views()))

    def _views(self) -> list[View]:
        return list({counts_key(viewer.view): viewer.view for viewer in self.viewers}.values())

    def _ring(self, views: Iterable[View]) -> set[str]:
        """Bell and panel of what anybody looks at; those that nobody looks at any more are forgotten."""
        wanted = {
            counts_key(view).replace("counts", fragment.kind): fragment
            for view in views if self.alerts is not None
            for fragment in fragments.alerts(view, self.alerts)
        }  # fmt: skip
        for key in [k for k, f in self.fragments.items() if f.kind in ("bell", "alerts") and k not in wanted]:
            del self.fragments[key]
        return set().union(*(self._keep(key, fragment) for key, fragment in wanted.items()))

    def forget_ended(self, now: float) -> None:
        """Missions that ended a while ago leave the strip."""
        for mission_id in [m for m, until in self.lingering.items() if until <= now]:
            del self.lingering[mission_id]
            self.missions.pop(mission_id, None)
            self._changed(self._drop(fragments.mission_id(mission_id)))

    def _safely(self, render: Callable[[str], T], entity_id: str) -> T | None:
        """One card that cannot be rendered keeps its old face and takes no other down."""
        try:
            return render(entity_id)
        except Exception:  # whatever is in its row
            log.exception("cannot render %s", entity_id)
            return None

    def _render_mission(self, mission_id: str) -> set[str]:
        row = self.missions[mission_id]
        if row.waits is None or row.robot:
            fragment = fragments.mission(row, self.waiting.facts(row.robot) if row.robot else None)
        else:
            fragment = fragments.mission(self.waiting.placed(row), None, self.waiting.robots_at(row.site))
        return self._keep(fragments.mission_id(mission_id), fragment)

    def _render_missions(self, mission_ids: Iterable[str]) -> set[str]:
        return set().union(*(self._safely(self._render_mission, mission_id) or () for mission_id in mission_ids))

    def _render_robot(self, robot_id: str) -> set[str]:
        row, snapshot = self.robots[robot_id], self.snapshots.get(robot_id)
        before, low = self.shells.get(robot_id), cards.battery_low(snapshot)
        shell = before
        if shell is None or shell.row is not row or shell.low != low:
            shell = self.shells[robot_id] = fragments.shell(row, low)
            self.buckets[robot_id] = shell.bucket
        vitals = fragments.vitals(row, snapshot)
        card = fragments.robot(shell, vitals)
        old = self.vitals.get(vitals.dom_id)
        self.vitals[vitals.dom_id], self.fragments[card.dom_id] = vitals, card
        if before is None or before.html != shell.html or old is None or old.site != vitals.site:
            return {card.dom_id}
        return {vitals.dom_id} if old.html != vitals.html else set()

    def _count(self) -> set[str]:
        """Counters for what anybody looks at; those that nobody looks at any more are forgotten."""
        robots: dict[int, Counter[str]] = {}
        missions: dict[int, Counter[str]] = {}
        for robot_id, bucket in self.buckets.items():
            robots.setdefault(self.robots[robot_id].site, Counter())[bucket] += 1
        for row in self.missions.values():
            if row.state not in FINAL:
                missions.setdefault(row.site, Counter())["executing" if row.dispatched_at else "waiting"] += 1
        for (site, state), count in self.ended.items():
            missions.setdefault(site, Counter())[state] += count
        views = {counts_key(viewer.view): viewer.view for viewer in self.viewers}
        for key in [k for k, f in self.fragments.items() if f.kind == "counts" and k not in views]:
            del self.fragments[key]
        return self._ring(views.values()).union(
            *(self._keep(key, fragments.counts(v, _sum(robots, v), _sum(missions, v))) for key, v in views.items())
        )

    def _keep(self, key: str, fragment: Fragment) -> set[str]:
        before = self.fragments.get(key)
        if (
            before is not None
            and before.html == fragment.html
            and (before.site, before.view) == (fragment.site, fragment.view)
        ):
            return set()
        self.fragments[key] = fragment
        return {key}

    def _drop(self, key: str) -> set[str]:
        return {key} if self.fragments.pop(key, None) else set()

    def _changed(self, keys: set[str]) -> None:
        for viewer in self.viewers:
            if not viewer.snapshot_due:
                viewer.pending |= {key: None for key in keys if key in viewer.shown or self._visible(key, viewer)}

    def _visible(self, key: str, viewer: Viewer) -> bool:
        fragment = self.fragments.get(key) or self.vitals.get(key)
        return fragment is not None and fragment.shown_in(viewer.view)

    # --- frames

    def admit(self, viewer: Viewer, view: View) -> None:
        """A viewer comes, or may see something else from now on."""
        self.viewers.add(viewer)
        viewer.look_at(view)
        if self.loaded:  # its counters may be new
            self._changed(self._count())

    def frame(self, viewer: Viewer) -> str:
        """The next frame for one socket."""
        return viewer.frame(self.fragments, self.vitals)

    def shown(self, view: View) -> list[tuple[str, Fragment]]:
        """Everything that a view shows, the worst first."""
        return in_order(self.fragments, view)


def counts_key(view: View) -> str:
    """Key of the counters of one view."""
    return "counts@" + ("all" if view is EVERYWHERE else ",".join(map(str, sorted(view))))


def _sum(by_site: dict[int, Counter[str]], view: View) -> Counter[str]:
    return sum((n for site, n in by_site.items() if view is EVERYWHERE or site in view), Counter())
