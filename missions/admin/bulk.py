"""The same thing done to many rows of a list: asked once, naming them; done to each for itself; reported per row."""

from collections.abc import Callable, Sequence
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

from fleet.admin.once import key_of
from fleet.admin.seen import OUT_OF_DATE
from fleet.commit import Conflict
from fleet.history import Origin, by_user
from fleet.people import access
from fleet.refusals import Refused, in_words

MOST = 500  # at once
SEEN = "seen"  # hidden field: `<key>:<version>` of each row, as the question showed it


class Asked(NamedTuple):
    """Who asks, the text that goes with it, the version of this row that they saw, and the key of their wish."""

    by: Origin
    text: str
    version: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Bulk:
    """One line of the list's action menu. `run(row, asked)` returns what became of it, as a word or two.

    `versioned`: refused for what has changed since the question was shown.

    `will` says before what it does to each, `asks` names the text that goes with it, if any, and `needed` whether it must be given.
    """

    name: str
    label: str
    permission: str
    run: Callable[[Any, Asked], str]
    will: str
    asks: str = ""
    needed: bool = False
    danger: bool = False
    versioned: bool = False


class Chosen(NamedTuple):
    """The rows to be done, and how many more there are that are not."""

    rows: list[Any]
    left: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """A list's menu, and how its rows are chosen and shown.

    `choose(page, request, queryset)` raises `Refused` when it cannot be done for these. `site_of(rows)` returns the site
    of each by its key. `line(row)` links to it. `named`: so many lines of a report, the others are counted.
    """

    noun: str
    names: str
    bulks: Sequence[Bulk]
    changelist: str
    row_template: str
    choose: Callable[[Any, HttpRequest, Any], Chosen]
    site_of: Callable[[list[Any]], dict[Any, int | None]]
    line: Callable[[Any], SafeString]
    again: str = ""  # query of the list on which the answer comes: that what has changed meanwhile is reported too
    named: int = MOST

    def offered(self, user: Any) -> dict[str, tuple[Callable[..., Any], str, str]]:
        """Django's form of the actions that this person may use."""
        return {b.name: (self._asked, b.name, b.label) for b in self.bulks if user.has_perm(b.permission)}

    def _asked(self, page: Any, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        """First the question, which names what it touches; then, confirmed, the thing itself and a report."""
        bulk = next(b for b in self.bulks if b.name == request.POST["action"])
        if not request.user.has_perm(bulk.permission):  # type: ignore[union-attr]
            raise PermissionDenied
        try:
            chosen = self.choose(page, request, queryset)
        except Refused as refused:
            messages.error(request, str(refused))
            return None
        here, text = reverse(self.changelist), request.POST.get("text", "").strip()
        if "confirmed" in request.POST and (text or not bulk.needed):
            self._report(request, bulk, self._do(request, bulk, chosen.rows, text))
            return redirect(f"{here}?{request.POST.get('query', '')}")
        context = {
            **page.admin_site.each_context(request), "opts": page.opts, "title": bulk.label, "bulk": bulk, "flow": self,
            "chosen": chosen, "checkbox": ACTION_CHECKBOX_NAME, "missing": "confirmed" in request.POST, "here": here,
            "query": request.POST.get("query", request.GET.urlencode()),
        }  # fmt: skip
        return TemplateResponse(request, "admin/drover/bulk.html", context)

    def _do(self, request: HttpRequest, bulk: Bulk, rows: list[Any], text: str) -> list[tuple[Any, str, str]]:
        """Row, what became of it (“refused” too), and why it was refused."""
        done, by, key = [], by_user(request.user), key_of(request)
        seen, sites = _seen(request), self.site_of(rows)
        for row in rows:
            try:
                if not access.may(request.user, bulk.permission, sites.get(row.pk)):
                    raise Refused("You may not do this at its site.")
                if bulk.versioned and str(row.pk) not in seen:
                    raise Refused(OUT_OF_DATE)
                done.append((row, bulk.run(row, Asked(by, text, seen.get(str(row.pk)), key)), ""))
            except (Refused, Conflict) as error:
                done.append((row, "refused", in_words(error)))
        return done

    def _report(self, request: HttpRequest, bulk: Bulk, done: list[tuple[Any, str, str]]) -> None:
        counts: dict[str, int] = {}
        for _, word, _ in done:
            counts[word] = counts.get(word, 0) + 1
        summary = ", ".join(f"{n} {word}" for word, n in sorted(counts.items(), key=lambda c: c[0] == "refused"))
        first = sorted(done, key=lambda d: not d[2])[: self.named]
        said = ((self.line(row), f"{word}. {why}" if why else word) for row, word, why in first)
        lines = format_html_join("", "<li>{}: {}</li>", said)
        more = format_html("<li>and {} more</li>", len(done) - self.named) if len(done) > self.named else ""
        say = messages.warning if counts.get("refused") else messages.success
        say(
            request,
            format_html('{}: {}.<ul class="report">{}{}</ul>', bulk.label, summary or "none was left", lines, more),
        )


def _seen(request: HttpRequest) -> dict[str, int]:
    """Versions of the rows as the question showed them; in one field, as a form may have no more than 1,000."""
    pairs = (pair.partition(":") for pair in request.POST.get(SEEN, "").split())
    return {
        pk: int(version) for pk, _, version in pairs if version.isascii() and version.isdigit() and len(version) < 10
    }
