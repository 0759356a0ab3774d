"""Brands: here and not in fleet, because what a brand can do are command types."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import timeline
from fleet.brands import actions, setting_fields
from fleet.history import by_user
from fleet.models import Brand, Robot
from fleet.people.access import at_sites
from fleet.ports import drivers
from missions.command_types import TYPES
from missions.forms.brands import BrandForm, filled_in, waits_in_words


@admin.register(Brand)
class BrandAdmin(PageAdmin):
    nothing = "No brands yet. A brand says what its robots can do and when silence means something."
    first = "Make the first"
    add = "Add a brand"
    page_template = "admin/drover/brand.html"
    form_template = "admin/drover/brand_form.html"
    list_display = ("name", "can_do", "robots", "suspect_after_s", "offline_after_s", "abandon_after_s", "charging")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Brand]:
        mine = Q(robots__in=at_sites(request.user, Robot.objects.filter(retired_at=None)))
        return super().get_queryset(request).annotate(robots_n=Count("robots", filter=mine))

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        posted, chosen = request.POST if request.method == "POST" else None, request.GET.get("driver", "")
        return {"form": BrandForm(posted, brand=row, driver=chosen, initial=filled_in(row) if row else {})}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = forms["form"].columns(), by_user(request.user)
        if row is None:
            made = actions.create_brand(**said, by=by)
            return made.pk, f"{made} is made. Robots of this brand can be enrolled now."
        actions.edit_brand(row.pk, **said, by=by)
        return (
            row.pk,
            f"{said['name']} is saved. It holds at once; missions that are dispatched keep the times that they have.",
        )

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "can_do": self.can_do(row),
            "driver": drivers.named(row.driver),
            "settings": setting_fields.in_words(drivers.named(row.driver), row.profile),
            "waits": waits_in_words(row),
            "charging": self.charging(row),
            "robots": self.robots(row),
            **timeline(f"brand:{row.pk}", request.user, everybodys=True),
        }

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        words = {"heading": f"Edit {row}" if row else "Add a brand", "verb": "Save" if row else "Add the brand"}
        return words | {"timings": {} if row else forms["form"].timings()}

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
