"""Filters of our lists: they offer what the user may see, few values at a glance, and first what people usually want."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from fleet.people import access

FEW = 8  # values of a filter that are read at a glance
NONE_OF_THEM = {"site": "every site", "robot": "no robot"}  # what a row without one belongs to, as the lists say it


class SeenFilter(admin.RelatedFieldListFilter):
    """A filter by a related row offers those that the user may see."""

    def __init__(self, field: Any, request: HttpRequest, *args: Any, **more: Any) -> None:
        super().__init__(field, request, *args, **more)
        self.empty_value_display = NONE_OF_THEM.get(field.name, self.empty_value_display)
        self.sees_those_without = field.name != "site" or access.sites_of(request.user) is access.EVERY_SITE

    @property
    def include_empty_choice(self) -> bool:
        return bool(super().include_empty_choice) and self.sees_those_without

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        seen = access.at_sites(request.user, field.related_model._default_manager.all())
        ordering = self.field_admin_ordering(field, request, model_admin)
        return list(
            field.get_choices(include_blank=False, ordering=ordering, limit_choices_to={"pk__in": seen.values("pk")})
        )


class FewFilter(SeenFilter):
    """The same while there are few. Of many it shows only the chosen one: the search above the list finds the others."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        seen = access.at_sites(request.user, field.related_model._default_manager.order_by("pk"))
        few = list(seen[: FEW + 1])
        if len(few) > FEW:
            few = list(seen.filter(pk__in=[str(pk) for pk in self.lookup_val or () if "\0" not in str(pk)]))
        return [(row.pk, str(row)) for row in few]

    def has_output(self) -> bool:
        return len(self.lookup_choices) > 1 or bool(self.lookup_val or self.lookup_val_isnull)


class UsualFilter(admin.SimpleListFilter):
    """A filter that shows something less than everything unless asked; `usual` names what that is."""

    usual = ""

    def choices(self, changelist: Any) -> Any:
        first, *rest = super().choices(changelist)
        return [{**first, "display": self.usual}, *rest]


class RetiredFilter(UsualFilter):
    """What was retired is out of the way unless asked for; `retired` names that."""

    retired = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("retired", self.retired), ("all", "All")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "all":
            return queryset
        return queryset.filter(retired_at__isnull=self.value() != "retired")
