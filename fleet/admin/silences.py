"""Silences of alerts: of a site or a robot, with a reason and an end."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from fleet.admin.buttons import Button
from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import stamp, timeline
from fleet.alerts import actions as alerts
from fleet.history import by_user
from fleet.models import Robot, Silence, Site
from fleet.people.access import may
from fleet.refusals import Refused

HOURS = ((1, "1 hour"), (4, "4 hours"), (12, "12 hours"), (24, "1 day"), (72, "3 days"), (168, "1 week"))


class SilenceForm(forms.Form):
    site = forms.ModelChoiceField(Site.objects.all(), empty_label="Choose…")
    robot = forms.ModelChoiceField(Robot.objects.filter(retired_at=None), required=False, empty_label="the whole site")
    hours = forms.TypedChoiceField(label="For", choices=HOURS, coerce=int, initial=4)
    why = forms.CharField(max_length=500, help_text="Whoever misses an alert will read this.")


def _end(request: HttpRequest, silence: Silence) -> str:
    if alerts.end_silence(silence.pk, by=by_user(request.user)):
        return "Alerts are shown and sent again."
    return "It was over before."


@admin.register(Silence)
class SilenceAdmin(PageAdmin):
    nothing = "Nothing is silenced. Silence a site or a robot while people work on it, with a reason and an end."
    first = "Silence something"
    add = "Silence alerts"
    page_template = "admin/drover/silence.html"
    form_template = "admin/drover/silence_form.html"
    list_display = ("what", "why", "by", "since_at", "until_at", "stand")
    list_display_links = ("what",)
    list_filter = ("site",)
    list_select_related = ("site",)
    search_fields = ("robot_id", "why", "by")
    buttons = (
        Button(
            "end", "End it now", "fleet.silence_alert", _end,
            shown=lambda s: not s.ended_at and s.until > timezone.now(),
        ),
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("fleet.silence_alert"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"form": SilenceForm(request.POST if request.method == "POST" else None, initial=request.GET.dict())}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said = forms["form"].cleaned_data
        if not may(request.user, "fleet.silence_alert", said["site"].pk):
            raise Refused("That is not one of your sites.")
        now = timezone.now()
        pk = alerts.silence(
            site=said["site"], robot=said["robot"].pk if said["robot"] else "", why=said["why"], by=by_user(request.user),
            until=now + timedelta(hours=said["hours"]), now=now,
        )  # fmt: skip
        return pk, "Silent from now on. Critical alerts are still shown and sent."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "since": stamp(row.since), "until": stamp(row.until), "ended": stamp(row.ended_at),
            **timeline(f"silence:{row.pk}", request.user),
        }  # fmt: skip

    @admin.display(description="of")
    def what(self, silence: Silence) -> str:
        return silence.robot_id or f"all of {silence.site}"

    @admin.display(description="since", ordering="since")
    def since_at(self, silence: Silence) -> SafeString | str:
        return stamp(silence.since)

    @admin.display(description="until", ordering="until")
    def until_at(self, silence: Silence) -> SafeString | str:
        return stamp(silence.until)

    @admin.display(description="state")
    def stand(self, silence: Silence) -> str:
        if silence.ended_at:
            return f"ended by {silence.ended_by}"
        return "over" if silence.until <= timezone.now() else "silent now"
