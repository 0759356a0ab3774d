"""The queue in the worker: dispatches what can go, ends what depends on a failure, sends low robots to charge.

Missions that name a robot belong to its partition, others to that of their own id. Every worker works out the same
plan and carries out its own part of it; a lost race is normal and looked at again.
"""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from fleet.history import Origin
from missions import charging, facts, handing_over
from missions.ledger import Ledger
from missions.models import OPEN_SQL, QUEUED_SQL, RUNNING_SQL, Dependency, State
from missions.queue.choosing import Decision
from missions.queue.dispatching import carry_out, decisions
from telemetry.failures import Blame, blame
from telemetry.partitions import hold
from telemetry.stream import partition_of
from telemetry.translate import ABOUT_STOPS

log = logging.getLogger(__name__)

LOOK_S = 5.0  # everything is looked at anew, whether or not a row changed: batteries, places and brands do too
LONG_S = 0.2  # of this thread's own time: with thousands of robots a look takes longer, and rests twice as long after
SKIP_S = 30.0  # what raised is left alone this long

# Anything that can let a mission go changes one of these. Robots and open missions are rows of an index or few pages.
_STAND = f"""
SELECT
  (SELECT count(*) FROM missions_mission m WHERE {QUEUED_SQL.format("m")} AND (m.not_before IS NULL OR m.not_before <= %s)),
  (SELECT sum(version) FROM fleet_robot WHERE retired_at IS NULL),
  (SELECT count(*) FROM missions_mission m WHERE {OPEN_SQL.format("m")}),
  (SELECT sum(version) FROM missions_mission m WHERE {OPEN_SQL.format("m")})"""

_HEARD = f"""
SELECT m.robot_id FROM missions_mission m WHERE {RUNNING_SQL.format("m")}
  AND (m.held_at IS NULL) = EXISTS (
    SELECT 1 FROM fleet_hold h WHERE h.robot_id = m.robot_id AND h.kind = 'stopped' AND h.released_at IS NULL)"""


