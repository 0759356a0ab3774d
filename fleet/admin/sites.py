"""Sites and their places. (The page of brands is with the command types, in missions.)"""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.pages import KeptAdmin
from fleet.models import Place, Site


@admin.register(Site)
class SiteAdmin(KeptAdmin):
    list_display = ("name", "robots", "places")
    search_fields = ("name",)
    readonly_fields = ("robots", "places")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        counts = {"robots_n": Count("robots", distinct=True), "places_n": Count("places", distinct=True)}
        return super().get_queryset(request).annotate(**counts)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name", "robots", "places") if obj else ("name",)

    @admin.display(ordering="robots_n")
    def robots(self, site: Site) -> SafeString:
        return _count("admin:fleet_robot_changelist", site, site.robots_n, "robot")  # type: ignore[attr-defined]

    @admin.display(ordering="places_n")
    def places(self, site: Site) -> SafeString:
        return _count("admin:fleet_place_changelist", site, site.places_n, "place")  # type: ignore[attr-defined]


@admin.register(Place)
class PlaceAdmin(KeptAdmin):
    list_display = ("name", "site", "x", "y", "theta")
    list_filter = ("site",)
    list_select_related = ("site",)
    search_fields = ("name", "site__name")
    fields = ("site", "name", ("x", "y", "theta"))


def _count(view: str, site: Site, number: int, word: str) -> SafeString:
    return format_html(
        '<a href="{}?site__id__exact={}">{} {}{}</a>', reverse(view), site.pk, number, word, "" if number == 1 else "s"
    )
