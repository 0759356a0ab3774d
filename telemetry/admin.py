"""Robots that knocked: who presented no good token, how often, from where; one click enrols them."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.kept import ReadOnlyAdmin
from fleet.admin.timeline import stamp
from fleet.models import Brand, Robot
from fleet.people.access import at_sites
from fleet.ports import drivers
from fleet.robots import addresses
from fleet.wording import ago
from telemetry.gateways.knocks import MANY, ROWS_OF_ADDRESS, ROWS_OF_BROKER
from telemetry.models import Knock
from telemetry.out.statistics import admin as statistics_admin  # noqa: F401  (registers its page)
from telemetry.out.webhooks import admin as webhook_admin  # noqa: F401  (registers its page)

NOT_WHOLE = {"…", "\N{REPLACEMENT CHARACTER}"}  # in a name that was cut off, or that no table can hold


def _called(robots: QuerySet[Robot]) -> dict[tuple[str, str], str]:
    """(driver, name as knocks have it) → robot: by its id where it shows a token, by its address where it has one."""
    found = {}
    for pk, address, driver in robots.values_list("pk", "address", "brand__driver"):
        found["", pk] = pk
        found[driver, address or pk] = pk
    return found


def _form_of(knock: Knock) -> dict[str, Any]:
    """What the form of a new robot begins with."""
    if not knock.driver:
        return {"id": knock.robot, "name": knock.robot}
    brands = list(Brand.objects.filter(driver=knock.driver).values_list("pk", flat=True)[:2])
    brand = {"brand": brands[0]} if len(brands) == 1 else {}
    return {"id": addresses.suggested_id(knock.robot), "name": knock.robot, "address": knock.robot, **brand}


@admin.register(Knock)
class KnockAdmin(ReadOnlyAdmin):
    change_list_template = "admin/drover/knock_list.html"
    list_display = ("who", "next_step", "presented", "over", "address", "times", "first", "last")
    list_display_links = None
    list_filter = ("why", "over")
    search_fields = ("robot", "address")
    search_help_text = "Robot id or address"
    list_per_page = 50
    ordering = ("-last_at",)
    fields = ("robot", "why", "over", "address", "count", "first_at", "last_at")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Which of these names are robots that the user may see, and which nobody has: one look for the page."""
        found = super().get_changelist_instance(request)
        rows = list(found.result_list)
        names = {row.robot for row in rows} - {""}
        named = Robot.objects.filter(Q(pk__in=names) | Q(address__in=names, retired_at=None))
        known = _called(named)
        seen = _called(at_sites(request.user, named))
        driven = set(Brand.objects.values_list("driver", flat=True).distinct())
        for row in rows:
            row.is_robot, row.is_seen = (row.driver, row.robot) in known, (row.driver, row.robot) in seen
            row.robot_id = known.get((row.driver, row.robot), "")
            row.may_enrol = request.user.has_perm("fleet.add_robot")
            row.has_brand = row.driver in driven
        found.result_list = rows
        return found

    @admin.display(description="who", ordering="robot")
    def who(self, knock: Any) -> SafeString | str:
        if knock.why == MANY:
            return f"More than {ROWS_OF_BROKER if knock.driver else ROWS_OF_ADDRESS} names from one address"
        if not knock.robot:
            return "It gave no name"
        if knock.is_seen:
            url = reverse("admin:fleet_robot_change", args=[quote(knock.robot_id)])
            return format_html('<a class="id" href="{}" dir="auto">{}</a>', url, knock.robot)
        return format_html('<code class="id" dir="auto">{}</code>', knock.robot)

    @admin.display(description="presented", ordering="why")
    def presented(self, knock: Knock) -> str:
        return f"{knock.showed}: {drivers.named(knock.driver).label}" if knock.driver else knock.showed

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
            retired = knock.why == "retired"
            return format_html(
                '<a class="btn small" href="{}">{}</a>',
                reverse(f"admin:fleet_robot_{'change' if retired else 'connect'}", args=[quote(knock.robot_id)]),
                "Put it back in service" if retired else "Connect it",
            )
        if not knock.robot or knock.is_robot or not knock.may_enrol or NOT_WHOLE & set(knock.robot):
            return ""
        if knock.driver and not knock.has_brand:
            url = f"{reverse('admin:fleet_brand_add')}?{urlencode({'driver': knock.driver})}"
            return format_html('<a class="btn small" href="{}">Make its brand first</a>', url)
        query = urlencode(_form_of(knock))
        return format_html(
            '<a class="btn small" href="{}?{}">Enrol this robot</a>', reverse("admin:fleet_robot_add"), query
        )
