"""Robots: enrol, edit, stop, release, retire, credentials, and their history."""

import json
import shlex
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fleet import actions, live
from fleet.admin.pages import Button, PageAdmin
from fleet.admin.timeline import ago, timeline
from fleet.history import by_user
from fleet.models import Brand, Hold, Presence, Robot, Site
from fleet.wording import hold_said, robot_said


class RobotForm(forms.Form):
    """What people may say of a robot; `id` only when it is enrolled."""

    id = forms.CharField(
        label="Id", max_length=64, validators=Robot._meta.get_field("id").validators,
        help_text="The public key that the robot signs on with, e.g. RB-001. It can never be changed.",
    )  # fmt: skip
    name = forms.CharField(max_length=200, help_text="Free text, for people.")
    site = forms.ModelChoiceField(Site.objects.all())
    brand = forms.ModelChoiceField(Brand.objects.all(), help_text="Says what it can do and when it counts as offline.")

    def __init__(self, *args: Any, robot: Robot | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if robot is not None:
            del self.fields["id"]


class HeldFilter(admin.SimpleListFilter):
    title = "needs a decision"
    parameter_name = "held"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "On hold"), ("fault", "Fault"), ("no", "Free for work")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Robot]) -> QuerySet[Robot]:
        held = Exists(Hold.objects.filter(robot=OuterRef("pk"), released_at=None))
        match self.value():
            case "yes":
                return queryset.filter(held)
            case "fault":
                return queryset.exclude(fault="")
            case "no":
                return queryset.filter(~held, fault="", retired_at=None)
        return queryset


class ServiceFilter(admin.SimpleListFilter):
    """Retired robots are out of the way unless asked for."""

    title = "service"
    parameter_name = "service"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("retired", "Retired"), ("all", "All")]

    def choices(self, changelist: Any) -> Any:
        first, *rest = super().choices(changelist)
        return [{**first, "display": "In service"}, *rest]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Robot]) -> QuerySet[Robot]:
        if self.value() == "all":
            return queryset
        return queryset.filter(retired_at__isnull=self.value() != "retired")


def _stop(request: HttpRequest, robot: Robot) -> str:
    actions.stop_robot(robot.pk, by=by_user(request.user), why=request.POST.get("reason", ""))
    return f"Stopping {robot.pk}… It stays on hold until someone releases it."


def _release(request: HttpRequest, robot: Robot) -> str:
    number = _number(request)
    if actions.release_robot(robot.pk, number=number, by=by_user(request.user)):
        return f"Released: {robot.pk} may move again."
    return f"There was no such hold on {robot.pk}: somebody released it before."


def _retire(request: HttpRequest, robot: Robot) -> str:
    actions.retire_robot(robot.pk, by=by_user(request.user))
    return f"{robot.pk} is retired. Its history stays."


def _reinstate(request: HttpRequest, robot: Robot) -> str:
    actions.reinstate_robot(robot.pk, by=by_user(request.user))
    return f"{robot.pk} is back in service."


def _issue(request: HttpRequest, robot: Robot) -> HttpResponse:
    """The token is in this one answer and nowhere else."""
    label = actions.accepted_text(request.POST.get("reason", ""))[:200]
    token = actions.issue_credential(robot.pk, label=label, by=by_user(request.user))
    page: RobotAdmin = admin.site.get_model_admin(Robot)  # type: ignore[assignment]
    context = {"token": token, "label": label, "command_line": _command_line(request, robot, token)}
    answer = page._render(request, "admin/drover/token.html", robot, {**context, "title": f"Token for {robot.pk}"})
    answer["Cache-Control"] = "no-store"
    return answer


def _revoke(request: HttpRequest, robot: Robot) -> str:
    number = _number(request)
    if number is None:
        raise actions.Refused("Say which credential: use the button beside it.")
    actions.revoke_credential(robot.pk, number, by=by_user(request.user))
    return f"Credential {number} of {robot.pk} is revoked: it opens no link any more."


