"""E-mail about alerts: who is told what and when, and a step that sends it, in a process of its own (`manage.py followers`).

Critical alerts and those of important missions go at once; the others are collected. Each address is told once that an
alert opened and, if that was sent, once that its condition is gone. Should a sender die between handing a message over
and noting it, that message goes twice, with the same Message-ID.
"""

import hashlib
import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection
from django.db import connection
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse

from fleet.alerts.actions import clear_alert, raise_alert
from fleet.alerts.heard import RANK, silenced
from fleet.alerts.rules import bounded
from fleet.models import Alert, AlertMail, AlertTally, News, Role, Severity, Site

PLAN, CLAIM = 200, 200
CLAIM_S = 300  # a sender that died in between is given up after this
BACKOFF_S = (30, 60, 300, 900, 3600)
TRIES = 12  # about eight hours
MAX_LINES = 50  # alerts in one e-mail
MAX_SUBJECT = 120
BROKEN = "mail"  # cause of the alert that e-mail cannot be sent

log = logging.getLogger(__name__)


def step(now: datetime) -> bool:
    """Arrange what is new, send what is due. Says whether it found work. Outside of any transaction."""
    arranged = arrange(now)
    return send(now) or arranged


# --- who is told what


def arrange(now: datetime) -> bool:
    """Rows for every news that is to be sent; nothing when no server is configured, then or later."""
    alerts = Alert.objects.filter(cleared_at=None).exclude(silenced(now)) | Alert.objects.filter(
        cleared_at__isnull=False
    )
    opened = AlertTally.objects.filter(mail_opened=False, alert__in=alerts).select_related("alert")[:PLAN]
    found = False
    people: dict[int | None, set[str]] = {}
    for tally in opened:
        found = True
        _arrange_opened(tally.alert, now, people)
    ended = AlertTally.objects.filter(mail_cleared=False, mail_opened=True, alert__cleared_at__isnull=False)
    for tally in ended.select_related("alert")[:PLAN]:
        found = True
        _arrange_cleared(tally.alert, now)
    return found


def at_once(alert: Alert) -> bool:
    return alert.urgent or alert.severity == Severity.CRITICAL


def _arrange_opened(alert: Alert, now: datetime, people: dict[int | None, set[str]]) -> None:
    wanted = settings.EMAIL_CONFIGURED and alert.severity != Severity.INFO and alert.cause != BROKEN
    if wanted and (not alert.cleared_at or at_once(alert)):
        if alert.site_id not in people:
            people[alert.site_id] = recipients(alert.site_id)
        due = now if at_once(alert) else digest_at(now)
        _insert(alert, News.OPENED, people[alert.site_id], due)
    AlertTally.objects.filter(pk=alert.pk).update(mail_opened=True)


def _arrange_cleared(alert: Alert, now: datetime) -> None:
    mails = AlertMail.objects.filter(alert=alert, news=News.OPENED)
    if not at_once(alert):  # it came and went before anybody was told
        mails.filter(sent_at=None, claimed_until=None).delete()
    if alert.lasts:
        due = now if at_once(alert) else digest_at(now)
        _insert(alert, News.CLEARED, mails.values_list("address", flat=True), due)
    AlertTally.objects.filter(pk=alert.pk).update(mail_cleared=True)


def _insert(alert: Alert, news: News, addresses: Iterable[str], due: datetime) -> None:
    rows = [AlertMail(alert=alert, news=news, address=address, due_at=due) for address in addresses]
    AlertMail.objects.bulk_create(rows, ignore_conflicts=True)


