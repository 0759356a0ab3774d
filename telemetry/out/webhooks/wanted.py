"""Which events a webhook wants, and the group that writes down what is to be sent to whom.

One row per webhook and event, in the transaction that moves the group's position: so nothing is left out and nothing is
written twice, whatever the receivers do.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache

from fleet.history import KINDS
from telemetry.out.group import Group, Told
from telemetry.out.models import Sending, Webhook

NAME = "webhooks"
KEEP_TRYING = timedelta(hours=24)
ALL = "*"
TEST = "webhook.test"


@cache
def matching(pattern: str) -> frozenset[str]:
    """Kinds of the catalogue that `mission.*`, `*` or a kind's own name means."""
    return frozenset(kind for kind in KINDS if fnmatchcase(kind, pattern))


def kinds_of(patterns: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*(matching(pattern) for pattern in patterns))


def _kinds() -> frozenset[str]:
    return kinds_of(
        p for patterns in Webhook.objects.filter(enabled=True).values_list("kinds", flat=True) for p in patterns
    )


def wants(webhook: Webhook, kinds: frozenset[str], event: Told) -> bool:
    """A webhook of one site hears of what belongs to that site."""
    here = webhook.site_id is None or webhook.site_id == event.site_id
    return here and event.kind in kinds and (webhook.since is None or event.recorded_at >= webhook.since)


def _effect(events: list[Told], now: datetime) -> None:
    hooks = [(webhook, kinds_of(webhook.kinds)) for webhook in Webhook.objects.filter(enabled=True)]
    rows = [
        Sending(
            webhook=webhook, event_id=event.id, kind=event.kind, aggregate=event.aggregate, created_at=now, due_at=now,
            give_up_at=now + KEEP_TRYING,
        )
        for event in events
        for webhook, kinds in hooks
        if wants(webhook, kinds, event)
    ]  # fmt: skip
    Sending.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)


GROUP = Group(NAME, _kinds, _effect)
