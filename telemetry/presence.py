"""Presence of robots, by the time we last heard of each: a sweep every second over the owned partitions."""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from fleet.models import Presence, Robot
from missions.ledger import Ledger
from telemetry import snapshots, translate
from telemetry.failures import Blame, blame
from telemetry.partitions import hold
from telemetry.stream import partition_of

log = logging.getLogger(__name__)


class Sweep:
    """`step` each second. Silence counts only in partitions that are open (`open_from`, as for deadlines)."""

    def step(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Record what changed. Says whether anything did. No verdict when the live Redis cannot be asked."""
        robots = [
            row
            for row in Robot.objects.filter(retired_at=None).values_list("pk", "presence", "brand__offline_after_s")
            if partition_of(row[0]) in fences
        ]
        heard = snapshots.last_received([pk for pk, _, _ in robots]) if robots else None
        if heard is None:
            return False
        changed: dict[int, list[tuple[str, Presence]]] = {}
        for pk, presence, offline_after_s in robots:
            verdict = judge(heard.at.get(pk), now, offline_after_s)
            p = partition_of(pk)
            silence_counts = heard.settled and tick >= open_from.get(p, float("inf"))
            if verdict != presence and (verdict == Presence.ONLINE or silence_counts):
                changed.setdefault(p, []).append((pk, verdict))
        for p, verdicts in changed.items():
            self._record(p, fences[p], verdicts, heard.at, now)
        return bool(changed)

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
        except Exception as error:
            if blame(error) is not Blame.MESSAGE:
                raise
            if len(verdicts) > 1:
                for one in verdicts:
                    self._record(p, fence, [one], last, now)
            else:
                log.exception("presence of %s could not be recorded", verdicts[0][0])


def judge(last: datetime | None, now: datetime, offline_after_s: int) -> Presence:
    """Online while we heard of it within `offline_after_s`."""
    heard = last is not None and now - last <= timedelta(seconds=offline_after_s)
    return Presence.ONLINE if heard else Presence.OFFLINE