def digest_at(now: datetime) -> datetime:
    """The end of the period in which less urgent news is collected."""
    every = max(1, settings.ALERT_DIGEST_S)
    return datetime.fromtimestamp((now.timestamp() // every + 1) * every, UTC)


def recipients(site_id: int | None) -> set[str]:
    """Addresses of a site: its supervisors and admins, and those of ALERT_EMAILS. Without a site: those of every site."""
    everywhere = Q(person__all_sites=True)
    here = everywhere if site_id is None else everywhere | Q(person__memberships__site=site_id)
    people = User.objects.filter(here, is_active=True, person__role__in=[Role.ADMIN, Role.SUPERVISOR])
    name = Site.objects.filter(pk=site_id).values_list("name", flat=True).first() if site_id else None
    return {a for a in [*people.values_list("email", flat=True), *configured(settings.ALERT_EMAILS, name)] if _sound(a)}


def configured(text: str, site: str | None) -> list[str]:
    """Addresses of `ops@example.org, Hall 1=hall1@example.org` for a site of this name."""
    found = []
    for entry in text.split(","):
        place, _, address = entry.rpartition("=")
        if not place.strip() or place.strip() == site:
            found.append(address.strip())
    return found


def _sound(address: str) -> bool:
    """One plain address: nothing that could add a header or a second recipient."""
    return "@" in address and parseaddr(address)[1] == address and not any(c in address for c in "\r\n ,;")


# --- sending


def send(now: datetime) -> bool:
    """Send what is due, one message for each address. A server that is away costs one time-out, and time."""
    mails = _claim(now)
    if not mails:
        return False
    by_address: dict[str, list[AlertMail]] = {}
    for mail in mails:
        by_address.setdefault(mail.address, []).append(mail)
    errors: dict[str, str] = {}
    server = get_connection()
    try:
        server.open()
    except Exception as error:  # each way of sending has its own exceptions
        errors = dict.fromkeys(by_address, _said(error))
    else:
        for address, news in by_address.items():
            try:
                message(address, news, server).send()
            except Exception as error:  # the same
                errors[address] = _said(error)
        server.close()
    _note(by_address, errors, now)
    return True


def _claim(now: datetime) -> list[AlertMail]:
    table = AlertMail._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET claimed_until = %s, tries = tries + 1 WHERE id = ANY(ARRAY("
            f"SELECT id FROM {table} WHERE sent_at IS NULL AND due_at <= %s AND tries < %s"
            " AND (claimed_until IS NULL OR claimed_until < %s) ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id",
            [now + timedelta(seconds=CLAIM_S), now, TRIES, now, CLAIM],
        )
        ids = [pk for (pk,) in cursor.fetchall()]
    return list(AlertMail.objects.filter(pk__in=ids).select_related("alert__site", "alert__tally").order_by("pk"))


def _note(by_address: dict[str, list[AlertMail]], errors: dict[str, str], now: datetime) -> None:
    for address, mails in by_address.items():
        rows = AlertMail.objects.filter(pk__in=[mail.pk for mail in mails])
        if address not in errors:
            rows.update(sent_at=now, claimed_until=None, error="")
            continue
        for mail in mails:
            wait = timedelta(seconds=BACKOFF_S[min(mail.tries, len(BACKOFF_S)) - 1])
            rows.filter(pk=mail.pk).update(due_at=now + wait, claimed_until=None, error=errors[address])
    if errors and not Alert.objects.filter(cause=BROKEN, cleared_at=None).exists():
        why = next(iter(errors.values()))
        log.warning("e-mail about alerts cannot be sent, will try again: %s", why)
        raise_alert(BROKEN, severity=Severity.WARNING, text=f"E-mail about alerts cannot be sent: {why}", now=now)
    elif not errors:
        clear_alert(BROKEN, now=now)


def _said(error: Exception) -> str:
    return bounded(f"{type(error).__name__}: {error}")


def message(address: str, mails: list[AlertMail], server: Any = None) -> EmailMessage:
    """One e-mail: plain text, the worst first. Text of robots is in it as text, on one line."""
    mails = sorted(mails, key=lambda m: (m.news != News.OPENED, RANK[Severity(m.alert.severity)], m.alert_id))
    items = [
        {
            "mail": mail, "alert": mail.alert, "opened": mail.news == News.OPENED, "text": bounded(mail.alert.text),
            "url": settings.PUBLIC_URL + reverse("admin:fleet_alert_change", args=[mail.alert_id]),
        }
        for mail in mails[:MAX_LINES]
    ]  # fmt: skip
    body = render_to_string(
        "fleet/alert_mail.txt", {"items": items, "more": len(mails) - len(items), "url": settings.PUBLIC_URL}
    )
    headers = {"Message-ID": _message_id(address, mails), "Auto-Submitted": "auto-generated"}
    return EmailMessage(subject(mails), body, None, [address], headers=headers, connection=server)


def subject(mails: list[AlertMail]) -> str:
    first, more = mails[0].alert, len(mails) - 1
    state = first.get_severity_display() if mails[0].news == News.OPENED else "Cleared"
    text = bounded(first.text)
    text = text if len(text) <= MAX_SUBJECT else text[: MAX_SUBJECT - 1] + "…"
    return f"[Drover] {state}: {text}" + (f" (and {more} more)" if more else "")


def _message_id(address: str, mails: list[AlertMail]) -> str:
    digest = hashlib.sha256(f"{address} {[(m.alert_id, m.news) for m in mails]}".encode()).hexdigest()[:32]
    return f"<alert-{digest}@drover>"
