"""The list of robots: which of them need me? State in words, battery, mission, hold, last heard; daily filters as links."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest
from django.utils import timezone

from fleet.admin.daily import DailyFilter, DailyList, Questions
from fleet.admin.filters import RetiredFilter
from fleet.models import Hold, HoldKind, Mode, Presence, Robot
from fleet.ports import live, work
from fleet.robots.wording import MODES, PRESENCES

_OPEN_HOLD = Hold.objects.filter(robot=OuterRef("pk"), released_at=None)
HELD = Exists(_OPEN_HOLD)
SERVICED = Exists(_OPEN_HOLD.filter(kind=HoldKind.MAINTENANCE))
HALTED = Exists(_OPEN_HOLD.exclude(kind=HoldKind.MAINTENANCE))
AT_WORK = Exists(
    Robot.objects.filter(pk=OuterRef("pk"), missions__dispatched_at__isnull=False, missions__ended_at=None)
)
AWAY = Q(presence=Presence.OFFLINE)

QUESTIONS: Questions = {  # value of ?held=
    name: (label, condition & Q(retired_at=None))
    for name, label, condition in (
        ("need", "Need someone", Q(HALTED) | ~Q(fault="") | Q(AWAY & Q(AT_WORK)) | Q(mode=Mode.MANUAL)),
        ("work", "At work", Q(AT_WORK)),
        ("no", "Free", ~Q(HELD) & ~Q(AT_WORK) & Q(fault="", presence=Presence.ONLINE)),
        ("maintenance", "Maintenance", Q(SERVICED)),
        ("yes", "On hold", Q(HELD)),
        ("fault", "Fault", ~Q(fault="")),
        ("away", "Offline", AWAY),
    )
}


class HeldFilter(DailyFilter):
    parameter_name = "held"

    def questions(self) -> Questions:
        return QUESTIONS


class SaidFilter(admin.ChoicesFieldListFilter):
    """What robots say and what we know of their links, in the words of all pages."""

    def choices(self, changelist: Any) -> Any:
        words = {"mode": MODES, "presence": PRESENCES}[self.field.name]
        said = {str(label): words[value].word for value, label in self.field.flatchoices}
        for choice in super().choices(changelist):
            label, bracket, count = str(choice["display"]).partition(" (")
            yield {**choice, "display": f"{said.get(label, label)}{bracket}{count}"}


class ServiceFilter(RetiredFilter):
    title = parameter_name = "service"
    usual, retired = "In service", "Retired"


class RobotChangeList(DailyList):
    """Rows of one page know their live facts and what they are at: one look each, not one per robot."""

    anew = ("service", "mode__exact", "presence__exact")

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        ids = [row.pk for row in rows]
        facts, works = live.facts(ids), work.current(ids) if request.user.has_perm("missions.view_mission") else {}
        now = timezone.now()
        for row in rows:
            row.live, row.work, row.looked_at = facts.get(row.pk), works.get(row.pk), now
        self.result_list = rows  # type: ignore[assignment]


def clock_words(facts: live.Facts | None) -> str:
    """Its clock beside ours, to the second; half a second is the way that the message took."""
    if facts is None or facts.skew_s is None:
        return "–"
    off = round(facts.skew_s)
    return f"{abs(off):,} s {'ahead' if off > 0 else 'behind'}" if off else "right"


def battery_words(facts: live.Facts | None) -> str:
    return f"{facts.battery:.0f} %" if facts is not None and facts.battery is not None else ""


def heard_at(robot: Any, facts: live.Facts | None) -> datetime | None:
    """When it was last heard, as far as is known: telemetry, or when its link was judged gone."""
    if facts is not None:
        return facts.received_at
    return robot.presence_since if robot.presence in (Presence.OFFLINE, Presence.SUSPECT) else None
