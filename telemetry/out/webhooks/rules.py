"""What happens to a webhook: its event kinds, and pure rules from a fact to recorded events."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.dispatch import Signal

from fleet.history import AGGREGATES, Aggregate, Change, kind
from fleet.verdict import Verdict
from telemetry.out.models import Webhook
from telemetry.out.webhooks.wanted import ALL

webhook_changed = Signal()

AGGREGATES["webhook"] = Aggregate(
    prefix="webhook", model=Webhook, children={}, changed=webhook_changed, outside=frozenset({"secret"})
)

kind("webhook.created", "Made: {host} is told of {what}", "name url site_id kinds enabled since created_by",
     notes="host what")  # fmt: skip
kind("webhook.edited", "Changed: {what}", "name url site_id kinds", notes="what")
kind("webhook.enabled", "Switched on", "enabled since")
kind("webhook.disabled", "Switched off", "enabled")
kind("webhook.suspended", "Switched off by Drover: {why}", "enabled", notes="why")
kind("webhook.secret_renewed", "New secret; the old one signs nothing any more")

LABELS = {"name": "name", "url": "address", "site_id": "site", "kinds": "events"}


@dataclass(frozen=True, slots=True)
class Set:
    """Columns of the webhook; the first one makes it. `secret` stays out of the history."""

    columns: dict[str, Any]
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Enable:
    pass


@dataclass(frozen=True, slots=True)
class Disable:
    """`why`: said by Drover itself, when the receiver has failed for too long."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Renew:
    secret: str


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the webhook. No I/O, no clock."""
    change.now = now
    return _RULES[type(fact)](change, fact, now)


def _set(change: Change, fact: Set, now: datetime) -> Verdict:
    if not change.row.version:
        host = urlsplit(fact.columns["url"]).hostname or ""
        change.record(
            "webhook.created", **fact.columns, enabled=True, since=now, created_by=change.origin.actor_name, host=host,
            what="everything" if ALL in fact.columns["kinds"] else ", ".join(fact.columns["kinds"]),
        )  # fmt: skip
        change.row.secret = fact.secret
        return Verdict.APPLIED
    changed = {c: value for c, value in fact.columns.items() if getattr(change.row, c) != value}
    if not changed:
        return Verdict.REDUNDANT
    change.record("webhook.edited", **changed, what=", ".join(LABELS[column] for column in changed))
    return Verdict.APPLIED


def _enable(change: Change, fact: Enable, now: datetime) -> Verdict:
    if change.row.enabled:
        return Verdict.REDUNDANT
    change.record("webhook.enabled", enabled=True, since=now)
    return Verdict.APPLIED


def _disable(change: Change, fact: Disable, now: datetime) -> Verdict:
    if not change.row.enabled:
        return Verdict.REDUNDANT
    if fact.why:
        change.record("webhook.suspended", enabled=False, why=fact.why)
    else:
        change.record("webhook.disabled", enabled=False)
    return Verdict.APPLIED


def _renew(change: Change, fact: Renew, now: datetime) -> Verdict:
    change.record("webhook.secret_renewed")
    change.row.secret = fact.secret
    change.touched.add("secret")
    return Verdict.APPLIED


_RULES: dict[type, Callable[[Change, Any, datetime], Verdict]] = {
    Set: _set,
    Enable: _enable,
    Disable: _disable,
    Renew: _renew,
}
