"""Brands: here and not in fleet, because what a brand can do are command types."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet import brand_actions as actions
from fleet.access import at_sites
from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import timeline
from fleet.history import by_user
from fleet.models import Brand, Robot
from missions.command_types import TYPES

_WEEK_S = 7 * actions.DAY_S
COLUMNS = (
    "name", "driver", "capabilities", "suspect_after_s", "offline_after_s", "abandon_after_s", "charge_below_pct",
    "charge_until_pct",
)  # fmt: skip


class BrandForm(forms.Form):
    name = forms.CharField(max_length=200, help_text="Make and model, e.g. Haulmate 3.")
    driver = forms.ChoiceField(
        choices=[("native", "Drover's own protocol")],
        help_text="How these robots speak: see docs/protocol.md for Drover's own protocol.",
    )
    capabilities = forms.MultipleChoiceField(
        label="Can do", choices=[(t.name, t.label) for t in TYPES.values()], widget=forms.CheckboxSelectMultiple,
        help_text="Missions for these robots may use only these commands. Missions that exist are not changed.",
    )  # fmt: skip
    suspect_after_s = forms.IntegerField(
        label="Suspect after (s)", initial=9, min_value=1, max_value=_WEEK_S,
        help_text="Silent this long, a robot is marked as not heard of lately. Nothing else happens. Usually three heartbeats.",
    )  # fmt: skip
    offline_after_s = forms.IntegerField(
        label="Offline after (s)", initial=20, min_value=1, max_value=_WEEK_S,
        help_text="Silent this long, it counts as offline: it gets no new work, and its mission waits for it.",
    )  # fmt: skip
    abandon_after_s = forms.IntegerField(
        label="Abandon after (s)", initial=120, min_value=0, max_value=_WEEK_S,
        help_text="Offline this long, it loses its mission: the mission is stopped and ends as aborted.",
    )  # fmt: skip
    charge_below_pct = forms.IntegerField(
        label="Charge below (%)", required=False, min_value=1, max_value=99,
        help_text="An idle robot below this is sent to a free charger of its site. Empty: robots are never sent.",
    )  # fmt: skip
    charge_until_pct = forms.IntegerField(
        label="Charge until (%)", initial=80, min_value=2, max_value=100,
        help_text="It charges to this before it takes other work.",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        suspect, offline = said.get("suspect_after_s"), said.get("offline_after_s")
        if suspect and offline and offline < suspect:
            self.add_error(
                "offline_after_s", f"A robot is suspect ({suspect} s) before it is offline: at least {suspect}."
            )
        below, until = said.get("charge_below_pct"), said.get("charge_until_pct")
        if below and until and until <= below:
            self.add_error("charge_until_pct", f"It is sent to charge below {below} %: charge to more than that.")
        return said


@admin.register(Brand)
class BrandAdmin(PageAdmin):
    nothing = "No brands yet. A brand says what its robots can do and when silence means something."
    first = "Make the first"
    add = "Add a brand"
    page_template = "admin/drover/brand.html"
    form_template = "admin/drover/plain_form.html"
    list_display = ("name", "can_do", "robots", "suspect_after_s", "offline_after_s", "abandon_after_s", "charging")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Brand]:
        mine = Q(robots__in=at_sites(request.user, Robot.objects.filter(retired_at=None)))
        return super().get_queryset(request).annotate(robots_n=Count("robots", filter=mine))

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        initial = {column: getattr(row, column) for column in COLUMNS} if row else {}
        form = BrandForm(request.POST if request.method == "POST" else None, initial=initial)
        if row and row.driver != "native":  # of another version: kept as it is
            form.fields["driver"].choices = [("native", "Drover's own protocol"), (row.driver, row.driver)]  # type: ignore[attr-defined]
        return {"form": form}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = forms["form"].cleaned_data, by_user(request.user)
        if row is None:
            made = actions.create_brand(**said, by=by)
            return made.pk, f"{made} is made. Robots of this brand can be enrolled now."
        actions.edit_brand(row.pk, **said, by=by)
        return row.pk, f"{said['name']} is saved. It holds for its robots at once."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "can_do": self.can_do(row),
            "charging": self.charging(row),
            "robots": self.robots(row),
            **timeline(f"brand:{row.pk}", request.user, everybodys=True),
        }

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        return {"heading": f"Edit {row}" if row else "Add a brand", "verb": "Save" if row else "Add the brand"}

    @admin.display(description="can do")
    def can_do(self, brand: Brand) -> str:
        return ", ".join(TYPES[c].label.lower() if c in TYPES else str(c) for c in brand.capabilities)

    @admin.display(description="charges")
    def charging(self, brand: Brand) -> str:
        if brand.charge_below_pct is None:
            return "when a mission says so"
        return f"below {brand.charge_below_pct} %, until {brand.charge_until_pct} %"

    @admin.display(description="robots", ordering="robots_n")
    def robots(self, brand: Any) -> SafeString:
        url = f"{reverse('admin:fleet_robot_changelist')}?brand__id__exact={brand.pk}"
        return format_html('<a href="{}">{} robot{}</a>', url, brand.robots_n, "" if brand.robots_n == 1 else "s")
