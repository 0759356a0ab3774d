"""The fleet page, and the buttons on its cards: each a POST that checks the permission again and calls an action."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_POST, require_safe

from fleet.alerts import actions as alerts
from fleet.commit import Conflict
from fleet.history import Origin, by_user
from fleet.models import Alert, Robot, Site
from fleet.people.access import at_sites, sites_of
from fleet.refusals import Refused
from fleet.robots import stopping
from missions import actions as missions
from missions.models import Mission
from telemetry import snapshots
from telemetry.live import access, alarms, loading
from telemetry.live.board import Board
from telemetry.live.viewer import Viewer

log = logging.getLogger(__name__)
MOST = 300  # cards, and missions, of the page itself; the socket brings all, in parts
STEER = {  # permission → class on <body> that shows its buttons
    "fleet.stop_robot": "can-stop",
    "fleet.release_robot": "can-release",
    "missions.pause_mission": "can-pause",
    "missions.resume_mission": "can-resume",
    "missions.cancel_mission": "can-cancel",
    "fleet.acknowledge_alert": "can-acknowledge",
}


class Verb(NamedTuple):
    """A button: who may press it, what it does, what is said when it is done."""

    permission: str
    run: Callable[[Any, Origin, HttpRequest], Any]
    done: str


def _number(request: HttpRequest, name: str) -> int | None:
    """A number of the address. None when it has none; refused when it is no number, for that must not mean "any"."""
    value = request.GET.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise Refused(f"This address is damaged: {name} is no number. Look at the page again, then repeat.")
    return int(value)


def _release(robot_id: str, by: Origin, request: HttpRequest) -> str:
    if stopping.release_robot(robot_id, number=_number(request, "hold"), by=by):
        return f"{robot_id} is released."
    return f"There was no such hold on {robot_id}: somebody released it before."


ROBOT_VERBS = {
    "stop": Verb(
        "fleet.stop_robot",
        lambda robot, by, request: stopping.stop_robot(robot, by=by, why=request.POST.get("why", "")),
        "Stopping {}.",
    ),
    "release": Verb(
        "fleet.release_robot",
        _release,
        "{}",
    ),
}
MISSION_VERBS = {
    "cancel": Verb(
        "missions.cancel_mission",
        lambda mission, by, request: missions.cancel_mission(mission, by=by, reason=request.POST.get("reason", "")),
        "Cancel: {}.",
    ),
    "pause": Verb(
        "missions.pause_mission", lambda mission, by, request: missions.pause_mission(mission, by=by), "Pausing."
    ),
    "resume": Verb(
        "missions.resume_mission",
        lambda mission, by, request: missions.resume_mission(mission, by=by, version=_number(request, "version")),
        "Resuming.",
    ),
}


ALERT_VERBS = {
    "acknowledge": Verb("fleet.acknowledge_alert", lambda alert, by, request: alerts.acknowledge(alert, by=by), "{}"),
}


class ManyVerb(NamedTuple):
    """A button for many robots: `run` gives a word per robot, `word` is the one for done, `done` says how many."""

    permission: str
    run: Callable[[list[str], Origin, HttpRequest], dict[str, str]]
    word: str
    done: str
    nothing: str


MANY_VERBS = {
    "stop": ManyVerb(
        "fleet.stop_robot",
        lambda ids, by, request: stopping.stop_robots(ids, by=by, why=request.POST.get("why", "")),
        "stopping", "Stopping {}.", "There is no robot to stop here.",
    ),
    "release": ManyVerb(
        "fleet.release_robot", lambda ids, by, request: stopping.release_robots(ids, by=by),
        "released", "Released {}.", "There was no stop to release: somebody released it before.",
    ),
    "explain": ManyVerb(
        "fleet.stop_robot",
        lambda ids, by, request: stopping.explain_stops(ids, by=by, why=request.POST.get("why", "")),
        "explained", "The reason is kept with {}.", "Nothing to add: none of them is stopped, or the reason is kept already.",
    ),
}  # fmt: skip


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
    board.put(board.take(), found, snapshots.last_known(list(found.robots)), 0.0)
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
        **{kind: mark_safe("".join(html[:MOST])) for kind, html in shown.items()},  # noqa: S308
        "rest": max(0, len(shown["robots"]) - MOST),
    }
    response = render(request, "fleet/page.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def robot_action(request: HttpRequest, robot_id: str, verb: str) -> HttpResponse:
    return _act(request, ROBOT_VERBS[verb], Robot, robot_id)


@require_POST
def mission_action(request: HttpRequest, mission_id: UUID, verb: str) -> HttpResponse:
    return _act(request, MISSION_VERBS[verb], Mission, mission_id)


@require_POST
def alert_action(request: HttpRequest, alert_id: int, verb: str) -> HttpResponse:
    return _act(request, ALERT_VERBS[verb], Alert, alert_id)


def _act(request: HttpRequest, verb: Verb, model: type[Model], target: Any) -> HttpResponse:
    """Do it and say so: JSON to a script, a message and the page again to a plain form."""
    if not request.user.is_authenticated:
        return _answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    try:
        if not at_sites(request.user, model._default_manager.filter(pk=target)).exists():
            name = model._meta.verbose_name
            return _answer(request, 404, f"There is no {name} {target} at your sites. Look at the page again.")
        if not request.user.has_perm(verb.permission):
            return _answer(request, 403, "Your role does not allow this. Ask an admin if it should.")
        outcome = verb.run(target, by_user(request.user), request)
    except Refused as refused:
        return _answer(request, 409, str(refused))
    except Conflict:
        return _answer(request, 409, "Somebody changed it at the same moment. Press it again.")
    except DatabaseError as error:
        log.warning("%s could not be done, the database does not answer, or takes no writes: %s", request.path, error)
        return _answer(
            request, 503, "Not done: the database does not answer, or takes no writes. Press it again in a moment."
        )
    return _answer(request, 200, verb.done.format(outcome if isinstance(outcome, str) else target))


@require_POST
def robots_action(request: HttpRequest, verb: str) -> HttpResponse:
    """The same for many: those named, or everyone at a site (`?site=3`), or at all of the person's sites (`?site=all`)."""
    if not request.user.is_authenticated:
        return _answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    many = MANY_VERBS[verb]
    if not request.user.has_perm(many.permission):
        return _answer(request, 403, "Your role does not allow this. Ask an admin if it should.")
    try:
        ids, unknown = _chosen(request)
        if unknown:
            return _answer(request, 404, unknown)
        said = many.run(ids, by_user(request.user), request)
    except Refused as refused:
        return _answer(request, 409, str(refused))
    except DatabaseError as error:
        log.warning("%s could not be done, the database does not answer, or takes no writes: %s", request.path, error)
        return _answer(
            request, 503, "Not done, or not for all: the database does not answer, or takes no writes. Press it again."
        )
    done = [robot for robot, word in said.items() if word == many.word]
    wrong = [word for word in said.values() if word.endswith(".")]
    text = many.done.format(f"{len(done)} robot{'' if len(done) == 1 else 's'}") if done else many.nothing
    return _answer(request, 200, " ".join([text if done or not wrong else "", *wrong[:3]]).strip(), robots=said)


