"""Dead letters that somebody requeued: from their rows into the streams of the partitions that this worker owns.

The row is the truth: without Redis a letter waits, and one that a stream lost is put there again. The batch applies it
only while its row says `requeued`, so an entry that came twice has one effect.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from fleet.alerts.actions import clear_alert
from fleet.models import Alert
from missions.alert_rules import DEAD_LETTER
from missions.letters.rows import settle_commands
from missions.models import UNDECIDED, DeadLetter, Direction, LetterState
from telemetry.stream import Streams, partition_of

CHUNK = 200  # letters of one step
OF_THEN = ("robot.stopped",)  # says nothing about what was asked since; all others count as if they came now
AGAIN = timedelta(seconds=60)  # not applied for so long: the stream may have lost it


class Requeued:
    """`step` once a second."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def step(self, now: datetime, fences: dict[int, Any]) -> bool:
        """Put what waits into the streams. Says whether there was anything. Raises what the stores raise."""
        waiting = DeadLetter.objects.filter(
            Q(stored_at=None) | Q(stored_at__lt=now - AGAIN), state=LetterState.REQUEUED, direction=Direction.IN
        )
        named = waiting.order_by("pk").values_list("pk", "robot_id")
        mine = [pk for pk, robot in named if partition_of(robot) in fences][:CHUNK]
        if mine:
            rows = DeadLetter.objects.filter(pk__in=mine).order_by("pk")
            self._streams.requeue(
                (pk, robot, msg_id, body.encode(), at if kind in OF_THEN else now)
                for pk, robot, msg_id, kind, body, at in rows.values_list(
                    "pk", "robot_id", "msg_id", "kind", "body", "created_at"
                )
            )
            DeadLetter.objects.filter(pk__in=mine).update(stored_at=now)
        settle_commands(now)
        _clear_alerts(now, fences)
        return bool(mine)


def _clear_alerts(now: datetime, fences: Any) -> None:
    """Of robots whose dead letters were all applied or discarded: there is nothing left to do."""
    for cause in Alert.objects.filter(cause__startswith=DEAD_LETTER, cleared_at=None).values_list("cause", flat=True):
        robot = cause.removeprefix(DEAD_LETTER)
        waiting = DeadLetter.objects.filter(robot_id=robot, state__in=(*UNDECIDED, LetterState.REQUEUED))
        if partition_of(robot) in fences and not waiting.exists():
            clear_alert(cause, now=now)
