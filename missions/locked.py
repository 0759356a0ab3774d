"""A verb on one locked mission: carried out once, on a fresh row when another transaction came first. And what verbs ask of it."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from fleet.commit import Conflict
from fleet.history import Change
from fleet.refusals import Refused
from missions.ledger import Ledger
from missions.models import FINAL, Mission
from missions.wording import ending

TRIES = 5  # of a transaction that met another one


def on(mission_id: UUID, verb: Callable[[Ledger, Change], None]) -> None:
    """Run a verb on a locked mission; when another transaction came first, on a fresh one."""
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic():
                ledger = Ledger.open(mission_ids=[mission_id], now=now())
                if mission_id not in ledger.missions:
                    if Mission.objects.filter(pk=mission_id).exists():
                        raise Conflict("it was given to another robot meanwhile")
                    raise Refused(f"There is no mission {mission_id}.")
                verb(ledger, ledger.missions[mission_id])
                ledger.commit()
            return
        except Conflict:
            if not left:
                raise


def seen(change: Change, version: int | None) -> None:
    if version is not None and version != change.row.version:
        raise Refused("It has changed since you looked. Read it again and decide anew.")


def not_begun(change: Change) -> None:
    mission = change.row
    if mission.state in FINAL:
        raise Refused(f"It has ended ({ending(mission).lower()}). Draw up a new one.")
    if mission.dispatched_at:
        raise Refused("It is dispatched already.")


def running(change: Change) -> None:
    mission = change.row
    if mission.state in FINAL:
        raise Refused(f"It has ended ({ending(mission).lower()}).")
    if not mission.dispatched_at:
        raise Refused("It is not dispatched yet.")
    if mission.stop_requested_at:
        raise Refused("It is being stopped.")


def now() -> datetime:
    return timezone.now()
