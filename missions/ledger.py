"""Unit of work: rows read under lock, facts told to them, all written once (worker, actions, deadlines alike)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q

from fleet import rows
from fleet.commit import commit, loading
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Brand, Command, CommandState, HoldKind, Presence
from fleet.robots import decide as robot_rules
from fleet.robots import facts as robot_facts
from fleet.verdict import Verdict
from missions import decide as mission_rules
from missions import facts, timings
from missions.alert_rules import buried
from missions.letters.rows import bury_command
from missions.models import OPEN, Mission, State


@dataclass(slots=True)
class Ledger:
    """Robots first, then missions, each in the order of their ids: every transaction locks the same way.

    `running` maps a robot to its dispatched open mission. Use inside `transaction.atomic()`.
    """

    now: datetime
    robots: dict[str, Change]
    missions: dict[UUID, Change]
    running: dict[str, UUID]
    brands: dict[int, Brand] = field(default_factory=dict)  # all of them, once somebody asked

    @classmethod
    def open(cls, robot_ids: Iterable[str] = (), mission_ids: Iterable[UUID] = (), *, now: datetime) -> "Ledger":
        """Lock robots, their dispatched open missions, and the missions named.

        With `robot_ids`, named missions of other robots are left alone: a batch writes its own robots' rows only.
        Without, the robots are those of the missions named.
        """
        named, wanted = list(mission_ids), set(robot_ids)
        if named and not wanted:
            owners = Mission.objects.filter(pk__in=named, robot__isnull=False)
            wanted = set(owners.values_list("robot_id", flat=True))
        with connection.wrap_database_errors, rows.pipeline():
            asked, ids = loading(AGGREGATES["robot"], wanted), _of(list(wanted), named)
            robots = asked()
            missions = loading(AGGREGATES["mission"], [pk for (pk,) in ids.fetchall()])()
        ledger = cls(now, robots, missions, {})
        for mission_id, change in missions.items():
            if change.row.dispatched_at and change.row.state in OPEN:
                ledger.running[change.row.robot_id] = mission_id
        ledger._note_unsent()
        return ledger

    def _note_unsent(self) -> None:
        """An assignment that the link's owner has not taken up yet, and cannot while we hold its row."""
        pending = [
            pk for pk, c in self.missions.items()
            if c.row.dispatched_at and c.row.state == State.PENDING and not c.row.delivered_at
        ]  # fmt: skip
        if pending:
            with connection.wrap_database_errors:
                for (pk,) in rows.ask(_UNSENT, [rows.array(pending)]).fetchall():
                    self.missions[pk].row.assign_sent = False

    def tell_robot(self, robot_id: str, fact: Any, origin: Origin, at: datetime | None = None) -> Verdict:
        """A fact about a robot; its mission hears what concerns it. `at`: when it was received (default: now)."""
        change = self.robots[robot_id]
        before = change.row.presence
        change.origin = origin
        verdict = robot_rules.decide(change, fact, at or self.now)
        self._presence_moved(change, before, origin, at)
        self.hear_of_stop(robot_id, origin, at)
        if isinstance(fact, robot_facts.Faulted) and fact.danger and verdict is Verdict.APPLIED:
            self.tell_running(robot_id, facts.Danger(fact.text or fact.code), origin, at)
        return verdict

    def _presence_moved(self, change: Change, before: str, origin: Origin, at: datetime | None) -> None:
        after = change.row.presence
        if after == before:
            return
        if after == Presence.OFFLINE:
            lost = facts.RobotLost(self._abandon_after_s(change.row.brand_id))
            self.tell_running(change.row.pk, lost, origin, at)
        elif after == Presence.ONLINE:
            self.tell_running(change.row.pk, facts.RobotBack(), origin, at)

    def hear_of_stop(self, robot_id: str, origin: Origin, at: datetime | None = None) -> None:
        """Whether people stopped the robot, as its locked row says, is told to the mission that it has."""
        mission_id = self.running.get(robot_id)
        if mission_id is None:
            return
        since = [
            hold.since
            for hold in self.robots[robot_id].children["holds"].values()
            if hold.kind == HoldKind.STOPPED and hold.released_at is None
        ]
        if bool(since) != (self.missions[mission_id].row.held_at is not None):
            fact = facts.RobotHeld(min(since)) if since else facts.RobotReleased()
            self.tell_mission(mission_id, fact, origin, at)

    def _abandon_after_s(self, brand_id: int) -> int:
        return int(self._brand(brand_id).abandon_after_s)

    def brand(self, robot_id: str) -> Brand:
        return self._brand(self.robots[robot_id].row.brand_id)

    def timings(self, robot_id: str) -> dict[str, Any]:
        """Of the robot's brand, for a mission that is dispatched to it."""
        return timings.of_brand(self.brand(robot_id))

    def _brand(self, brand_id: int) -> Brand:
        """Read once for all brands: a whole fleet may go offline in one sweep."""
        if not self.brands:
            self.brands = Brand.objects.in_bulk()
        return self.brands[brand_id]

    def tell_mission(self, mission_id: UUID, fact: Any, origin: Origin, at: datetime | None = None) -> Verdict:
        """A fact about a mission; its robot hears what follows for it."""
        change = self.missions[mission_id]
        change.origin = origin
        verdict = mission_rules.decide(change, fact, at or self.now)
        if change.row.state not in OPEN and self.running.get(change.row.robot_id) == mission_id:
            del self.running[change.row.robot_id]
        while change.follow:
            policy = replace(origin, actor_kind="policy", actor_id="", actor_name="policy")
            self.tell_robot(change.row.robot_id, change.follow.pop(0), policy, at)
        return verdict

    def tell_running(self, robot_id: str, fact: Any, origin: Origin, at: datetime | None = None) -> Verdict:
        """A fact for whatever the robot runs; redundant when it runs nothing."""
        if robot_id not in self.running:
            return Verdict.REDUNDANT
        return self.tell_mission(self.running[robot_id], fact, origin, at)

    def commit(self, also: Callable[[], None] = lambda: None) -> None:
        """Write all of it, once; `also`: see `fleet.commit.commit`."""
        changes = [*self.robots.values(), *self.missions.values()]
        self._bury(c for c in changes if any(to == CommandState.DEAD for _, _, to in c.command_moves))
        commit(changes, now=self.now, also=also)

    def _bury(self, changes: Iterable[Change]) -> None:
        letters = []
        for change in changes:
            dying = Q()
            for kinds, state, to in change.command_moves:
                if to == CommandState.DEAD:
                    dying |= Q(kind__in=kinds, state=state)
            for dead in Command.objects.filter(dying, mission=change.row.pk):
                bury_command(dead, change.row.abort_detail, change.row.accept_tries, self.now)
                letters.append((dead.robot_id, dead.kind, change.row.abort_detail))
        if letters:
            buried(letters, self.now)


_TABLE = Mission._meta.db_table
# in the text, not as values: a plan that is kept can use the index of dispatched ones only if it sees the condition
_OPEN = ", ".join(f"'{state}'" for state in OPEN)
_THEIRS = (
    f"SELECT id FROM {_TABLE} WHERE robot_id = ANY(%s::text[]) AND dispatched_at IS NOT NULL AND state IN ({_OPEN})"
    f" UNION SELECT id FROM {_TABLE} WHERE id = ANY(%s::uuid[]) AND (robot_id = ANY(%s::text[]) OR robot_id IS NULL)"
)

_UNSENT = (
    f"SELECT mission FROM {Command._meta.db_table} WHERE mission = ANY(%s::uuid[]) AND kind = 'mission.assign'"
    f" AND state = '{CommandState.OPEN}' AND sent_at IS NULL FOR UPDATE"
)


def _of(robot_ids: list[str], named: list[UUID]) -> rows.Cursor:
    """Dispatched open missions of these robots, and those named that are theirs or nobody's (read after their lock)."""
    robots = rows.array(robot_ids)
    return rows.ask(_THEIRS, [robots, rows.array(named), robots])
