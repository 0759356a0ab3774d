"""Presence of robots, by the time we last heard of each: a sweep every second over the owned partitions.

Silence is the robot's own only when somebody was there to hear it. While the live Redis is away or has lost what it
knew, or the gateway of a robot has died or cannot hear it, its link is `unknown`, and for a grace there is no verdict on
its silence. Whoever saw a link end makes its robot suspect at once, a robot that does not answer on a link that works is
offline at once: until it is heard again.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from fleet.models import Event, Presence, Robot
from missions.ledger import Ledger
from telemetry import snapshots, translate
from telemetry.clocks import Clocks
from telemetry.failures import Blame, blame
from telemetry.partitions import hold
from telemetry.snapshots import GRACE_S, Heard
from telemetry.stream import partition_of

log = logging.getLogger(__name__)
DEAF_S = 5.0  # nobody could hear robots for so long: what we know of their links is too old
DEAD_S = 4.0  # a gateway that gave no sign of life for so long is dead, frozen or cut off
DEAF_GRACE_S = 30.0  # robots that were cut off from a gateway may take so long to come back
HTTP = "http"  # the gateway of robots whose requests any process serves

VERDICTS = (Presence.ONLINE, Presence.SUSPECT)  # what `unknown` takes the place of; an offline robot stays offline


class Sweep:
    """`step` each second. Silence counts only in partitions that are open (`open_from`, as for deadlines)."""

    def __init__(self) -> None:
        self._deaf_since: float | None = None  # tick since which the live Redis knows nothing
        self._quiet_until = float("-inf")  # tick until which silence proves nothing
        self._dead_since: dict[str, float] = {}  # gateway → tick
        self._clocks = Clocks(0.0)

    def step(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Record what changed. Says whether anything did."""
        columns = (
            "pk",
            "presence",
            "presence_since",
            "brand__suspect_after_s",
            "brand__offline_after_s",
            "link__gateway",
        )
        robots = [
            row for row in Robot.objects.filter(retired_at=None).values_list(*columns) if partition_of(row[0]) in fences
        ]
        if not robots:
            return False
        if self._clocks.jump(now, tick) < 0:
            snapshots.put_back(now)
        heard = snapshots.last_received([row[0] for row in robots])
        deaf = self._deaf(heard, tick)
        heard = heard or Heard({}, False)
        lately_dead = self._lately_dead(heard, now, tick)
        enrolled = _enrolled([row[0] for row in robots if row[2] is None and row[0] not in heard.at])
        changed: dict[int, list[tuple[str, Presence]]] = {}
        for pk, presence, _, suspect_after_s, offline_after_s, gateway in robots:
            p = partition_of(pk)
            if pk in enrolled and now - enrolled[pk] <= timedelta(seconds=offline_after_s):
                continue  # somebody is about to connect it
            verdict: Presence | None = judge(heard.at.get(pk), now, suspect_after_s, offline_after_s)
            verdict = witnessed(verdict, heard.at.get(pk), heard.gone.get(pk), heard.unanswered.get(pk))
            if verdict != Presence.ONLINE:
                if deaf or _unheard(gateway, lately_dead):
                    verdict = Presence.UNKNOWN if presence in VERDICTS else None
                elif not heard.settled or tick < max(self._quiet_until, open_from.get(p, float("inf"))):
                    verdict = None
            if verdict is not None and verdict != presence:
                changed.setdefault(p, []).append((pk, verdict))
        for p, verdicts in changed.items():
            self._record(p, fences[p], verdicts, heard.at, now)
        return bool(changed)

    def _deaf(self, heard: Heard | None, tick: float) -> bool:
        """Does the live Redis not answer, or know nothing yet, for longer than a robot may be silent?"""
        if heard is None:
            self._quiet_until = tick + GRACE_S
        if heard is not None and heard.settled:
            self._deaf_since = None
            return False
        if self._deaf_since is None:
            self._deaf_since = tick
        return tick - self._deaf_since >= DEAF_S

    def _lately_dead(self, heard: Heard, now: datetime, tick: float) -> set[str]:
        """Gateways that died, or were deaf, less than the grace ago: their robots are on their way back."""
        dead = {name for name, at in heard.gateways.items() if now - at > timedelta(seconds=DEAD_S)}
        self._dead_since = {name: self._dead_since.get(name, tick) for name in dead}
        lately = {name for name, since in self._dead_since.items() if tick - since < GRACE_S}
        return lately | {name for name, at in heard.deaf.items() if now - at < timedelta(seconds=DEAF_GRACE_S)}

    def _record(
        self, p: int, fence: int, verdicts: list[tuple[str, Presence]], last: dict[str, datetime], now: datetime
    ) -> None:
        try:
            with transaction.atomic():
                hold(p, fence)
                ledger = Ledger.open([pk for pk, _ in verdicts], now=now)
                for pk, verdict in verdicts:
                    translate.presence(ledger, pk, verdict, last.get(pk), now)
                ledger.commit()
        except Exception as error:  # `blame` says whose it is
            if blame(error) is not Blame.MESSAGE:
                raise
            if len(verdicts) > 1:
                for one in verdicts:
                    self._record(p, fence, [one], last, now)
            else:
                log.exception("presence of %s could not be recorded", verdicts[0][0])


def _enrolled(robots: list[str]) -> dict[str, datetime]:
    """Since when there are these, which have never been heard from."""
    names = {f"robot:{pk}": pk for pk in robots}
    rows = Event.objects.filter(aggregate__in=names, seq=1).values_list("aggregate", "recorded_at") if names else ()
    return {names[aggregate]: at for aggregate, at in rows}


def _unheard(gateway: str | None, lately_dead: set[str]) -> bool:
    """Was nobody there to hear this robot? Over HTTP that is so when one of those who may have been its has died."""
    return bool(lately_dead) if gateway == HTTP else gateway in lately_dead


def witnessed(verdict: Presence, last: datetime | None, gone: datetime | None, unanswered: datetime | None) -> Presence:
    """The verdict, where nothing was heard of the robot since somebody witnessed the end of its link, or its silence."""
    if unanswered is not None and (last is None or unanswered > last):
        return Presence.OFFLINE
    if gone is not None and (last is None or gone > last) and verdict == Presence.ONLINE:
        return Presence.SUSPECT
    return verdict


def judge(last: datetime | None, now: datetime, suspect_after_s: int, offline_after_s: int) -> Presence:
    """By how long ago we heard of it. A closed socket is silence like any other."""
    silent_s = (now - last).total_seconds() if last is not None else float("inf")
    if silent_s > offline_after_s:
        return Presence.OFFLINE
    return Presence.ONLINE if silent_s <= suspect_after_s else Presence.SUSPECT
