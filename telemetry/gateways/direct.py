"""Commits a robot's "I have stopped" itself when the durable Redis cannot take it: a stop never waits (I13).

The robot's row lock puts it in one line with the worker, and the unique row (robot, msg_id) makes it count once.
"""

from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from missions.ledger import Ledger
from telemetry import translate, watermarks
from telemetry.models import ProcessedMessage, Watermark
from telemetry.protocol import Up

TYPES = ("robot.stopped",)


def apply(up: Up, received_at: datetime) -> None:
    """Apply one message durably. A message that was applied before changes nothing."""
    now = timezone.now()
    with transaction.atomic():
        ledger = Ledger.open({up.robot}, translate.missions_named(up), now=now)
        if up.robot not in ledger.robots or _known(up):
            return
        verdict = translate.tell(ledger, up, received_at)
        ledger.commit()
        ProcessedMessage.objects.create(
            robot_id=up.robot, msg_id=up.msg_id, session=up.session, seq=up.seq, verdict=str(verdict),
            received_at=received_at, applied_at=now,
        )  # fmt: skip
        with connection.wrap_database_errors:
            watermarks.move([(up.robot, up.session, up.seq)], in_order=False)


def _known(up: Up) -> bool:
    """Was it applied before? Its row may be deleted already (as `telemetry.worker.batch` sees it)."""
    forgotten = Watermark.objects.filter(robot=up.robot, session=up.session, forgotten_seq__gte=up.seq)
    return ProcessedMessage.objects.filter(robot_id=up.robot, msg_id=up.msg_id).exists() or forgotten.exists()