class Queue:
    """`step` several times a second: one cheap statement while nothing changes."""

    def __init__(self) -> None:
        self._stand: Any = None
        self._look_at = self._rests_until = float("-inf")
        self._skip: dict[str, float] = {}

    def step(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Says whether it did anything. Only in partitions that are open: a robot may have gone while nobody looked."""
        ready = {p: fence for p, fence in fences.items() if tick >= open_from.get(p, float("inf"))}
        if not ready or tick < self._rests_until:
            return False
        began = time.thread_time()
        try:
            return self._looked(ready, now, tick)
        finally:
            if (took_s := time.thread_time() - began) > LONG_S:
                self._rests_until = tick + 2 * took_s

    def _looked(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        stand, look = _stand(now), tick >= self._look_at
        if stand == self._stand and not look:
            return False
        if look:
            self._look_at = tick + LOOK_S
            self._skip = {key: until for key, until in self._skip.items() if until > tick}
        self._stand = stand
        done = self._hear_of_stops(ready, now, tick)
        done |= self._hand_over(ready, now, tick)
        done |= self._end_dependents(ready, now, tick)
        if stand[0]:
            done |= self._dispatch(ready, now, tick)
        if look:
            done |= self._charge(ready, now, tick)
        return done

    def _dispatch(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        mine: dict[int, list[Decision]] = {}

        def take(decision: Decision) -> bool:
            named = decision.mission.robot
            owner = named.id if named else decision.mission.id
            return self._mine(ready, tick, mine, owner, decision.mission.id, decision)

        decisions(now, take)
        done = False
        for p, chosen in mine.items():
            done |= self._try(p, ready[p], chosen, lambda d: d.mission.id, lambda many: carry_out(many, now), tick)
        return done

    def _hear_of_stops(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        """Clocks of a mission stand still while people have stopped its robot."""
        mine: dict[int, list[str]] = {}
        for robot_id in _stopped_or_released():
            self._mine(ready, tick, mine, robot_id, f"stop {robot_id}", robot_id)
        done = False
        for p, robots in mine.items():
            done |= self._try(p, ready[p], robots, lambda robot: f"stop {robot}", lambda many: _tell(many, now), tick)
        return done

    def _hand_over(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        """What ended to be handed over becomes a new mission; the queue finds a robot for it."""
        mine: dict[int, list[UUID]] = {}
        for pk, robot_id in handing_over.waiting():
            self._mine(ready, tick, mine, robot_id, str(pk), pk)
        done = False
        for p, missions in mine.items():
            done |= self._try(p, ready[p], missions, str, lambda many: handing_over.carry_out(many, now), tick)
        return done

    def _end_dependents(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        """Missions whose dependency was aborted end as well: in their own partition, whoever aborted the other.

        If that was handed over, they come after the mission that goes on with it.
        """
        failed = Dependency.objects.filter(
            on__state=State.ABORTED, mission__state=State.PENDING, mission__dispatched_at=None
        ).exclude(on__hand_over_at__isnull=False, on__handed_over_to=None)  # it is about to be handed over
        mine: dict[int, list[tuple[UUID, UUID, str, UUID | None]]] = {}
        columns = ("mission_id", "mission__robot_id", "on_id", "on__title", "on__handed_over_to")
        for pk, robot_id, on, title, to in failed.values_list(*columns):
            self._mine(ready, tick, mine, robot_id or str(pk), str(pk), (pk, on, title, to))
        done = False
        for p, rows in mine.items():
            done |= self._try(p, ready[p], rows, lambda row: str(row[0]), lambda many: _end(many, now), tick)
        return done

    def _charge(self, ready: dict[int, int], now: datetime, tick: float) -> bool:
        done = False
        for run in charging.look(now):
            p, key = partition_of(run.robot.id), f"charge {run.robot.id}"
            if p in ready and self._skip.get(key, tick) <= tick:
                done |= self._try(
                    p, ready[p], [run], lambda _, key=key: key, lambda many: charging.send(many[0], now), tick
                )  # type: ignore[misc]
        return done

    def _mine(
        self, ready: dict[int, int], tick: float, mine: dict[int, list[Any]], owner: str, key: str, item: Any
    ) -> bool:
        if (p := partition_of(owner)) not in ready or self._skip.get(key, tick) > tick:
            return False
        mine.setdefault(p, []).append(item)
        return True

    def _try(
        self,
        p: int,
        fence: int,
        items: list[Any],
        key: Callable[[Any], str],
        work: Callable[[list[Any]], object],
        tick: float,
    ) -> bool:
        """All in one transaction; one that raises must not hold up the others."""
        try:
            with transaction.atomic():
                hold(p, fence)
                done = bool(work(items))
            if not done:
                self._stand = None  # it was decided on rows that had moved on
            return done
        except Exception as error:  # `blame` says whose it is
            fault = blame(error)
            if fault not in (Blame.MESSAGE, Blame.RACE):
                raise
            self._stand = None
            if len(items) > 1:
                return any([self._try(p, fence, [item], key, work, tick) for item in items])  # noqa: C419 (every one)
            if fault is Blame.MESSAGE:
                log.exception("the queue cannot go on with %s", key(items[0]))
                self._skip[key(items[0])] = tick + SKIP_S
            else:
                log.info("somebody was faster with %s: %s", key(items[0]), error)
            return False


def _stopped_or_released() -> list[str]:
    """Robots with a mission that has not heard yet that they were stopped, or released. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_HEARD)
        return [robot_id for (robot_id,) in cursor.fetchall()]


def _tell(robot_ids: list[str], now: datetime) -> bool:
    ledger = Ledger.open(robot_ids, now=now)
    for robot_id in ledger.robots:
        ledger.hear_of_stop(robot_id, ABOUT_STOPS, now)
    ledger.commit()
    return True


def _end(rows: Iterable[tuple[UUID, UUID, str, UUID | None]], now: datetime) -> int:
    wanted = {pk: (on, title, to) for pk, on, title, to in rows}
    ledger = Ledger.open((), wanted, now=now)
    for pk in wanted.keys() & ledger.missions.keys():
        on, title, to = wanted[pk]
        origin = Origin(
            "policy", "queue", "queue", f"queue:mission:{on} {'was handed over' if to else 'did not succeed'}"
        )
        fact = facts.DependencyMoved(on, to, title) if to else facts.DependencyFailed(on, title)
        ledger.tell_mission(pk, fact, origin)
    ledger.commit()
    return len(ledger.missions)


def _stand(now: datetime) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_STAND, [now])
        found: tuple[Any, ...] = cursor.fetchone()
        return found
