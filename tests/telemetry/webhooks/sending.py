"""Webhooks are served by hand: the group reads on, a lane sends what is due."""

from datetime import timedelta

from django.utils import timezone

from telemetry.out.group import Follow
from telemetry.out.models import Sending
from telemetry.out.webhooks import wanted
from telemetry.out.webhooks.sending import Lane


def fan_out() -> None:
    follow = Follow(wanted.GROUP)
    while follow.step(timezone.now()):
        pass


def send(hook, now=None, lane: Lane | None = None) -> int:
    """All that is due; how much that was."""
    lane, n = lane or Lane(hook.pk), 0
    now = now or timezone.now()
    while lane.step(now):
        n += 1
    lane.close()
    return n


def after(s: float):
    return timezone.now() + timedelta(seconds=s)


def states(**which) -> list[str]:
    return list(
        Sending.objects.filter(event_id__isnull=False, **which).order_by("event_id").values_list("state", flat=True)
    )
