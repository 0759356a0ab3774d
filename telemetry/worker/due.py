"""Deadlines that passed, and when it is safe to say so (DESIGN section 4, "Gating").

A deadline fires only when everything its robot said in time is applied, only a while after the partition was taken or
a store came back (robots must have had the chance to reconnect) and each of them was asked, and only while the clocks
can be trusted.
"""

import logging
from collections.abc import Container
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from fleet.models import Robot
from missions.ledger import Ledger
from missions.models import Mission
from telemetry import translate
from telemetry.clocks import Clocks
from telemetry.failures import Blame, blame
from telemetry.gateways.intake import LATE_S
from telemetry.partitions import hold
from telemetry.stream import Streams, partition_of
from telemetry.worker.inquiry import Inquiry
from telemetry.worker.postponed import Postponed

log = logging.getLogger(__name__)

APPEND = timedelta(seconds=LATE_S)  # what was received before the due time is in the stream this long after it
WORD_S = 3.0  # a robot's word that it stands is written by the link's owner within this, with the durable Redis away
SKIP_S = 30.0  # a mission or robot whose deadline raised is left alone this long

Key = UUID | str  # of a mission, of a robot


class Deadlines:
    """Fires deadlines of owned partitions. `open_from` maps a partition to the tick from which it may."""

    def __init__(self, streams: Streams, clocks: Clocks) -> None:
        self.streams = streams
        self.clocks = clocks
        self.inquiry = Inquiry()
        self.postponed = Postponed()
        self._targets: dict[int, tuple[tuple[int, int], datetime]] = {}  # last id, and the time it was read
        self._skip: dict[Key, float] = {}

    def step(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Fire what may fire at `now` (UTC). Says whether it found anything. `tick` is monotonic, s."""
        if not self._steady(now, tick):
            return False
        ready = {p: fence for p, fence in fences.items() if tick >= open_from.get(p, float("inf"))}
        if self.inquiry.step(now, tick, ready, open_from):
            return True
        due = self._due(now - APPEND, tick, ready)
        if not due:
            return False
        applied_until = self._applied_until(now, due)
        found = False
        for p, limit in applied_until.items():
            passed = [pk for pk, at in due[p] if at + APPEND <= limit]
            rest = self.postponed.resting(passed, limit - APPEND)
            for kind in (UUID, str):
                if chosen := [pk for pk in passed if isinstance(pk, kind) and pk not in rest]:
                    self._fire(p, fences[p], chosen, now, tick, limit - APPEND)
                    found = True
        return found

    def _steady(self, now: datetime, tick: float) -> bool:
        if ahead_s := self.clocks.jump(now, tick):
            self.postponed.jumped(ahead_s)
        return self.clocks.steady(now, tick)

    def stops(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Robots' own deadlines while the durable Redis is away: a stop is told again and said to be unconfirmed (I13).

        The word that answers it takes no stream then (`telemetry.gateways.direct`). Nothing ends by these, so one that
        was stored before and not applied yet sets it right later. Missions wait: they would end.
        """
        if not self._steady(now, tick):
            return False
        until = now - timedelta(seconds=WORD_S)
        due = self._due(until, tick, {p for p in fences if tick >= open_from.get(p, float("inf"))})
        found = False
        for p, rows in due.items():
            robots = [pk for pk, _ in rows if isinstance(pk, str)]
            rest = self.postponed.resting(robots, until)
            if robots := [pk for pk in robots if pk not in rest]:
                self._fire(p, fences[p], robots, now, tick, until)
                found = True
        return found

    def _due(self, until: datetime, tick: float, ready: Container[int]) -> dict[int, list[tuple[Key, datetime]]]:
        """Partition → missions and robots (by kind of key) with a deadline that passed, and when."""
        found: dict[int, list[tuple[Key, datetime]]] = {}
        missions = Mission.objects.filter(next_due_at__lte=until).order_by("next_due_at")
        robots = Robot.objects.filter(next_due_at__lte=until, retired_at=None).order_by("next_due_at")
        rows: list[tuple[Key, str | None, datetime]] = []
        if ready:
            rows += missions.values_list("pk", "robot_id", "next_due_at")
            rows += robots.values_list("pk", "pk", "next_due_at")
            rows += self._early(until, {row[0] for row in rows})
        for pk, robot_id, at in rows:
            p = partition_of(robot_id or str(pk))
            if p in ready and self._skip.get(pk, tick) <= tick and not self.inquiry.waits_for(robot_id, tick):
                found.setdefault(p, []).append((pk, at))
        return found

    def _early(self, until: datetime, known: Container[Key]) -> list[tuple[Key, str | None, datetime]]:
        """What passes before the clock says so, because it was put back."""
        early = dict(row for row in self.postponed.early(until) if row[0] not in known)
        missions = Mission.objects.filter(pk__in=[pk for pk in early if isinstance(pk, UUID)]) if early else ()
        whose = dict(missions.values_list("pk", "robot_id")) if early else {}  # type: ignore[union-attr]
        return [(pk, whose.get(pk) if isinstance(pk, UUID) else pk, at) for pk, at in early.items()]

    def _applied_until(self, now: datetime, partitions: dict[int, object]) -> dict[int, datetime]:
        """Everything that was appended before this time is applied. Absent where that is not proven."""
        proven = {}
        for p, progress in self.streams.progress(partitions).items():
            if progress.applied(progress.last):
                self._targets.pop(p, None)
                proven[p] = now
                continue
            target, read_at = self._targets.setdefault(p, (progress.last, now))
            if progress.applied(target):
                self._targets[p] = (progress.last, now)
                proven[p] = read_at
        return proven

    def _fire(self, p: int, fence: int, keys: list[Any], now: datetime, tick: float, until: datetime) -> None:
        """Deadlines of missions, or of robots, but not of both in one call."""
        robots = [key for key in keys if isinstance(key, str)]
        fire = translate.robot_due if robots else translate.due
        try:
            with transaction.atomic():
                hold(p, fence)
                ledger = Ledger.open(robots, [] if robots else keys, now=now)
                for pk in keys:
                    fire(ledger, pk, now, until, self.postponed.passed(pk, until))
                ledger.commit()
        except Exception as error:  # `blame` says whose it is
            if blame(error) is not Blame.MESSAGE:
                raise
            if len(keys) > 1:  # the others must not wait for the one that raises
                for pk in keys:
                    self._fire(p, fence, [pk], now, tick, until)
            else:
                log.exception("a deadline of %s %s could not be applied", "robot" if robots else "mission", keys[0])
                self._skip[keys[0]] = tick + SKIP_S
