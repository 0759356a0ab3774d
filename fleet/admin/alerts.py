"""Alerts: what is open, who has seen it, how it ended. Buttons call `fleet.alerts.actions`."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Case, IntegerField, QuerySet, When
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.buttons import Button
from fleet.admin.filters import UsualFilter
from fleet.admin.pages import PageAdmin
from fleet.admin.records import page_of
from fleet.admin.timeline import stamp, timeline
from fleet.alerts import actions as alerts
from fleet.alerts.heard import RANK, silenced
from fleet.audit.questions import abouts
from fleet.history import by_user
from fleet.models import Alert, Event, Severity
from fleet.wording import Said, ago

SAID = {
    Severity.CRITICAL: Said("◆", "Critical", "bad"),
    Severity.WARNING: Said("△", "Warning", "warn"),
    Severity.INFO: Said("○", "Info", "ok"),
}


class StandFilter(UsualFilter):
    title = parameter_name = "state"
    usual = "Open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("new", "Not acknowledged"), ("seen", "Acknowledged"), ("silent", "Open, silenced"), ("cleared", "Cleared"),
            ("all", "All"),
        ]  # fmt: skip

    def queryset(self, request: HttpRequest, queryset: QuerySet[Alert]) -> QuerySet[Alert]:
        now = timezone.now()
        match self.value():
            case "all":
                return queryset
            case "cleared":
                return queryset.filter(cleared_at__isnull=False)
            case "silent":
                return queryset.filter(silenced(now), cleared_at=None)
        heard = queryset.filter(cleared_at=None).exclude(silenced(now))
        return heard.filter(acknowledged_at__isnull=self.value() == "new") if self.value() else heard


def _acknowledge(request: HttpRequest, alert: Alert) -> str:
    return alerts.acknowledge(alert.pk, by=by_user(request.user))


def _clear(request: HttpRequest, alert: Alert) -> str:
    return alerts.clear_by_person(alert.pk, by=by_user(request.user), why=request.POST.get("reason", ""))


def hand_over_of(alert: Alert) -> str:
    """Where the mission is handed over that this alert proposes to; empty when it proposes nothing (any more)."""
    rule, _, subject = alert.cause.partition(":mission:")
    if rule != "hand_over" or alert.cleared_at:
        return ""
    return reverse("admin:missions_mission_hand_over", args=[quote(subject)])


@admin.register(Alert)
class AlertAdmin(PageAdmin):
    nothing = "No alerts here. What needs somebody is listed until it is dealt with."
    page_template = "admin/drover/alert.html"
    list_display = ("severity_said", "words", "of", "place", "opened", "times", "stand")
    list_display_links = ("words",)
    list_filter = (StandFilter, "severity", "site")
    list_select_related = ("site", "tally")
    search_fields = ("text", "robot_id", "subject", "cause")
    search_help_text = "Words of the alert, robot or mission id"
    ordering = (  # the worst first
        Case(*(When(severity=severity, then=rank) for severity, rank in RANK.items()), output_field=IntegerField()),
        "-id",
    )  # fmt: skip
    buttons = (
        Button(
            "acknowledge", "Acknowledge", "fleet.acknowledge_alert", _acknowledge, look="primary",
            shown=lambda a: not a.cleared_at and not a.acknowledged_at,
        ),
        Button(
            "clear", "Clear…", "fleet.acknowledge_alert", _clear, shown=lambda a: not a.cleared_at, asks="Reason",
            confirm="It is dealt with. Should it still hold, it opens again.", yes="Clear this alert",
        ),
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = timezone.now()
        silent = not row.cleared_at and Alert.objects.filter(silenced(now), pk=row.pk).exists()
        prefix, _, key = row.subject.partition(":")
        return {
            "s": SAID[row.severity], "silent": silent, "opened": stamp(row.opened_at), "opened_ago": ago(row.opened_at, now),
            "last": stamp(row.tally.last_at), "acknowledged": stamp(row.acknowledged_at), "cleared": stamp(row.cleared_at),
            "hand_over_url": hand_over_of(row),
            "subject_url": page_of(prefix, key), "subject_name": subject_names([row])[row.subject],
            "mails": row.mails.order_by("pk"), **timeline(f"alert:{row.pk}", request.user, everybodys=True),
        }  # fmt: skip

    @admin.display(description="severity", ordering="severity")
    def severity_said(self, alert: Alert) -> SafeString:
        said = SAID[Severity(alert.severity)]
        token = "off" if alert.cleared_at else said.token
        return format_html('<span class="said {}"><i>{}</i> {}</span>', token, said.shape, said.word)

    @admin.display(description="what")
    def words(self, alert: Alert) -> str:
        return alert.text

    @admin.display(description="of", ordering="subject")
    def of(self, alert: Alert) -> SafeString | str:
        prefix, _, key = alert.subject.partition(":")
        url = page_of(prefix, key)
        name = alert.robot_id or prefix
        return format_html('<a href="{}">{}</a>', url, name) if url else name

    @admin.display(description="site", ordering="site")
    def place(self, alert: Alert) -> str:
        return alert.site.name if alert.site else "every site"

    @admin.display(description="opened", ordering="opened_at")
    def opened(self, alert: Alert) -> SafeString | str:
        return stamp(alert.opened_at)

    @admin.display(description="times", ordering="tally__count")
    def times(self, alert: Any) -> SafeString:
        return format_html('<span class="num">{}</span>', alert.tally.count)

    @admin.display(description="state")
    def stand(self, alert: Alert) -> str:
        if alert.cleared_at:
            by = f" by {alert.cleared_by}" if alert.cleared_by else ""
            return f"Cleared{by}: {Truncator(alert.cleared_why).chars(80)}"
        return f"Acknowledged by {alert.acknowledged_by}" if alert.acknowledged_at else "Open"


def subject_names(rows: list[Any]) -> dict[str, str]:
    """What alerts are about, by the names of today."""
    names = abouts([Event(aggregate=row.subject) for row in rows])
    return {subject: about.name or about.key or "Drover itself" for subject, about in names.items()}
