"""Admin of missions: draw up, dispatch, steer, and read how it came about. Everything goes through `missions.actions`."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.pages import Button, PageAdmin, seen_version
from fleet.admin.timeline import ago, clock, timeline
from fleet.history import by_user
from missions import actions
from missions.command_types import in_words
from missions.deadlines import deadlines
from missions.forms import blank, bound, choices_for_page, filled
from missions.models import FINAL, OPEN, Mission, Outcome, State, Step
from missions.waiting import why_waiting, why_waiting_all
from missions.wording import is_open, mission_said

# Filters that people use daily: name, label, condition
SHOWN = (
    ("draft", "Not dispatched", Q(state__in=OPEN, dispatched_at=None)),
    ("running", "With a robot", Q(state__in=OPEN, dispatched_at__isnull=False)),
    ("stopping", "Stopping", Q(state__in=OPEN, stop_requested_at__isnull=False)),
    ("unconfirmed", "Aborted, stop not confirmed", Q(state=State.ABORTED, stop_confirmed=False)),
    ("ended", "Ended", Q(state__in=FINAL)),
)


class ShownFilter(admin.SimpleListFilter):
    title = "what"
    parameter_name = "shown"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, label) for name, label, _ in SHOWN]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Mission]) -> QuerySet[Mission]:
        condition = {name: q for name, _, q in SHOWN}.get(self.value() or "")
        return queryset.filter(condition) if condition is not None else queryset


class MissionList(ChangeList):
    """Says for all rows of the page at once why they wait."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        reasons = why_waiting_all(self.result_list)
        for mission in self.result_list:
            mission.waits_for = reasons.get(mission.pk, "")


def _dispatch(request: HttpRequest, mission: Mission) -> str:
    actions.dispatch_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"Dispatching “{mission.title}” to {mission.robot}…"


def _pause(request: HttpRequest, mission: Mission) -> str:
    actions.pause_mission(mission.pk, by=by_user(request.user))
    return f"Pausing “{mission.title}”… {mission.robot} says when it has paused."


def _resume(request: HttpRequest, mission: Mission) -> str:
    actions.resume_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"Resuming “{mission.title}”…"


CANCELLED = {
    "stopping": "Stopping “{0.title}”… {0.robot} has to confirm that it has stopped.",
    "already stopping": "“{0.title}” is already stopping.",
    "aborted": "“{0.title}” is cancelled. No robot had it.",
    "already ended": "“{0.title}” had already ended.",
}


def _cancel(request: HttpRequest, mission: Mission) -> str:
    reason = request.POST.get("reason", "")
    return CANCELLED[actions.cancel_mission(mission.pk, by=by_user(request.user), reason=reason)].format(mission)


