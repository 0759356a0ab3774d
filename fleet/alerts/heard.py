"""What is open and for whom: alerts that nothing silences, the worst first."""

from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.utils import timezone

from fleet.models import Alert, Hold, HoldKind, Severity, Silence
from fleet.people.access import at_sites

RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def silenced(now: datetime) -> Q:
    """Condition on alerts: a silence, or maintenance of its robot, covers it at this time."""
    ruled = Silence.objects.filter(
        Q(robot_id="") | Q(robot_id=OuterRef("robot_id")), site=OuterRef("site"), ended_at=None, since__lte=now,
        until__gt=now,
    )  # fmt: skip
    serviced = Hold.objects.filter(robot=OuterRef("robot_id"), kind=HoldKind.MAINTENANCE, released_at=None)
    return ~Q(severity=Severity.CRITICAL) & (Q(Exists(ruled)) | Q(Exists(serviced)))


def heard(now: datetime) -> QuerySet[Alert]:
    """Open alerts that nothing silences, with how often and when last (`count`, `last_at`)."""
    found = Alert.objects.filter(cleared_at=None).exclude(silenced(now))
    return found.annotate(count=F("tally__count"), last_at=F("tally__last_at"))


def open_alerts(user: Any, now: datetime | None = None) -> QuerySet[Alert]:
    """What this person should know of now: not acknowledged first, the worst first, then the newest. There may be thousands."""
    worst = Case(*(When(severity=severity, then=rank) for severity, rank in RANK.items()))
    seen = Case(When(acknowledged_at=None, then=0), default=1)
    return at_sites(user, heard(now or timezone.now())).select_related("site").order_by(seen, worst, "-pk")
