"""The list of missions: what runs, what waits and why, what went wrong; filters that people use daily, with counts."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from missions.models import OPEN, QUEUED, RUNNING, Importance, Mission, State
from missions.queue.waiting import why_waiting_all

WAITING = "waiting"
LATELY = timedelta(hours=24)  # as the counters of the fleet page: a night shift has no midnight
IN_THE_QUEUE = ("-priority", "queued_at", "id")  # as missions.queue.choosing.order has it


def shown(now: datetime) -> dict[str, tuple[str, Q]]:
    """Filters that people use daily: name → label and condition."""
    lately = Q(ended_at__gte=now - LATELY)
    is_open, not_begun = Q(state__in=OPEN), Q(state=State.PENDING, dispatched_at=None)
    unapproved = Q(needs_approval=True, approved_at=None)
    return {
        WAITING: ("Waiting", QUEUED),
        "running": ("Running", RUNNING),
        "approval": ("Needs approval", not_begun & unapproved),
        "stopping": ("Stopping", is_open & Q(stop_requested_at__isnull=False)),
        "wrong": ("Went wrong in 24 h", lately & Q(state=State.ABORTED)),
        "unconfirmed": ("Stop not confirmed", Q(state=State.ABORTED, stop_confirmed=False)),
        "important": ("Important", is_open & Q(importance=Importance.IMPORTANT)),
        "draft": ("Pending", not_begun & Q(queued_at=None) & ~unapproved),
        "done": ("Done in 24 h", lately & Q(state=State.SUCCESS)),
    }


class ShownFilter(admin.SimpleListFilter):
    """Drawn above the list, with counts, and not once more among the other filters."""

    title = "what"
    parameter_name = "shown"
    template = "admin/drover/_nothing.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, label) for name, (label, _) in shown(timezone.now()).items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Mission]) -> QuerySet[Mission]:
        _, condition = shown(timezone.now()).get(self.value() or "", ("", Q()))
        return queryset.filter(condition)


class MissionList(ChangeList):
    """Says for all rows of the page at once why they wait; those that wait come in the order of their queue."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Mission]) -> list[str]:
        if self.params.get(ShownFilter.parameter_name) == WAITING and ORDER_VAR not in self.params:
            return list(IN_THE_QUEUE)
        return super().get_ordering(request, queryset)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        reasons = why_waiting_all(self.result_list)
        for mission in self.result_list:
            mission.waits_for = reasons.get(mission.pk, "")


def daily(queryset: QuerySet[Mission], chosen: str) -> list[dict[str, Any]]:
    """The daily filters as links with counts. One query over the missions that the person may see."""
    found = shown(timezone.now())
    counts = queryset.order_by().aggregate(**{name: Count("pk", filter=q) for name, (_, q) in found.items()})
    return [
        {"name": name, "label": label, "count": counts[name], "chosen": name == chosen}
        for name, (label, _) in found.items()
    ]