@admin.register(Mission)
class MissionAdmin(PageAdmin):
    page_template = "admin/drover/mission.html"
    form_template = "admin/drover/mission_form.html"
    list_display = ("title", "condition", "robot_link", "progress", "why", "age", "who")
    list_filter = (ShownFilter, "state", "ended_at", "site", ("robot", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("robot", "site")
    search_fields = ("title", "id", "robot__id", "robot__name", "created_by")
    search_help_text = "Title, mission id, robot, or who drew it up"
    ordering = ("-created_at", "id")
    buttons = (
        Button(
            "dispatch", "Dispatch", "missions.dispatch_mission", _dispatch, versioned=True, look="primary",
            shown=lambda m: m.state == State.PENDING and not m.dispatched_at and not m.stop_requested_at,
        ),
        Button(
            "resume", "Resume", "missions.resume_mission", _resume, versioned=True,
            shown=lambda m: is_open(m) and bool(m.paused_at) and not m.stop_requested_at,
        ),
        Button(
            "pause", "Pause", "missions.pause_mission", _pause,
            shown=lambda m: m.state in (State.EXECUTING, State.STEP_COMPLETED) and not m.paused_at
            and not m.stop_requested_at,
        ),
        Button(
            "cancel", "Cancel…", "missions.cancel_mission", _cancel, shown=is_open, look="danger", asks="Reason",
            confirm="The robot that has it is stopped first; then the mission ends for good. It cannot be revived.",
            yes="Cancel this mission",
        ),
    )  # fmt: skip

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MissionList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Mission]:
        steps = Step.objects.filter(mission=OuterRef("pk")).order_by().values("mission")
        done = steps.annotate(n=Count("pk", filter=Q(outcome=Outcome.COMPLETED))).values("n")
        return super().get_queryset(request).annotate(
            steps_n=Coalesce(Subquery(steps.annotate(n=Count("pk")).values("n")), 0, output_field=IntegerField()),
            done_n=Coalesce(Subquery(done), 0, output_field=IntegerField()),
        )  # fmt: skip

    @admin.display(description="state", ordering="state")
    def condition(self, mission: Mission) -> SafeString:
        said = mission_said(mission)
        return format_html('<span class="said {}"><i>{}</i> {}</span>', said.token, said.shape, said.word)

    @admin.display(description="robot", ordering="robot")
    def robot_link(self, mission: Any) -> SafeString | str:
        if mission.robot is None:
            return "–"
        link = '<a href="{}" dir="auto">{}</a> <code class="id">{}</code>'
        return format_html(link, _robot_url(mission), mission.robot.name, mission.robot_id)

    @admin.display(description="progress")
    def progress(self, mission: Any) -> SafeString:
        return format_html(
            '<span class="num nowrap">{}/{}</span> <progress max="{}" value="{}" aria-hidden="true"></progress>',
            mission.done_n, mission.steps_n, mission.steps_n or 1, mission.done_n,
        )  # fmt: skip

    @admin.display(description="why")
    def why(self, mission: Any) -> str:
        """Why it waits, or why it was stopped."""
        return str(mission.waits_for or Truncator(mission.abort_detail).chars(200))

    @admin.display(description="age", ordering="created_at")
    def age(self, mission: Mission) -> SafeString:
        at = mission.created_at
        return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), at, ago(at, timezone.now()))

    @admin.display(description="drawn up by", ordering="created_by")
    def who(self, mission: Mission) -> str:
        return mission.created_by

    # page and forms

    def can_edit(self, request: HttpRequest, row: Any) -> bool:
        free = row.state == State.PENDING and row.dispatched_at is None and row.stop_requested_at is None
        return free and self.has_change_permission(request, row)

    def why_not_editable(self, row: Any) -> str:
        return f"“{row}” can no longer be edited: it {'has ended' if row.state in FINAL else 'was dispatched'}."

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if request.method == "POST":
            form, steps = bound(request.POST, request.user)
        else:
            form, steps = blank(*(filled(row) if row else (request.GET.dict(), [])))
        return {"form": form, "steps": steps}

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        return {
            "problems": forms["steps"].problems() if forms["steps"].is_bound else [],
            "choices": (choices := choices_for_page(request.user)),
            "place_names": sorted({name for names in choices["places"].values() for name in names}),
            "may_dispatch": request.user.has_perm("missions.dispatch_mission"),
        }

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        if "_dispatch" in request.POST and not request.user.has_perm("missions.dispatch_mission"):
            raise PermissionDenied
        said, by = dict(forms["form"].cleaned_data), by_user(request.user)
        version, said["steps"] = said.pop("version"), forms["steps"].steps()
        if row is None:
            pk, sentence = actions.draft_mission(**said, by=by), f"“{said['title']}” is drawn up."
        else:
            if version is None:
                raise actions.Refused("This form is out of date: look at the mission again, then edit it.")
            actions.edit_mission(row.pk, version=version, **said, by=by)
            pk, sentence = row.pk, f"“{said['title']}” is changed."
        if "_dispatch" in request.POST:
            return pk, f"{sentence} {self._dispatch_now(request, pk)}".strip()
        return pk, f"{sentence} It moves nothing until it is dispatched."

    def _dispatch_now(self, request: HttpRequest, pk: Any) -> str:
        """The mission is stored either way; a refusal is a message of its own."""
        try:
            actions.dispatch_mission(pk, by=by_user(request.user))
        except actions.Refused as refused:
            messages.warning(request, f"Not dispatched: {refused}")
            return ""
        return "Dispatching…"

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = timezone.now()
        return {
            "s": mission_said(row),
            "robot_url": _robot_url(row) if row.robot_id else "",
            "waits_for": why_waiting(row),
            "steps": [(step, in_words(step.command, step.params)) for step in row.steps.all()],
            "deadlines": [
                (d, clock(d.due_at), _until(d.due_at, now)) for d in ([] if row.state in FINAL else deadlines(row))
            ],
            "started_ago": ago(row.started_at, now) if row.started_at else "",
            **timeline(f"mission:{row.pk}", request.user),
        }


def _robot_url(mission: Mission) -> str:
    return reverse("admin:fleet_robot_change", args=[quote(mission.robot_id)])


def _until(due_at: Any, now: Any) -> str:
    left = (due_at - now).total_seconds()
    return f"in {left:.0f} s" if left >= 0 else f"due {-left:.0f} s ago"
