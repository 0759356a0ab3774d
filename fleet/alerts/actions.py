"""What people and programs may do with alerts. Each verb is one transaction.

Alerts of events are opened and cleared by commit, from the table in fleet/alerts/rules.py. Silence hides and mutes, it
loses nothing: what still holds when it ends is shown and sent then. Critical alerts are never silenced.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from fleet.alerts.rows import cleared, settle
from fleet.alerts.rules import Effects, Raise, bounded
from fleet.columns import accepted_text
from fleet.commit import commit, new, next_pk
from fleet.history import AGGREGATES, Origin
from fleet.locked import one
from fleet.models import Alert, Robot, Severity, Silence, Site
from fleet.refusals import Refused
from fleet.wording import minute

SYSTEM = "system"  # subject of alerts about Drover itself
MAX_SILENCE = timedelta(days=31)


def raise_alert(
    cause: str, *, severity: str, text: str, subject: str = SYSTEM, site: int | None = None, robot: str = "",
    lasts: bool = True, urgent: bool = False, times: int = 1, now: datetime | None = None,
) -> None:  # fmt: skip
    """Open an alert for a cause that is no event, or count it when it is open. Part of the caller's transaction, if any.

    `lasts`: somebody will call `clear_alert`; otherwise a person's acknowledgement ends it.
    """
    now = now or timezone.now()
    one = Raise(cause, str(Severity(severity)), subject, robot, site, bounded(text), lasts, urgent, times)
    with transaction.atomic():
        commit(settle(Effects(raises={cause: one}), now, origin=Origin("system", actor_name="Drover")), now=now)


def clear_alert(cause: str, *, now: datetime | None = None) -> bool:
    """Its condition is gone. False when it was not open."""
    if not Alert.objects.filter(cause=cause, cleared_at=None).exists():
        return False
    now = now or timezone.now()
    with transaction.atomic():
        changes = settle(Effects(clears={cause: None}), now, origin=Origin("system", actor_name="Drover"))
        commit(changes, now=now)
    return bool(changes)


def acknowledge(alert_id: int, *, by: Origin, now: datetime | None = None) -> str:
    """Somebody has seen it. One without a condition of its own ends with that. Returns what was done, in words."""
    now = now or timezone.now()
    with transaction.atomic():
        change = one("alert", alert_id)
        alert = change.row
        change.origin, change.now = by, now
        if alert.cleared_at:
            return "It was cleared before."
        if not alert.acknowledged_at:
            change.record("alert.acknowledged", acknowledged_at=now, acknowledged_by=by.actor_name)
        if not alert.lasts:
            _end(change, now, by, "acknowledged")
        commit([change], now=now)
    return "Acknowledged." if alert.lasts else "Acknowledged; it is closed with that."


def clear_by_person(alert_id: int, *, by: Origin, why: str, now: datetime | None = None) -> str:
    """A person says that it is dealt with. When its condition holds on, it opens again."""
    why, now = accepted_text(why), now or timezone.now()
    if not why:
        raise Refused("Say why it is dealt with: the next person will want to know.")
    with transaction.atomic():
        change = one("alert", alert_id)
        change.origin, change.now = by, now
        if change.row.cleared_at:
            return "It was cleared before."
        _end(change, now, by, why)
        commit([change], now=now)
    return "Cleared."


def _end(change: Any, now: datetime, by: Origin, why: str) -> None:
    ended = cleared(change.row, now, by, by=by.actor_name, why=why)
    change.events += ended.events
    change.touched |= ended.touched


def silence(
    *, site: Site | int, until: datetime, why: str, by: Origin, robot: str = "", now: datetime | None = None
) -> int:
    """Nothing but critical alerts of the site, or of one robot, until then."""
    now, why = now or timezone.now(), accepted_text(why)
    site_id = int(getattr(site, "pk", site))
    if not why:
        raise Refused("Say why: whoever misses an alert will want to know.")
    if not now < until <= now + MAX_SILENCE:
        raise Refused(f"Choose an end that is to come, at most {MAX_SILENCE.days} days from now.")
    if robot and not Robot.objects.filter(pk=robot, site=site_id).exists():
        raise Refused(f"There is no robot {robot!r} at this site.")
    with transaction.atomic():
        change = new(AGGREGATES["silence"], next_pk(Silence))
        change.origin, change.now = by, now
        what = robot or Site.objects.get(pk=site_id).name
        change.record(
            "silence.begun",
            site_id=site_id,
            robot_id=robot,
            why=why,
            by=by.actor_name,
            since=now,
            until=until,
            what=what,
            ends=minute(until),
        )
        commit([change], now=now)
    return int(change.row.pk)


def end_silence(silence_id: int, *, by: Origin, now: datetime | None = None) -> bool:
    """Alerts are shown and sent again. False when it was over before."""
    now = now or timezone.now()
    with transaction.atomic():
        change = one("silence", silence_id)
        if change.row.ended_at or change.row.until <= now:
            return False
        change.origin, change.now = by, now
        change.record("silence.ended", ended_at=now, ended_by=by.actor_name)
        commit([change], now=now)
    return True
