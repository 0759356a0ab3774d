"""Stop and release for many robots at once, from the list or a site's page, with a line per robot about what became of it.

Stop is done at once and never asks (I13); release is asked for once, naming the robots.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fleet.history import by_user
from fleet.models import Hold, HoldKind, Robot, Site
from fleet.people.access import at_sites
from fleet.robots import stopping

STOP, RELEASE = "fleet.stop_robot", "fleet.release_robot"


def offered(user: Any) -> dict[str, tuple[Any, str, str]]:
    """Django's form of the actions of the list that this person may use."""
    all_of_them = {"stop": (STOP, _stop, "Stop"), "release": (RELEASE, _release, "Release…")}
    return {name: (run, name, label) for name, (may, run, label) in all_of_them.items() if user.has_perm(may)}


def stop_all(request: HttpRequest, site: Site) -> str:
    """The button of a site's page."""
    return _reported("Stop all", stopping.stop_site(site.pk, by=by_user(request.user)))


def _stop(page: Any, request: HttpRequest, queryset: Any) -> HttpResponse:
    if not request.user.has_perm(STOP):
        raise PermissionDenied
    said = stopping.stop_robots(_ids(request, queryset), by=by_user(request.user))
    messages.warning(request, _reported("Stop", said))
    return _back(request)


def _release(page: Any, request: HttpRequest, queryset: Any) -> HttpResponse:
    if not request.user.has_perm(RELEASE):
        raise PermissionDenied
    ids = _ids(request, queryset)
    if "confirmed" in request.POST:
        messages.success(request, _reported("Release", stopping.release_robots(ids, by=by_user(request.user))))
        return _back(request)
    holds = Hold.objects.filter(robot__in=ids, kind=HoldKind.STOPPED, released_at=None).select_related("robot")
    context = {
        **page.admin_site.each_context(request), "opts": page.opts, "title": "Release", "holds": holds,
        "checkbox": ACTION_CHECKBOX_NAME, "query": request.POST.get("query", request.GET.urlencode()),
    }  # fmt: skip
    return TemplateResponse(request, "admin/drover/release.html", context)


def _ids(request: HttpRequest, queryset: Any) -> list[str]:
    return list(at_sites(request.user, queryset).order_by("pk").values_list("pk", flat=True))


def _back(request: HttpRequest) -> HttpResponse:
    query = request.POST.get("query", request.GET.urlencode())
    return redirect(f"{reverse('admin:fleet_robot_changelist')}?{query}")


def _reported(what: str, said: dict[str, str]) -> SafeString:
    """Numbers first, then a line per robot, what was not done before the rest."""
    if not said:
        return format_html("{}: there is no robot here.", what)
    names = dict(Robot.objects.filter(pk__in=said).values_list("pk", "name"))
    done = sorted(said.items(), key=lambda one: (not one[1].endswith("."), one[0]))
    counts: dict[str, int] = {}
    for _, word in done:
        counts["not done" if word.endswith(".") else word] = (
            counts.get("not done" if word.endswith(".") else word, 0) + 1
        )
    lines = format_html_join(
        "", '<li><a href="{}" dir="auto">{}</a> <code class="id">{}</code>: {}</li>',
        ((reverse("admin:fleet_robot_change", args=[admin.utils.quote(pk)]), names.get(pk, pk), pk, word) for pk, word in done),
    )  # fmt: skip
    summary = ", ".join(f"{n} {word}" for word, n in counts.items())
    return format_html('{}: {}.<ul class="report">{}</ul>', what, summary, lines)
