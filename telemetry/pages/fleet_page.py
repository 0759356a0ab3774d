"""The fleet page, complete as it is when it is opened. Its buttons: `buttons`; what changes it: `telemetry.live`."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from fleet.models import Site
from fleet.people.access import at_sites, sites_of
from telemetry import snapshots
from telemetry.live import access, alarms, loading
from telemetry.live.board import Board
from telemetry.live.viewer import Viewer

MOST = 300  # cards, and missions, of the page itself; the socket brings all, in parts
STEER = {  # permission → class on <body> that shows its buttons
    "fleet.stop_robot": "can-stop",
    "fleet.release_robot": "can-release",
    "missions.pause_mission": "can-pause",
    "missions.resume_mission": "can-resume",
    "missions.cancel_mission": "can-cancel",
    "fleet.acknowledge_alert": "can-acknowledge",
}


@require_safe
@login_required
def fleet(request: HttpRequest) -> HttpResponse:
    """The live page, complete as it is now; the socket goes on from here."""
    if access.refusal(request.user):
        raise PermissionDenied
    sites = list(at_sites(request.user, Site.objects.all()))
    site = {str(site.pk): site.pk for site in sites}.get(request.GET.get("site", ""))
    view = access.view(sites_of(request.user), site)
    board, viewer = Board(), Viewer(view)
    board.viewers.add(viewer)
    found = loading.load(None)
    board.ended = loading.ended()
    board.put_alerts(alarms.load())
    board.open(found, snapshots.last_known(list(found.robots)), view, MOST)
    shown: dict[str, list[str]] = {"counts": [], "robots": [], "missions": [], "bell": [], "alerts": []}
    for _key, fragment in board.shown(view):  # the worst first
        shown[fragment.kind].append(fragment.html)
    context = {
        "sites": sites,
        "site": site,
        "where": next((s.name for s in sites if s.pk == site or len(sites) == 1), "all sites"),
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "body_class": " ".join(name for permission, name in STEER.items() if request.user.has_perm(permission)),
        # finished HTML of the templates that every push uses, autoescaped there
        **{kind: mark_safe("".join(html)) for kind, html in shown.items()},  # noqa: S308
        "rest": max(0, len(board.buckets) - MOST),
    }
    response = render(request, "fleet/page.html", context)
    response["Cache-Control"] = "no-store"
    return response
