"""Lists and records: nothing is deleted, no list is edited, and everybody sees what belongs to the own sites.

Every list, page, form, filter, count and search is narrowed here to the sites of who looks (fleet.people.access).
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import get_fields_from_path, unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.text import capfirst

from fleet.admin.filters import SeenFilter
from fleet.admin.seen import OUT_OF_DATE
from fleet.people import access


class KeptAdmin(admin.ModelAdmin):
    """Rows that are never deleted and lists without bulk actions; of them a person sees those of the own sites.

    `nothing` is what an empty list says will appear here, `first` the words of the link to add the first,
    `add` those of the button for one more and of its page.
    """

    nothing = ""
    first = ""
    many = ""  # what people call the rows, where the model has another word for them
    add = ""

    actions = None
    list_per_page = 100
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return access.at_sites(request.user, super().get_queryset(request))

    def get_field_queryset(self, db: Any, db_field: Any, request: HttpRequest) -> QuerySet[Any]:
        found = super().get_field_queryset(db, db_field, request)
        if found is None:
            found = db_field.remote_field.model._default_manager.using(db)
        return access.at_sites(request.user, found)

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return [self._seen_only(item) for item in super().get_list_filter(request)]

    def _seen_only(self, item: Any) -> Any:
        field = get_fields_from_path(self.model, item)[-1] if isinstance(item, str) else None
        return (item, SeenFilter) if field is not None and field.is_relation else item

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and access.may_shape(request.user, self.model, new=True)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and access.may_shape(request.user, self.model, new=False)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        raise Http404(f"There is no {opts.verbose_name} {unquote(object_id)!r}.")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def changeform_view(
        self, request: Any, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except IntegrityError:  # the same was stored between the form's look and its saving: look again, and say so
            return super().changeform_view(request, object_id, form_url, extra_context)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if any("\x00" in value for values in request.GET.lists() for value in (values[0], *values[1])):
            return redirect(request.path)  # PostgreSQL cannot compare with NUL
        if any(name.endswith("__year") and not 1 <= _int(value) <= 9999 for name, value in request.GET.items()):
            return redirect(f"{request.path}?{ERROR_FLAG}=1")  # as Django answers whatever else it cannot compare with
        if not all(self._is_key(text) for text in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            messages.error(request, OUT_OF_DATE)
            return redirect(request.get_full_path())
        said = {
            "title": capfirst(self.many or self.opts.verbose_name_plural),
            "many": self.many,
            "nothing": self.nothing,
            "first": self.first,
            "add_words": self.add,
        }
        return super().changelist_view(request, said | (extra_context or {}))

    def _is_key(self, text: str) -> bool:
        """Whether a row of this list could have this key: Django asks the database without looking."""
        try:
            self.opts.pk.to_python(text)  # type: ignore[union-attr]
        except ValidationError:
            return False
        return "\x00" not in text


class ReadOnlyAdmin(KeptAdmin):
    """Records: looked at, never touched."""

    change_form_template = "admin/drover/record.html"

    def change_view(self, request: Any, object_id: Any, form_url: str = "", extra_context: Any = None) -> Any:
        title = {"title": capfirst(self.opts.verbose_name), "many": self.many}
        return super().change_view(request, object_id, form_url, title | (extra_context or {}))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _int(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
