"""Audit: every event by who, what, where, when and why; each one's page; export. To be looked at, never touched."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.text import Truncator

from fleet.admin.kept import ReadOnlyAdmin
from fleet.admin.records import as_text, page_of
from fleet.admin.timeline import ACTORS, stamp
from fleet.audit import one_event as audit_event
from fleet.audit import questions as audit
from fleet.audit.export import FORMATS, Streamed
from fleet.history import sentence
from fleet.models import Event, Site
from fleet.people.access import at_sites
from fleet.ports import evidence
from fleet.wording import ago

PAGE = 100
PATIENCE_MS = 8000  # a question that takes longer is to be narrowed
MAX_WORDS = 300  # robots may say 64 kB; the event's page has it all


class Line:
    """One event in the list."""

    def __init__(self, event: Event, about: audit.About, sites: dict[int, str], user: Any, now: Any) -> None:
        self.event, self.about = event, about
        self.url = reverse("admin:fleet_event_change", args=[event.pk])
        self.page = page_of(about.prefix, about.key, user)
        self.words = Truncator(sentence(event)).chars(MAX_WORDS)
        self.actor = ACTORS.get(event.actor_kind, event.actor_kind)
        self.who = event.actor_name or event.actor_id or self.actor
        self.site = sites.get(event.site_id, "") if event.site_id else ""
        self.occurred, self.recorded = stamp(event.occurred_at), stamp(event.recorded_at)
        self.late_s = (event.recorded_at - event.occurred_at).total_seconds()
        self.late = abs(self.late_s) >= 1
        self.edge = (event.state_from or "new", event.state_to) if event.state_from != event.state_to else None
        self.ago = ago(event.recorded_at, now)


def lines(events: list[Event], user: Any) -> list[Line]:
    """With the names of today; a query per kind of thing and one for the sites."""
    names, now = audit.abouts(events), timezone.now()
    sites = dict(Site.objects.values_list("pk", "name"))
    return [Line(event, names[event.aggregate], sites, user, now) for event in events]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    many = "audit"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export_view)
        own = [path(f"export.{kind}", view, {"kind": kind}, name="fleet_event_export") for kind in FORMATS]
        return own + super().get_urls()

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request) or request.method not in ("GET", "HEAD"):
            raise PermissionDenied  # nothing here can be changed by anybody

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self._check(request)
        if any("\x00" in value for values in request.GET.lists() for value in (values[0], *values[1])):
            return redirect(request.path)  # PostgreSQL cannot compare with NUL
        question = audit.Question(request.GET, request.user)
        context = {
            **self.admin_site.each_context(request), "opts": self.opts, "title": "Audit", "form": question,
            "asked": any(value for name, value in request.GET.items() if name != "older"), **self._page(request, question),
            "presets": audit.presets(request.GET),
            "exports": [(kind, reverse("admin:fleet_event_export", kwargs={"kind": kind})) for kind in FORMATS],
        }  # fmt: skip
        return TemplateResponse(request, "admin/drover/audit.html", context)

    def _page(self, request: HttpRequest, question: audit.Question) -> dict[str, Any]:
        key = request.GET.get("older", "")
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, TRUE)", [str(PATIENCE_MS)])
                found = list(audit.older_than(question.events(), key)[: PAGE + 1])
                shown = lines(found[:PAGE], request.user)
        except OperationalError:
            return {"lines": [], "too_long": True}
        address = request.GET.copy()
        address.pop("older", None)
        same = address.urlencode()
        more = address.copy()
        if len(found) > PAGE:
            more["older"] = audit.key_of(found[PAGE - 1])
        return {
            "lines": shown, "same": same, "newest": request.path + (f"?{same}" if same else ""), "paged": bool(key),
            "older": f"?{more.urlencode()}" if len(found) > PAGE else "",
        }  # fmt: skip

    def export_view(self, request: HttpRequest, kind: str) -> HttpResponse | Streamed:
        self._check(request)
        if any("\x00" in value for value in request.GET.values()):
            return redirect(request.path)
        question = audit.Question(request.GET, request.user)
        if not question.is_valid():
            return HttpResponse(question.errors.as_text(), status=400, content_type="text/plain; charset=utf-8")
        write, content_type = FORMATS[kind]
        parts = () if request.method == "HEAD" else write(question.events())
        name = f"drover-events-{question.now:%Y%m%d-%H%M%S}.{kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Streamed(parts, content_type=content_type, headers=headers)

    def change_view(self, request: Any, object_id: Any, form_url: str = "", extra_context: Any = None) -> Any:
        self._check(request)
        event = self.get_object(request, unquote(object_id))
        if event is None:
            raise Http404(f"There is no event {unquote(object_id)!r}.")
        [line] = lines([event], request.user)
        moved, why_not = audit_event.changes(event)
        context = {
            **self.admin_site.each_context(request), "opts": self.opts, "title": f"Event {event.pk}", "original": event,
            "line": line, "moved": moved, "why_not": why_not, "broken": audit_event.verified(event),
            "hash": bytes(event.hash).hex(), "prev_hash": bytes(event.prev_hash).hex(), "data": as_text(event.data),
            "evidence": [
                (e, as_text(e.body) if e.body else "") for e in evidence.of_message(event.actor_id, event.cause)
            ],
            "together": lines(list(audit_event.together(event, request.user)), request.user),
            "commands": audit_event.commands(event, request.user),
            "next_in_history": self._neighbour(request, event, 1), "before_in_history": self._neighbour(request, event, -1),
        }  # fmt: skip
        return TemplateResponse(request, "admin/drover/event.html", context)

    def _neighbour(self, request: HttpRequest, event: Event, step: int) -> Event | None:
        beside = Event.objects.filter(aggregate=event.aggregate, seq=event.seq + step)
        found: Event | None = at_sites(request.user, beside).first()
        return found

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> HttpResponse:
        self._check(request)
        if self.get_object(request, unquote(object_id)) is None:
            raise Http404(f"There is no event {unquote(object_id)!r}.")
        return redirect("admin:fleet_event_change", object_id)
