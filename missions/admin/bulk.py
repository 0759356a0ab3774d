"""The same thing done to many missions: asked once, naming them; done to each in its own transaction; reported per mission."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fleet.commit import Conflict
from fleet.history import Origin, by_user
from fleet.people import access
from fleet.refusals import Refused, in_words
from missions import actions
from missions.admin.mission_buttons import RANGE, number_of
from missions.admin.once import key_of
from missions.models import Mission
from missions.wording import ending

MOST = 500  # at once
SEEN = "seen"  # hidden field: `<mission>:<version>` of each, as the question showed it


class Asked(NamedTuple):
    """Who asks, the text that goes with it, the version of this mission that they saw, and the key of their wish."""

    by: Origin
    text: str
    version: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Bulk:
    """One line of the list's action menu. `run(mission, asked)` returns what became of it, as a word or two.

    `will` says before what it does to each, `asks` names the text that goes with it, if any, and `needed` whether it must be given.
    """

    name: str
    label: str
    permission: str
    run: Callable[[Mission, Asked], str]
    will: str
    asks: str = ""
    needed: bool = False
    danger: bool = False


def _run(mission: Mission, asked: Asked) -> str:
    said = actions.queue_mission(mission.pk, by=asked.by)
    return "waiting" if said.startswith("waits") else "dispatched"


def _approve(mission: Mission, asked: Asked) -> str:
    actions.approve_mission(mission.pk, by=asked.by, version=asked.version)
    return "approved"


def _withdraw(mission: Mission, asked: Asked) -> str:
    actions.withdraw_mission(mission.pk, by=asked.by)
    return "out of the queue"


def _pause(mission: Mission, asked: Asked) -> str:
    actions.pause_mission(mission.pk, by=asked.by)
    return "asked to pause"


def _resume(mission: Mission, asked: Asked) -> str:
    actions.resume_mission(mission.pk, by=asked.by)
    return "asked to resume"


def _priority(mission: Mission, asked: Asked) -> str:
    actions.set_priority(mission.pk, priority=number_of(asked.text), by=asked.by)
    return "moved in the queue"


def _rerun(mission: Mission, asked: Asked) -> str:
    try:
        actions.rerun_mission(mission.pk, by=asked.by, key=asked.key)
    except actions.DrawnUp:
        return "drawn up again already"
    return "drawn up again"


def _cancel(mission: Mission, asked: Asked) -> str:
    said = actions.cancel_mission(mission.pk, by=asked.by, reason=asked.text)
    return {"aborted": "cancelled", "already ended": f"had ended ({ending(mission).lower()})"}.get(said, said)


BULK = {
    b.name: b
    for b in (
        Bulk("run", "Run", "missions.dispatch_mission", _run,
             "Each is given to its robot, or to the best that can, as soon as one is free."),
        Bulk("approve", "Approve", "missions.approve_mission", _approve, "Each may be run then. It moves nothing yet."),
        Bulk("withdraw", "Take out of the queue", "missions.dispatch_mission", _withdraw,
             "Each stays as it was drawn up and can be run again later."),
        Bulk("pause", "Pause", "missions.pause_mission", _pause, "Each robot is asked to pause, and says when it has."),
        Bulk("resume", "Resume", "missions.resume_mission", _resume, "Each robot is asked to go on."),
        Bulk("priority", "Set priority", "missions.change_mission", _priority, "The higher goes first; of equals, the older.",
             asks=f"Priority, {RANGE}", needed=True),
        Bulk("rerun", "Rerun all steps", "missions.add_mission", _rerun,
             "For each that has ended a new mission with all of its steps is drawn up. It moves nothing until it is run."),
        Bulk("cancel", "Cancel", "missions.cancel_mission", _cancel,
             "The robots that have them are stopped first; then they end for good and cannot be revived.",
             asks="Reason", danger=True),
    )
}  # fmt: skip


def offered(user: Any) -> dict[str, tuple[Callable[..., Any], str, str]]:
    """Django's form of the actions that this person may use."""
    return {b.name: (_asked, b.name, b.label) for b in BULK.values() if user.has_perm(b.permission)}


def _asked(page: Any, request: HttpRequest, queryset: Any) -> HttpResponse | None:
    """First the question, which names what it touches; then, confirmed, the thing itself and a report."""
    bulk = BULK[request.POST["action"]]
    if not request.user.has_perm(bulk.permission):
        raise PermissionDenied
    rows = list(queryset.select_related("robot")[: MOST + 1])
    if len(rows) > MOST:
        messages.error(request, f"At most {MOST} missions at once. Choose fewer.")
        return None
    here = reverse("admin:missions_mission_changelist")  # without filters: what has changed meanwhile is reported too
    text = request.POST.get("text", "").strip()
    if "confirmed" in request.POST and (text or not bulk.needed):
        _report(request, bulk, _do(request, bulk, rows, text))
        return redirect(f"{here}?{request.POST.get('query', '')}")
    context = {
        **page.admin_site.each_context(request), "opts": page.opts, "title": bulk.label, "bulk": bulk, "rows": rows,
        "checkbox": ACTION_CHECKBOX_NAME, "missing": "confirmed" in request.POST, "here": here,
        "query": request.POST.get("query", request.GET.urlencode()),
    }  # fmt: skip
    return TemplateResponse(request, "admin/drover/mission_bulk.html", context)


def _do(request: HttpRequest, bulk: Bulk, rows: Iterable[Mission], text: str) -> list[tuple[Mission, str, str]]:
    """Mission, what became of it (“refused” too), and why it was refused."""
    done, by, key = [], by_user(request.user), key_of(request)
    seen = _seen(request)
    for mission in rows:
        try:
            if not access.may(request.user, bulk.permission, mission.site_id):
                raise Refused("You may not do this at its site.")
            asked = Asked(by, text, seen.get(str(mission.pk)), key)
            done.append((mission, bulk.run(mission, asked), ""))
        except (Refused, Conflict) as error:
            done.append((mission, "refused", in_words(error)))
    return done


def _seen(request: HttpRequest) -> dict[str, int]:
    """Versions of the missions as the question showed them; in one field, as a form may have no more than 1,000."""
    pairs = (pair.partition(":") for pair in request.POST.get(SEEN, "").split())
    return {
        pk: int(version) for pk, _, version in pairs if version.isascii() and version.isdigit() and len(version) < 10
    }


def _report(request: HttpRequest, bulk: Bulk, done: list[tuple[Mission, str, str]]) -> None:
    counts: dict[str, int] = {}
    for _, word, _ in done:
        counts[word] = counts.get(word, 0) + 1
    refused = counts.pop("refused", 0)
    summary = ", ".join([*(f"{n} {word}" for word, n in counts.items()), *([f"{refused} refused"] if refused else [])])
    lines = format_html_join("", "<li>{}</li>", ((_line(*one),) for one in sorted(done, key=lambda d: not d[2])))
    say = messages.warning if refused else messages.success
    say(request, format_html('{}: {}.<ul class="report">{}</ul>', bulk.label, summary, lines))


def _line(mission: Mission, word: str, why: str) -> SafeString:
    url = reverse("admin:missions_mission_change", args=[mission.pk])
    return format_html('“<a href="{}" dir="auto">{}</a>”: {}', url, mission.title, f"{word}. {why}" if why else word)
