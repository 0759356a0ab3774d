"""Records to look at: the event log and the commands to robots. Never added, changed or deleted here."""

import json
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.pages import ReadOnlyAdmin
from fleet.admin.timeline import clock, stamp
from fleet.history import KINDS, sentence
from fleet.models import Command, Event

MAX_WORDS = 300  # robots may say 64 kB; the data below has it all
PAGES = {
    "mission": "admin:missions_mission_change", "robot": "admin:fleet_robot_change", "site": "admin:fleet_site_change",
    "brand": "admin:fleet_brand_change",
}  # fmt: skip


def as_text(body: str) -> SafeString:
    """JSON laid out for reading; anything else as it is. Always text."""
    with suppress(ValueError, RecursionError):
        body = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    return format_html('<pre class="data" dir="ltr">{}</pre>', body)


class KindFilter(admin.SimpleListFilter):
    """Kinds come from the catalogue, so that the page asks no DISTINCT over the whole log."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(KINDS)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class ActorFilter(admin.SimpleListFilter):
    title = "who"
    parameter_name = "actor_kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name.capitalize()) for name in ("user", "robot", "deadline", "policy", "system")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(actor_kind=self.value()) if self.value() else queryset


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("when", "words", "about", "who", "edge", "caused_by")
    list_display_links = ("words",)
    list_filter = (KindFilter, ActorFilter)
    search_fields = ("actor_name", "=actor_id", "=trace_id", "=cause")
    search_help_text = "Mission or robot id, name of a person, trace id"
    ordering = ("-id",)
    date_hierarchy = None
    fields = (
        "words", "about", "seq", "kind", "edge", "who", "actor", "caused_by", "trace", "occurred", "recorded", "pretty",
        "hashes",
    )  # fmt: skip

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return self.fields

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        """The history of one mission or robot comes by its index; only then the whole log is searched."""
        term = search_term.strip()
        own = queryset.filter(aggregate__in=[term, *(f"{prefix}:{term}" for prefix in PAGES)])
        if term and own.exists():
            return own, False
        return super().get_search_results(request, queryset, search_term)

    @admin.display(description="when", ordering="id")
    def when(self, event: Event) -> SafeString | str:
        return stamp(event.occurred_at)

    @admin.display(description="what happened")
    def words(self, event: Event) -> str:
        return Truncator(sentence(event)).chars(MAX_WORDS)

    @admin.display(description="of", ordering="aggregate")
    def about(self, event: Event) -> str | SafeString:
        prefix, _, key = event.aggregate.partition(":")
        if prefix not in PAGES:
            return event.aggregate
        return format_html('<a class="id" href="{}">{}</a>', _page(prefix, key), event.aggregate)

    @admin.display(description="cause")
    def caused_by(self, event: Event) -> SafeString:
        return format_html('<code class="id">{}</code>', event.cause)

    @admin.display(description="actor")
    def actor(self, event: Event) -> str:
        return f"{event.actor_kind} {event.actor_id}"

    @admin.display(description="trace / span")
    def trace(self, event: Event) -> SafeString | str:
        if not event.trace_id:
            return ""
        same = f"{reverse('admin:fleet_event_changelist')}?q={event.trace_id}"
        return format_html('<a class="id" href="{}">{}</a> {}', same, event.trace_id, event.span_id)

    @admin.display(description="who")
    def who(self, event: Event) -> str:
        return event.actor_name or event.actor_id or event.actor_kind

    @admin.display(description="state")
    def edge(self, event: Event) -> str:
        return f"{event.state_from or 'new'} → {event.state_to}" if event.state_from != event.state_to else ""

    @admin.display(description="occurred (UTC)")
    def occurred(self, event: Event) -> str:
        return f"{event.occurred_at:%Y-%m-%d} {clock(event.occurred_at)}, by the clock of who says so"

    @admin.display(description="recorded (UTC)")
    def recorded(self, event: Event) -> str:
        return f"{event.recorded_at:%Y-%m-%d} {clock(event.recorded_at)}"

    @admin.display(description="data")
    def pretty(self, event: Event) -> SafeString:
        return as_text(event.data)

    @admin.display(description="hash")
    def hashes(self, event: Event) -> SafeString:
        return format_html(
            '<code class="id">{}</code> after <code class="id">{}</code>',
            bytes(event.hash).hex()[:16], bytes(event.prev_hash).hex()[:16],
        )  # fmt: skip


@admin.register(Command)
class CommandAdmin(ReadOnlyAdmin):
    list_display = ("made", "kind", "robot_id", "state", "delivered", "mission")
    list_filter = ("state",)
    search_fields = ("=id", "=robot__id", "=mission", "kind")
    search_help_text = "Message id, robot id or mission id in full, or kind"
    ordering = ("-order",)
    fields = ("id", "robot", "kind", "state", "mission", "dispatch_no", "created_at", "delivered_at", "pretty")
    readonly_fields = ("pretty",)

    @admin.display(description="made", ordering="created_at")
    def made(self, command: Command) -> SafeString | str:
        return stamp(command.created_at)

    @admin.display(description="delivered", ordering="delivered_at")
    def delivered(self, command: Command) -> SafeString | str:
        return stamp(command.delivered_at)

    @admin.display(description="message")
    def pretty(self, command: Command) -> SafeString:
        return as_text(command.body)


def _page(prefix: str, key: str) -> str:
    return reverse(PAGES[prefix], args=[quote(key)])