def _chosen(request: HttpRequest) -> tuple[list[str], str]:
    """Robots that the person may see, and, when something else was named, that it is not there."""
    visible = at_sites(request.user, Robot.objects.all())
    if "site" not in request.GET:
        named = list(dict.fromkeys(request.POST.get("robots", "").split()))
        found = set(visible.filter(pk__in=[name for name in named if "\0" not in name]).values_list("pk", flat=True))
        unknown = next((robot[:64] for robot in named if robot not in found), "")
        return named, f"There is no robot {unknown} at your sites. Look at the page again." if unknown else ""
    visible = visible.filter(retired_at=None)
    if request.GET["site"] != "all":
        site = _number(request, "site") or 0
        if not at_sites(request.user, Site.objects.filter(pk=site)).exists():
            return [], "There is no such site among yours. Look at the page again."
        visible = visible.filter(site=site)
    return list(visible.values_list("pk", flat=True)), ""


def not_understood(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """A request that is damaged. Django's own page reads the form once more, fails at it again, and has no answer."""
    return HttpResponse("This request is not understood.", status=400, content_type="text/plain; charset=utf-8")


not_understood.csrf_exempt = True  # type: ignore[attr-defined]


def not_this_page(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's token is not ours: settings.CSRF_FAILURE_VIEW."""
    if request.path in (
        reverse("login"),
        reverse("logout"),
    ):  # of a tab that was open before somebody signed in elsewhere
        return redirect(request.get_full_path() if request.path == reverse("login") else "login")
    if not request.user.is_authenticated:
        return _answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    log.info("%s refused: %s", request.path, reason)
    return _answer(request, 403, "Not done: this page is out of date. Load it again, then repeat it.")


def _answer(request: HttpRequest, status: int, text: str, **more: Any) -> HttpResponse:
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse({"text": text, **more}, status=status)
    if status in (401, 403, 404):
        return render(request, "refused.html", {"text": text, "signed_out": status == 401}, status=status)
    messages.add_message(request, messages.INFO if status == 200 else messages.ERROR, text)
    return redirect("fleet")
