"""Dead letters: what could not be applied or delivered, looked at, requeued or discarded by a person."""

import json
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from fleet.admin.buttons import Button
from fleet.admin.pages import PageAdmin
from fleet.admin.records import PAGES, as_text
from fleet.admin.timeline import stamp, timeline
from fleet.history import by_user
from fleet.models import Robot
from fleet.people.access import EVERY_SITE, at_sites, sites_of
from fleet.wording import ago
from missions.admin import letter_list as lists
from missions.admin.letter_bulk import LETTERS
from missions.letters import actions as letter_actions
from missions.letters.wording import next_step, outcome, said
from missions.models import UNDECIDED, DeadLetter, Direction, LetterState, Mission

PAGES["letter"] = DeadLetter


def _requeue(request: HttpRequest, letter: DeadLetter) -> str:
    said = letter_actions.requeue_letter(letter.pk, by=by_user(request.user))
    if said == "requeued":
        return "Requeued. What becomes of it is shown on this page."
    return f"It is {said}: once is enough. What became of it is shown on this page."


def _discard(request: HttpRequest, letter: DeadLetter) -> str:
    letter_actions.discard_letter(letter.pk, by=by_user(request.user), why=request.POST.get("reason", ""))
    return "Discarded. It stays in the list of discarded letters, with the reason."


@admin.register(DeadLetter)
class DeadLetterAdmin(PageAdmin):
    many = "dead letters"
    page_template = "admin/drover/letter.html"
    change_list_template = "admin/drover/dead_letter_list.html"
    list_display = ("since", "what", "direction", "robot", "why", "how_many", "stands", "tries")
    list_display_links = ("since", "what")
    list_filter = (
        lists.StateFilter, lists.EachFilter, "direction", lists.SiteFilter, lists.RobotFilter, lists.KindFilter,
        lists.ReasonFilter, lists.AgeFilter,
    )  # fmt: skip
    search_fields = ("robot_id", "kind", "reason", "=msg_id", "result", "discarded_why")
    search_help_text = "Robot id, kind, words of the reason, or a message id in full"
    ordering = ("-created_at", "-id")
    buttons = (
        Button(
            "requeue", "Requeue", "missions.requeue_deadletter", _requeue, look="primary",
            shown=lambda d: d.state in UNDECIDED and bool(d.body),
        ),
        Button(
            "discard", "Discard…", "missions.discard_deadletter", _discard, shown=lambda d: d.state in UNDECIDED,
            asks="Why nothing is to be done about it", yes="Discard this letter",
            confirm="Nothing of it will be applied or sent. It stays in the list of discarded letters.",
        ),
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return LETTERS.offered(request.user)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[lists.LetterList]:
        return lists.LetterList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        more = {"any_letters": self.get_queryset(request).exists()}
        return super().changelist_view(request, more | (extra_context or {}))

    # list

    @admin.display(description="since", ordering="created_at")
    def since(self, letter: Any) -> SafeString | str:
        return stamp(letter.oldest_at)

    @admin.display(description="kind", ordering="kind")
    def what(self, letter: DeadLetter) -> str:
        return letter.kind or "message"

    @admin.display(description="robot", ordering="robot_id")
    def robot(self, letter: DeadLetter) -> SafeString:
        return format_html('<code class="id nowrap">{}</code>', letter.robot_id)

    @admin.display(description="why")
    def why(self, letter: Any) -> str:
        return str(Truncator(letter.reason if letter.alike_n == 1 else letter.reason_group).chars(200))

    @admin.display(description="alike")
    def how_many(self, letter: Any) -> SafeString:
        if letter.alike_n == 1:
            return format_html('<span class="num">{}</span>', 1)
        return format_html('<a class="num nowrap" href="{}">{} alike</a>', lists.alike_url(letter), letter.alike_n)

    @admin.display(description="state", ordering="state")
    def stands(self, letter: DeadLetter) -> SafeString:
        s = said(letter)
        return format_html('<span class="said {}"><i>{}</i> {}</span>', s.token, s.shape, s.word)

    # page

    def offer(self, request: HttpRequest, row: Any) -> list[Button]:
        pointless = row.state in UNDECIDED and bool(letter_actions.why_not_requeued(row))
        return [b for b in super().offer(request, row) if not (pointless and b.verb == "requeue")]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = timezone.now()
        robot = at_sites(request.user, Robot.objects.filter(pk=row.robot_id)).first()
        mission = _mission(request, row)
        alike = self.get_queryset(request).filter(**{name: getattr(row, name) for name in lists.ALIKE}).count()
        events = timeline(f"letter:{row.pk}", request.user, everybodys=sites_of(request.user) is EVERY_SITE)
        return {
            "follows": row.state == LetterState.REQUEUED and row.direction == Direction.IN,
            "why_not": letter_actions.why_not_requeued(row) if row.state in UNDECIDED else "",
            "s": said(row), "next_step": next_step(row), "outcome": outcome(row), "body": as_text(row.body),
            "since": stamp(row.created_at), "since_ago": ago(row.created_at, now), "settled": stamp(row.settled_at),
            "robot": robot, "robot_url": reverse("admin:fleet_robot_change", args=[quote(row.robot_id)]) if robot else "",
            "mission": mission, "alike": alike, "alike_url": lists.alike_url(row), **events,
        }  # fmt: skip


def _mission(request: HttpRequest, letter: DeadLetter) -> Mission | None:
    """That the message names, if it can be read and the person may see it."""
    with suppress(ValueError, TypeError, LookupError, RecursionError, AttributeError):
        named = UUID(json.loads(letter.body)["mission"])
        return at_sites(request.user, Mission.objects.filter(pk=named)).first()
    return None