def _number(request: HttpRequest) -> int | None:
    text = request.POST.get("number", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise actions.Refused("That is no number of a hold or credential.")
    return int(text)


def _command_line(request: HttpRequest, robot: Robot, token: str) -> str:
    """Runs a simulated robot with this credential, from the project's folder."""
    scheme = "wss" if request.is_secure() else "ws"
    places = list(robot.site.places.values_list("name", "x", "y", "theta"))
    config = {
        "url": f"{scheme}://{request.get_host()}/robot/v1/ws", "id": robot.pk, "token": token,
        "capabilities": robot.brand.capabilities, "places": places, "start": places[0][0] if places else "",
    }  # fmt: skip
    return f"echo {shlex.quote(json.dumps(config, ensure_ascii=False))} | .venv/bin/python -m telemetry.simulator.robot {robot.pk}"


@admin.register(Robot)
class RobotAdmin(PageAdmin):
    page_template = "admin/drover/robot.html"
    form_template = "admin/drover/robot_form.html"
    list_display = ("id", "name", "condition", "held", "site", "brand")
    list_display_links = ("id", "name")
    list_filter = (HeldFilter, ServiceFilter, "mode", "presence", "site", "brand")
    list_select_related = ("site", "brand")
    search_fields = ("id", "name", "site__name", "brand__name")
    ordering = ("id",)
    buttons = (
        Button("stop", "Stop", "fleet.stop_robot", _stop, look="danger"),
        Button(
            "retire", "Retire…", "fleet.retire_robot", _retire, shown=lambda r: not r.retired_at,
            confirm="It leaves the fleet, gets no work, and its tokens stop working. Its history stays.",
        ),
        Button("reinstate", "Back in service", "fleet.retire_robot", _reinstate, shown=lambda r: bool(r.retired_at)),
        Button("release", "Release…", "fleet.release_robot", _release, per_item=True),
        Button("issue", "Issue a credential…", "fleet.issue_credential", _issue, per_item=True),
        Button("revoke", "Revoke…", "fleet.issue_credential", _revoke, per_item=True),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Robot]:
        holds = Hold.objects.filter(released_at=None).order_by("number")
        return super().get_queryset(request).prefetch_related(Prefetch("holds", holds, to_attr="open_holds"))

    @admin.display(description="condition")
    def condition(self, robot: Any) -> SafeString:
        words = format_html_join(" ", '<span class="said {}"><i>{}</i> {}</span>', _columns(robot))
        return format_html(
            "{}{}", words, format_html(' <span class="quiet">{}</span>', robot.fault[:80]) if robot.fault else ""
        )

    @admin.display(description="hold")
    def held(self, robot: Any) -> str:
        return "; ".join(f"by {h.by}" + (f": {h.why[:80]}" if h.why else "") for h in robot.open_holds)

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        known = {"name": row.name, "site": row.site_id, "brand": row.brand_id} if row else {}
        initial = known or request.GET.dict()
        return {"form": RobotForm(request.POST if request.method == "POST" else None, robot=row, initial=initial)}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = forms["form"].cleaned_data, by_user(request.user)
        if row is None:
            actions.enrol_robot(**said, by=by)
            return said["id"], f"{said['id']} is enrolled. Issue a credential, so that it can sign on."
        actions.edit_robot(row.pk, **said, by=by)
        return row.pk, f"{row.pk} is changed."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = timezone.now()
        facts = live.facts([row.pk]).get(row.pk)
        offered = {b.verb for b in self.offer(request, row)}
        return {
            "said": robot_said(row, row.open_holds),
            "holds": [(hold, hold_said(hold), ago(hold.since, now)) for hold in row.open_holds],
            "credentials": row.credentials.all() if request.user.has_perm("fleet.view_robotcredential") else (),
            "may": {verb: verb in offered for verb in ("release", "issue", "revoke")},
            "facts": facts,
            "facts_ago": ago(facts.received_at, now) if facts else "",
            "mode_ago": ago(row.mode_since, now) if row.mode_since else "",
            "presence_ago": ago(row.presence_since, now) if row.presence_since else "",
            "offline": row.presence == Presence.OFFLINE,
            **timeline(f"robot:{row.pk}", request.user),
        }


def _columns(robot: Any) -> list[tuple[str, str, str]]:
    return [(s.token, s.shape, s.word) for s in robot_said(robot, robot.open_holds)]
