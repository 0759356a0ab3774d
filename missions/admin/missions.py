"""Admin of missions: draw up, dispatch, steer, and read how it came about. Everything goes through `missions.actions`."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import ago, clock, timeline
from fleet.history import by_user
from missions import actions
from missions.admin.mission_buttons import BUTTONS
from missions.admin.mission_list import MissionList, ShownFilter, daily
from missions.choices import choices_for
from missions.command_types import in_words
from missions.deadlines import deadlines
from missions.forms import blank, bound, check, filled_in, problems
from missions.models import FINAL, Mission, Outcome, State, Step
from missions.waiting import why_waiting
from missions.wording import mission_said


@admin.register(Mission)
class MissionAdmin(PageAdmin):
    page_template = "admin/drover/mission.html"
    form_template = "admin/drover/mission_form.html"
    list_display = ("title", "condition", "robot_link", "progress", "why", "age", "who")
    list_filter = (ShownFilter, "state", "site", "robot", "ended_at")
    list_select_related = ("robot", "site")
    search_fields = ("title", "id", "robot__id", "robot__name", "created_by")
    search_help_text = "Title, mission id, robot, or who drew it up"
    ordering = ("-created_at", "id")
    date_hierarchy = "created_at"
    change_list_template = "admin/drover/mission_list.html"
    buttons = BUTTONS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MissionList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        chosen = request.GET.get("shown", "")
        seen = self.model._default_manager.filter(pk__in=self.get_queryset(request).values("pk"))
        more = {"daily": daily(seen, chosen), "shown_now": chosen}
        return super().changelist_view(request, more | (extra_context or {}))

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

    def get_urls(self) -> list[URLPattern]:
        check = path("check/", self.admin_site.admin_view(self.check_view), name="missions_mission_check")
        return [check, *super().get_urls()]

    def check_view(self, request: HttpRequest) -> HttpResponse:
        """What is wrong with a form that somebody is filling in, by the rules of saving. Stores nothing."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        return JsonResponse(check(request.POST, choices_for(request.user)))

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        choices = choices_for(request.user)
        if request.method == "POST":
            form, steps = bound(request.POST, choices)
        else:
            form, steps = blank(*(filled_in(row) if row else (request.GET.dict(), [])), choices)
        return {"form": form, "steps": steps}

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        choices = forms["form"].choices
        return {
            "problems": problems(forms["form"], forms["steps"]),
            "choices": choices.for_page(),
            "place_names": sorted({name for names in choices.places.values() for name in names}),
            "check_url": reverse("admin:missions_mission_check"),
            "may_run": request.user.has_perm("missions.dispatch_mission"),
        }

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        run = "_run" in request.POST
        if run and not request.user.has_perm("missions.dispatch_mission"):
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
        if run:
            return pk, f"{sentence} {self._run_now(request, pk)}".strip()
        return pk, f"{sentence} It moves nothing until it is run."

    def _run_now(self, request: HttpRequest, pk: Any) -> str:
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
