"""The buttons of the fleet page: each a POST that checks the permission again and calls an action."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from fleet.alerts import actions as alerts
from fleet.commit import Conflict
from fleet.history import Origin, by_user
from fleet.models import Alert, Robot, Site
from fleet.people.access import at_sites
from fleet.refusals import Refused
from fleet.robots import stopping
from missions import actions as missions
from missions.models import Mission
from telemetry.pages.answers import answer

log = logging.getLogger(__name__)


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
        return answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    try:
        if not at_sites(request.user, model._default_manager.filter(pk=target)).exists():
            name = model._meta.verbose_name
            return answer(request, 404, f"There is no {name} {target} at your sites. Look at the page again.")
        if not request.user.has_perm(verb.permission):
            return answer(request, 403, "Your role does not allow this. Ask an admin if it should.")
        outcome = verb.run(target, by_user(request.user), request)
    except Refused as refused:
        return answer(request, 409, str(refused))
    except Conflict:
        return answer(request, 409, "Somebody changed it at the same moment. Press it again.")
    except DatabaseError as error:
        log.warning("%s could not be done, the database does not answer, or takes no writes: %s", request.path, error)
        return answer(
            request, 503, "Not done: the database does not answer, or takes no writes. Press it again in a moment."
        )
    return answer(request, 200, verb.done.format(outcome if isinstance(outcome, str) else target))


@require_POST
def robots_action(request: HttpRequest, verb: str) -> HttpResponse:
    """The same for many: those named, or everyone at a site (`?site=3`), or at all of the person's sites (`?site=all`)."""
    if not request.user.is_authenticated:
        return answer(request, 401, "You are signed out. Sign in again, then repeat it.")
    many = MANY_VERBS[verb]
    if not request.user.has_perm(many.permission):
        return answer(request, 403, "Your role does not allow this. Ask an admin if it should.")
    try:
        ids, unknown = _chosen(request)
        if unknown:
            return answer(request, 404, unknown)
        said = many.run(ids, by_user(request.user), request)
    except Refused as refused:
        return answer(request, 409, str(refused))
    except DatabaseError as error:
        log.warning("%s could not be done, the database does not answer, or takes no writes: %s", request.path, error)
        return answer(
            request, 503, "Not done, or not for all: the database does not answer, or takes no writes. Press it again."
        )
    done = [robot for robot, word in said.items() if word == many.word]
    wrong = [word for word in said.values() if word.endswith(".")]
    text = many.done.format(f"{len(done)} robot{'' if len(done) == 1 else 's'}") if done else many.nothing
    return answer(request, 200, " ".join([text if done or not wrong else "", *wrong[:3]]).strip(), robots=said)


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
