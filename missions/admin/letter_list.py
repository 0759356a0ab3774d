"""The list of dead letters: what is alike is one line with a count, so that a robot that sends thousands buries nothing."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count, Max, Min, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator

from fleet.admin.filters import UsualFilter
from fleet.models import Robot, Site
from fleet.people.access import at_sites
from missions.models import UNDECIDED, DeadLetter, LetterState

ALIKE = ("direction", "robot_id", "kind", "reason_group", "state")
EACH = "each"
OFFERED = 30  # values of a filter, the most frequent first
AGES = (("1h", "Last hour", timedelta(hours=1)), ("24h", "Last 24 hours", timedelta(days=1)), ("7d", "Last 7 days", timedelta(days=7)))  # fmt: skip


class StateFilter(UsualFilter):
    title = parameter_name = "state"
    usual = "Open or failed again"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*LetterState.choices, ("all", "All")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        if self.value() == "all":
            return queryset
        return queryset.filter(state=self.value()) if self.value() else queryset.filter(state__in=UNDECIDED)


class EachFilter(UsualFilter):
    """Carried out by `LetterList`, after all other filters."""

    title, parameter_name = "lines", EACH
    usual = "What is alike together"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(EACH, "Each letter")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        return queryset


class AgeFilter(admin.SimpleListFilter):
    title = parameter_name = "age"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, label) for name, label, _ in AGES] + [("older", "Older than 7 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        now = timezone.now()
        if self.value() == "older":
            return queryset.filter(created_at__lt=now - AGES[-1][2])
        since = {name: span for name, _, span in AGES}.get(self.value() or "")
        return queryset.filter(created_at__gte=now - since) if since else queryset


class SiteFilter(admin.SimpleListFilter):
    title = parameter_name = "site"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in at_sites(request.user, Site.objects.all()).values_list("pk", "name")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        value = self.value() or ""
        if not (value.isascii() and value.isdigit() and len(value) < 19):
            return queryset.none() if value else queryset
        return queryset.filter(robot_id__in=Robot.objects.filter(site=int(value)).values("pk"))


class _Values(admin.SimpleListFilter):
    """Values of one column that letters of the person's sites have, the most frequent first."""

    column = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        seen = at_sites(request.user, DeadLetter.objects.order_by()).values_list(self.column)
        return [
            (value, Truncator(value).chars(80))
            for value, _ in seen.annotate(n=Count("pk")).order_by("-n", self.column)[:OFFERED]
            if value
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class RobotFilter(_Values):
    title = parameter_name = "robot"
    column = "robot_id"


class KindFilter(_Values):
    title = parameter_name = "kind"
    column = "kind"


class ReasonFilter(_Values):
    title, parameter_name = "reason", "why"
    column = "reason_group"


class LetterList(ChangeList):
    """One line for what is alike, the newest of them, unless each letter is asked for."""

    grouped = True
    says_count = ""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[DeadLetter]:
        found = super().get_queryset(request, exclude_parameters)
        self.grouped = request.GET.get(EACH) != EACH
        self.groups = (
            found.order_by().values(*ALIKE).annotate(newest=Max("pk"), n=Count("pk"), oldest=Min("created_at"))
        )
        self.letters = found
        return found.filter(pk__in=self.groups.values("newest")) if self.grouped else found

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        letters = self.letters.count() if self.grouped else self.result_count
        if letters != self.result_count:  # the start page and the alerts count letters
            lines = f"{self.result_count} line{'' if self.result_count == 1 else 's'}"
            self.says_count = f"{letters} letters in {lines}"
        self.result_list = list(self.result_list)
        shown = [letter.pk for letter in self.result_list] if self.grouped else []
        groups = {group["newest"]: group for group in self.groups.filter(newest__in=shown)} if shown else {}
        for letter in self.result_list:
            group = groups.get(letter.pk)
            letter.alike_n = group["n"] if group else 1
            letter.oldest_at = group["oldest"] if group else letter.created_at


def alike_url(letter: DeadLetter) -> str:
    """The list of those that are like this one, each by itself."""
    query = {"robot": letter.robot_id, "kind": letter.kind, "why": letter.reason_group}
    return "?" + urlencode({EACH: EACH, **{k: v for k, v in query.items() if v}, "state": letter.state})


def with_alike(letters: QuerySet[DeadLetter], seen: QuerySet[DeadLetter], most: int) -> tuple[list[DeadLetter], int]:
    """The letters chosen and all that are like them, the oldest first and at most so many; how many there are."""
    wanted = Q(pk__in=[])
    for row in letters.order_by().values(*ALIKE).distinct():
        wanted |= Q(**row)
    found = seen.filter(wanted)
    return list(found.order_by("pk")[:most]), found.count()
