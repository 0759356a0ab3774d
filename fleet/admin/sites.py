"""Sites: their name, map and places in one page, with their history."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin import stops
from fleet.admin.buttons import Button
from fleet.admin.pages import PageAdmin
from fleet.admin.site_map import map_form, map_picture
from fleet.admin.timeline import timeline
from fleet.history import by_user
from fleet.models import Site
from fleet.people.access import may
from fleet.sites import actions
from fleet.sites.drawing import drawing


class SiteForm(forms.Form):
    name = forms.CharField(max_length=200, help_text="What people call it. Places, robots and people belong to a site.")


def _remove_map(request: HttpRequest, site: Site) -> str:
    actions.remove_map(site.pk, by=by_user(request.user))
    return f"{site} has no map any more."


@admin.register(Site)
class SiteAdmin(PageAdmin):
    nothing = "No sites yet. A site is a place with its own map, robots and people."
    first = "Make the first"
    add = "Add a site"
    page_template = "admin/drover/site.html"
    form_template = "admin/drover/plain_form.html"
    list_display = ("name", "robots", "places", "has_map")
    search_fields = ("name",)
    ordering = ("name",)  # a count drops the model's own
    buttons = (
        Button("stop_all", "Stop all", "fleet.stop_robot", stops.stop_all, look="danger"),
        Button(
            "remove_map", "Remove the map…", "fleet.change_site", _remove_map, shown=lambda s: bool(s.map_sha256),
            confirm="The picture leaves this page and the live map; places and robots stay.", yes="Remove the map",
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        counts = {
            "robots_n": Count("robots", filter=Q(robots__retired_at=None), distinct=True),
            "places_n": Count("places", distinct=True),
        }
        return super().get_queryset(request).annotate(**counts)

    def get_urls(self) -> Any:
        wrap = self.admin_site.admin_view
        own = [
            path("<path:object_id>/map/", wrap(self.map_view), name="fleet_site_map"),
            path("<int:site_id>/map/<slug:sha256>.png", wrap(map_picture), name="fleet_site_picture"),
        ]
        return own + super().get_urls()

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        initial = {"name": row.name} if row else {}
        return {"form": SiteForm(request.POST if request.method == "POST" else None, initial=initial)}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        name, by = forms["form"].cleaned_data["name"], by_user(request.user)
        if row is None:
            made = actions.create_site(name, by=by)
            return made.pk, f"{made} is made. Add its places next."
        actions.rename_site(row.pk, name=name, by=by)
        return row.pk, f"{name} is saved."

    def map_view(self, request: HttpRequest, object_id: str) -> Any:
        return map_form(self, request, self.found(request, object_id))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        places = list(row.places.order_by("name"))
        return {
            "places": places,
            "drawing": drawing(row, places),
            "may_add_place": may(request.user, "fleet.add_place", row.pk),
            **timeline(f"site:{row.pk}", request.user),
        }

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        return {"heading": "Rename the site" if row else "Add a site", "verb": "Save" if row else "Add the site"}

    @admin.display(ordering="robots_n")
    def robots(self, site: Site) -> SafeString:
        return _count("admin:fleet_robot_changelist", site, site.robots_n, "robot")  # type: ignore[attr-defined]

    @admin.display(ordering="places_n")
    def places(self, site: Site) -> SafeString:
        return _count("admin:fleet_place_changelist", site, site.places_n, "place")  # type: ignore[attr-defined]

    @admin.display(description="map", ordering="map_sha256")
    def has_map(self, site: Site) -> str:
        return f"{site.map_width} by {site.map_height} pixels" if site.map_sha256 else ""


def _count(view: str, site: Site, number: int, word: str) -> SafeString:
    return format_html(
        '<a href="{}?site__id__exact={}">{} {}{}</a>', reverse(view), site.pk, number, word, "" if number == 1 else "s"
    )
