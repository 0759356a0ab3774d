"""Robots that knocked: who presented no good token, how often, from where; one click enrols them."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.access import at_sites
from fleet.admin.pages import ReadOnlyAdmin
from fleet.admin.timeline import ago, stamp
from fleet.models import Robot
from telemetry.gateways.knocks import MANY, ROWS_OF_ADDRESS
from telemetry.models import Knock
from telemetry.out import statistics_admin, webhook_admin  # noqa: F401  (each registers its page)


@admin.register(Knock)
class KnockAdmin(ReadOnlyAdmin):
    change_list_template = "admin/drover/knock_list.html"
    list_display = ("who", "presented", "over", "address", "times", "first", "last", "next_step")
    list_display_links = None
    list_filter = ("why", "over")
    search_fields = ("robot", "address")
    search_help_text = "Robot id or address"
    ordering = ("-last_at",)
    fields = ("robot", "why", "over", "address", "count", "first_at", "last_at")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Which of these names are robots that the user may see, and which nobody has: one look for the page."""
        found = super().get_changelist_instance(request)
        rows = list(found.result_list)
        names = {row.robot for row in rows} - {""}
        known = set(Robot.objects.filter(pk__in=names).values_list("pk", flat=True))
        seen = set(at_sites(request.user, Robot.objects.filter(pk__in=names)).values_list("pk", flat=True))
        for row in rows:
            row.is_robot, row.is_seen = row.robot in known, row.robot in seen
            row.may_enrol = request.user.has_perm("fleet.add_robot")
        found.result_list = rows
        return found

    @admin.display(description="who", ordering="robot")
    def who(self, knock: Any) -> SafeString | str:
        if knock.why == MANY:
            return f"More than {ROWS_OF_ADDRESS} names from one address"
        if not knock.robot:
            return "It gave no name"
        if knock.is_seen:
            url = reverse("admin:fleet_robot_change", args=[knock.robot])
            return format_html('<a class="id" href="{}">{}</a>', url, knock.robot)
        return format_html('<code class="id">{}</code>', knock.robot)

    @admin.display(description="presented", ordering="why")
    def presented(self, knock: Knock) -> str:
        return Knock.WHY.get(knock.why, knock.why)

    @admin.display(description="times", ordering="count")
    def times(self, knock: Knock) -> int:
        return knock.count

    @admin.display(description="first", ordering="first_at")
    def first(self, knock: Knock) -> SafeString | str:
        return stamp(knock.first_at)

    @admin.display(description="last", ordering="last_at")
    def last(self, knock: Knock) -> SafeString:
        return format_html(
            '<time class="nowrap" datetime="{}">{}</time>',
            knock.last_at.isoformat(),
            ago(knock.last_at, timezone.now()),
        )

    @admin.display(description="")
    def next_step(self, knock: Any) -> SafeString | str:
        if knock.is_seen:
            return format_html(
                '<a class="btn small" href="{}">Connect it</a>',
                reverse("admin:fleet_robot_connect", args=[knock.robot]),
            )
        if not knock.robot or knock.is_robot or not knock.may_enrol:
            return ""
        query = urlencode({"id": knock.robot, "name": knock.robot})
        return format_html(
            '<a class="btn small" href="{}?{}">Enrol this robot</a>', reverse("admin:fleet_robot_add"), query
        )
