"""The links above a list: what people ask of it every day, each with how many rows it shows."""

from copy import copy
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

Questions = dict[str, tuple[str, Q]]  # value in the address → label and condition


class Link(NamedTuple):
    name: str
    label: str
    count: int
    chosen: bool
    address: str


def counted(rows: QuerySet[Any], questions: Questions) -> dict[str, int]:
    """How many rows each question finds. One query."""
    return rows.order_by().aggregate(**{name: Count("pk", filter=where) for name, (_, where) in questions.items()})


class DailyFilter(admin.SimpleListFilter):
    """Drawn above the list, and not once more among the other filters."""

    title = "what"
    template = "admin/drover/_nothing.html"

    def questions(self) -> Questions:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, label) for name, (label, _) in self.questions().items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        _, condition = self.questions().get(self.value() or "", ("", Q()))
        return queryset.filter(condition)


class DailyList(ChangeList):
    """A link answers anew, and keeps whatever else was asked: the search, the site. It counts what it will show.

    `anew`: parameters of other filters that ask the same. `whole` is the address without any of them.
    """

    anew: tuple[str, ...] = ()

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        asked = next(spec for spec in self.filter_specs if isinstance(spec, DailyFilter))
        name, questions = str(asked.parameter_name), asked.questions()
        rest = copy(self)
        rest.filter_params = {n: v for n, v in self.filter_params.items() if n not in (name, *self.anew)}
        rest.list_filter = ()  # what they choose is in the parameters; what they offer would be asked for once more
        found = self.model._default_manager.filter(pk__in=rest.get_queryset(request).order_by().values("pk"))
        counts = counted(found, questions)
        self.whole, self.asked = rest.get_query_string(), asked.value()
        self.daily = [
            Link(value, label, counts[value], value == self.asked, rest.get_query_string({name: value}))
            for value, (label, _) in questions.items()
        ]
