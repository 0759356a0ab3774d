"""The list of missions: what runs, what waits and why, what went wrong; filters that people use daily, with counts."""

from datetime import datetime, timedelta

from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from fleet.admin.daily import DailyFilter, DailyList, Questions
from missions.models import OPEN, QUEUED, RUNNING, Importance, Mission, State
from missions.queue.waiting import why_waiting_all

WAITING = "waiting"
LATELY = timedelta(hours=24)  # as the counters of the fleet page: a night shift has no midnight
IN_THE_QUEUE = ("-priority", "queued_at", "id")  # as missions.queue.choosing.order has it


def shown(now: datetime) -> Questions:
    """What people ask every day."""
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


class ShownFilter(DailyFilter):
    parameter_name = "shown"

    def questions(self) -> Questions:
        return shown(timezone.now())


class MissionList(DailyList):
    """Says for all rows of the page at once why they wait; those that wait come in the order of their queue."""

    anew = ("state__exact",)

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
