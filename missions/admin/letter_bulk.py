"""What can be done to many dead letters at once, or to all that are alike."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.models import Robot
from missions.admin.bulk import MOST, Bulk, Chosen, Flow
from missions.admin.letter_list import EACH, with_alike
from missions.letters.actions import discard_letter, requeue_letter
from missions.models import DeadLetter

BULKS = (
    Bulk("requeue", "Requeue", "missions.requeue_deadletter",
         lambda letter, asked: requeue_letter(letter.pk, by=asked.by),
         "Messages of robots are applied once more, in their robots' order; commands are sent again under their message ids."),
    Bulk("discard", "Discard", "missions.discard_deadletter",
         lambda letter, asked: discard_letter(letter.pk, by=asked.by, why=asked.text),
         "Nothing of them will be applied or sent. They stay in the list of discarded ones, with your reason.",
         asks="Why nothing is to be done about them", needed=True, danger=True),
)  # fmt: skip


def _choose(page: Any, request: HttpRequest, queryset: Any) -> Chosen:
    if request.GET.get(EACH) == EACH:
        rows, number = list(queryset.order_by("pk")[:MOST]), queryset.count()
    else:
        rows, number = with_alike(queryset, page.get_queryset(request), MOST)
    return Chosen(rows, number - len(rows))


def _sites(rows: list[DeadLetter]) -> dict[int, int | None]:
    of = dict(Robot.objects.filter(pk__in={r.robot_id for r in rows}).values_list("pk", "site_id"))
    return {letter.pk: of.get(letter.robot_id) for letter in rows}


def _line(letter: DeadLetter) -> SafeString:
    url = reverse("admin:missions_deadletter_change", args=[letter.pk])
    return format_html('<a href="{}" dir="auto">{}</a> <code class="id">{}</code>', url, letter, str(letter.msg_id)[:8])


LETTERS = Flow(
    "dead letter", "Dead letters", BULKS, "admin:missions_deadletter_changelist", "admin/drover/_bulk_letter.html", _choose,
    _sites, _line, again=f"{EACH}={EACH}&state=all", named=100,
)  # fmt: skip
