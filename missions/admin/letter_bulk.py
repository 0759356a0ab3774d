"""Many dead letters at once: asked once, naming what it touches; done to each for itself; reported per letter."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
from fleet.models import Robot
from fleet.people import access
from fleet.refusals import Refused, in_words
from missions.admin.letter_list import EACH, with_alike
from missions.letters.actions import discard_letter, requeue_letter
from missions.models import DeadLetter

MOST = 500  # at once
NAMED = 100  # in a report; the others are counted


@dataclass(frozen=True, slots=True)
class Bulk:
    """One line of the list's action menu. `run(letter, by, why)` returns what became of it, as a word or two."""

    name: str
    label: str
    permission: str
    run: Callable[[DeadLetter, Origin, str], str]
    will: str
    asks: str = ""
    danger: bool = False


BULK = {
    b.name: b
    for b in (
        Bulk("requeue", "Requeue", "missions.requeue_deadletter",
             lambda letter, by, why: requeue_letter(letter.pk, by=by),
             "Messages of robots are applied once more, in their robots' order; commands are sent again under their message ids."),
        Bulk("discard", "Discard", "missions.discard_deadletter",
             lambda letter, by, why: discard_letter(letter.pk, by=by, why=why),
             "Nothing of them will be applied or sent. They stay in the list of discarded ones, with your reason.",
             asks="Why nothing is to be done about them", danger=True),
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
    if request.GET.get(EACH) == EACH:
        rows, number = list(queryset.order_by("pk")[:MOST]), queryset.count()
    else:
        rows, number = with_alike(queryset, page.get_queryset(request), MOST)
    here = reverse("admin:missions_deadletter_changelist")
    why = request.POST.get("text", "").strip()
    if "confirmed" in request.POST and (why or not bulk.asks):
        _report(request, bulk, _do(request, bulk, rows, why))
        return redirect(f"{here}?{request.POST.get('query', '')}")
    context = {
        **page.admin_site.each_context(request), "opts": page.opts, "title": bulk.label, "bulk": bulk, "rows": rows,
        "checkbox": ACTION_CHECKBOX_NAME, "missing": "confirmed" in request.POST, "here": here, "left": number - len(rows),
        "query": request.POST.get("query", request.GET.urlencode()), "each": EACH,
    }  # fmt: skip
    return TemplateResponse(request, "admin/drover/letter_bulk.html", context)


def _do(request: HttpRequest, bulk: Bulk, rows: Iterable[DeadLetter], why: str) -> list[tuple[DeadLetter, str, str]]:
    """Letter, what became of it (“refused” too), and why it was refused."""
    rows = list(rows)
    sites = dict(Robot.objects.filter(pk__in={r.robot_id for r in rows}).values_list("pk", "site_id"))
    done, by = [], by_user(request.user)
    for letter in rows:
        try:
            if not access.may(request.user, bulk.permission, sites.get(letter.robot_id)):
                raise Refused("You may not do this at its site.")
            done.append((letter, bulk.run(letter, by, why), ""))
        except (Refused, Conflict) as error:
            done.append((letter, "refused", in_words(error)))
    return done


def _report(request: HttpRequest, bulk: Bulk, done: list[tuple[DeadLetter, str, str]]) -> None:
    counts: dict[str, int] = {}
    for _, word, _ in done:
        counts[word] = counts.get(word, 0) + 1
    summary = ", ".join(f"{n} {word}" for word, n in sorted(counts.items(), key=lambda c: c[0] == "refused"))
    first = sorted(done, key=lambda d: not d[2])
    lines = format_html_join("", "<li>{}</li>", ((_line(*one),) for one in first[:NAMED]))
    more = format_html("<li>and {} more</li>", len(done) - NAMED) if len(done) > NAMED else ""
    say = messages.warning if counts.get("refused") else messages.success
    say(
        request, format_html('{}: {}.<ul class="report">{}{}</ul>', bulk.label, summary or "none was left", lines, more)
    )


def _line(letter: DeadLetter, word: str, why: str) -> SafeString:
    url = reverse("admin:missions_deadletter_change", args=[letter.pk])
    said = f"{word}. {why}" if why else word
    return format_html('<a href="{}" dir="auto">{}</a> <code class="id">{}</code>: {}', url, letter, str(letter.msg_id)[:8], said)  # fmt: skip
