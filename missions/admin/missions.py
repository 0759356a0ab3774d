"""Admin of missions: draw up, dispatch, steer, and read how it came about. Everything goes through `missions.actions`."""

from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.buttons import Button
from fleet.admin.filters import FewFilter
from fleet.admin.once import key_of
from fleet.admin.pages import PageAdmin
from fleet.history import by_user
from fleet.refusals import Refused
from fleet.wording import ago
from missions import drawing_up
from missions.admin.mission_bulk import MISSIONS
from missions.admin.mission_buttons import BUTTONS, again, run_now
from missions.admin.mission_list import MissionList, ShownFilter
from missions.admin.mission_page import page_context
from missions.drawing_up import DrawnUp
from missions.forms.choices import choices_for
from missions.forms.mission import blank, bound, check, filled_in, problems
from missions.models import FINAL, Importance, Mission, Outcome, State, Step
from missions.wording import mission_said


@admin.register(Mission)
class MissionAdmin(PageAdmin):
    page_template = "admin/drover/mission.html"
    form_template = "admin/drover/mission_form.html"
    add = "Draw up a mission"
    list_display = ("named", "condition", "robot_link", "progress", "why", "age", "who")
    list_filter = (ShownFilter, "state", "site", ("robot", FewFilter), "ended_at")
    list_display_links = ("named",)
    list_select_related = ("robot", "site")
    search_fields = ("title", "id", "robot__id", "robot__name", "created_by")
    search_help_text = "Title, mission id, robot, or who drew it up"
    ordering = ("-created_at", "id")
    date_hierarchy = "created_at"
    change_list_template = "admin/drover/mission_list.html"
    buttons = BUTTONS
    knows_wishes = True

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MissionList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Mission]:
        steps = Step.objects.filter(mission=OuterRef("pk")).order_by().values("mission")
        done, skipped = (
            steps.annotate(n=Count("pk", filter=Q(outcome=how))).values("n")
            for how in (Outcome.COMPLETED, Outcome.SKIPPED)
        )
        return super().get_queryset(request).annotate(
            steps_n=Coalesce(Subquery(steps.annotate(n=Count("pk")).values("n")), 0, output_field=IntegerField()),
            done_n=Coalesce(Subquery(done), 0, output_field=IntegerField()),
            skipped_n=Coalesce(Subquery(skipped), 0, output_field=IntegerField()),
        )  # fmt: skip

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return MISSIONS.offered(request.user)

    @admin.display(description="title", ordering="title")
    def named(self, mission: Mission) -> SafeString | str:
        if mission.importance != Importance.IMPORTANT:
            return mission.title
        return format_html('{} <span class="chip">Important</span>', mission.title)

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
            '<span class="num nowrap">{}/{} <progress max="{}" value="{}" aria-hidden="true"></progress></span>{}',
            mission.done_n, mission.steps_n, mission.steps_n or 1, mission.done_n + mission.skipped_n,
            f" {mission.skipped_n} skipped" if mission.skipped_n else "",
        )  # fmt: skip

    @admin.display(description="why it waits, what went wrong", empty_value="")
    def why(self, mission: Any) -> str:
        return str(Truncator(mission.waits_for or mission.abort_detail).chars(200))

    @admin.display(description="age", ordering="created_at")
    def age(self, mission: Mission) -> SafeString:
        at = mission.created_at
        title = f"{at:%Y-%m-%d %H:%M:%S}"
        return format_html(
            '<time datetime="{}" title="{}" data-ago>{}</time>', at.isoformat(), title, ago(at, timezone.now())
        )

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
        wrap = self.admin_site.admin_view
        check = path("check/", wrap(self.check_view), name="missions_mission_check")
        now = path("<path:object_id>/now/", wrap(self.now_view), name="missions_mission_now")
        return [check, now, *super().get_urls()]

    def check_view(self, request: HttpRequest) -> HttpResponse:
        """What is wrong with a form that somebody is filling in, by the rules of saving. Stores nothing."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        row = self.found(request, request.GET["mission"]) if "mission" in request.GET else None
        return JsonResponse(check(request.POST, choices_for(request.user, row), row.pk if row else None))

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        choices = choices_for(request.user, row)
        if request.method == "POST":
            form, steps = bound(request.POST, choices, row.pk if row else None)
        else:
            form, steps = blank(*(filled_in(row) if row else (request.GET.dict(), [])), choices)
        return {"form": form, "steps": steps}

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        choices = forms["form"].choices
        return {
            "problems": problems(forms["form"], forms["steps"]),
            "choices": choices.for_page(),
            "place_names": sorted({name for names in choices.places.values() for name in names}),
            "check_url": reverse("admin:missions_mission_check") + (f"?mission={row.pk}" if row else ""),
            "may_run": request.user.has_perm("missions.dispatch_mission"),
        }

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        run = "_run" in request.POST
        if run and not request.user.has_perm("missions.dispatch_mission"):
            raise PermissionDenied
        said, by = dict(forms["form"].cleaned_data), by_user(request.user)
        version, said["steps"] = said.pop("version"), forms["steps"].steps()
        if row is None:
            try:
                pk, sentence = (
                    drawing_up.draft_mission(**said, by=by, key=key_of(request)),
                    f"“{said['title']}” is drawn up.",
                )
            except DrawnUp as known:
                return known.mission_id, again(request, known.mission_id, run)
        else:
            if version is None:
                raise Refused("This form is out of date: look at the mission again, then edit it.")
            drawing_up.edit_mission(row.pk, version=version, **said, by=by)
            pk, sentence = row.pk, f"“{said['title']}” is changed."
        if run:
            return pk, f"{sentence} {run_now(request, pk)}".strip()
        return pk, f"{sentence} It moves nothing until it is run."

    def offer(self, request: HttpRequest, row: Any) -> list[Button]:
        """With numbers and names in what they ask."""
        words = {"row": row, "left": row.steps_n - row.done_n}
        own = row.created_by == by_user(request.user).actor_name and not request.user.is_superuser
        return [
            replace(b, confirm=b.confirm.format(**words), asks=b.asks.format(**words))
            for b in super().offer(request, row)
            if not (own and b.verb == "approve")  # nobody approves their own
        ]

    # page

    def now_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The moving parts of a mission's page, for one that is open; 204 when they are as the browser has them."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET"])
        row = self.found(request, object_id)
        context = {"row": row, "buttons": self.offer(request, row), "can_edit": self.can_edit(request, row)}
        context |= {"opts": self.opts, "key": quote(row.pk), **page_context(request, row)}
        if request.GET.get("seen") == context["stamp"]:
            return HttpResponse(status=204)
        return TemplateResponse(request, "admin/drover/_mission_now.html", context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return page_context(request, row)


def _robot_url(mission: Mission) -> str:
    return reverse("admin:fleet_robot_change", args=[quote(mission.robot_id)])
