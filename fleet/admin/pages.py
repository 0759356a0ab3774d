"""Base of our admin pages: nothing is deleted, no list is edited, and a model with history is never saved from here.

Every list, page, form, filter, count and search is narrowed here to the sites of who looks (fleet.people.access).

A page shows one row in words. What changes it is a button: a POST to its own URL that checks the permission
again, calls one action and reports in one sentence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import get_fields_from_path, quote, unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst

from fleet.admin import once, seen
from fleet.commit import Conflict
from fleet.models import Event
from fleet.people import access
from fleet.refusals import Refused, in_words, to_field

OUT_OF_DATE = "This page is out of date: look at it again, then repeat."
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


@dataclass(frozen=True, slots=True)
class Button:
    """One thing a person may do to a row.

    `run(request, row)` calls an action and returns the sentence to report, or a response of its own. `confirm` says what
    it touches (asked once, before), `yes` is the word on the button that does it, `asks` names the one text that goes
    with it. `versioned` sends what the user saw, `once` carries a key so that five clicks make one thing.
    """

    verb: str
    label: str
    permission: str
    run: Callable[[HttpRequest, Any], str | HttpResponse]
    shown: Callable[[Any], bool] = lambda row: True
    confirm: str = ""
    yes: str = ""
    asks: str = ""
    versioned: bool = False
    look: str = ""  # primary, danger
    once: bool = False
    per_item: bool = False  # belongs to a hold or a credential, not to the page's head


class PageAdmin(KeptAdmin):
    """A model whose rows only actions may change: a page to read, a form of our own, buttons."""

    page_template = ""
    form_template = ""
    buttons: tuple[Button, ...] = ()
    knows_wishes = False  # its actions know by themselves what was made before (fleet/admin/once.py)

    def get_urls(self) -> list[URLPattern]:
        wrap, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        own = [path("<path:object_id>/edit/", wrap(self.edit_view), name=f"{name}_edit")]
        own += [
            path(f"<path:object_id>/{b.verb}/", wrap(self._view_of(b)), name=f"{name}_{b.verb}") for b in self.buttons
        ]
        return own + super().get_urls()

    def url(self, name: str, row: Any) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}", args=[quote(row.pk)])

    # pages

    def changeform_view(
        self, request: Any, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if object_id is None:
            return self._form_view(request, None)
        row = self._found(request, object_id)
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied  # forms and buttons have their own addresses
        context = {"row": row, "buttons": self.offer(request, row), "can_edit": self.can_edit(request, row)}
        context |= self.page_context(request, row)
        return self._render(request, self.page_template, row, context)

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._form_view(request, self._found(request, object_id))

    def _form_view(self, request: HttpRequest, row: Any) -> HttpResponse:
        allowed = self.has_add_permission(request) if row is None else self.has_change_permission(request, row)
        if not allowed:
            raise PermissionDenied
        if row is not None and not self.can_edit(request, row):
            messages.warning(request, self.why_not_editable(row))
            return redirect(self.url("change", row))
        forms = {name: access.narrow(request.user, form) for name, form in self.forms(request, row).items()}
        valid = [form.is_valid() for form in forms.values()]  # all of them, so that every error is shown at once
        if request.method == "POST":
            try:
                pk = self._save(request, row, forms) if all(valid) else self._saved_before(request, row)
            except (Refused, Conflict) as error:
                to_field(forms["form"], error)
                pk = None
            if pk is not None:
                page = self.page_after(request, added=row is None)
                return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}", args=[quote(pk)]))
        context = {
            **forms,
            "was": seen.of(forms["form"]) if row is not None else "",
            **self.form_context(request, row, forms),
        }
        return self._render(request, self.form_template, row, context)

    def _save(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> Any:
        """Once, and not over what somebody else has saved meanwhile; the key of the row."""

        def save() -> tuple[Any, str]:
            if row is not None:
                once.alone(f"{self.opts.label} {row.pk}")
                seen.check(
                    request, forms["form"], self.forms(request, self._found(request, quote(str(row.pk))))["form"]
                )
            return self.save_forms(request, row, forms)

        if row is None and self.knows_wishes:
            pk, sentence = save()
        else:
            saved, before = once.carry_out(request, lambda: _together(save))
            if before is not None:
                return self._say_again(request, row, before)
            pk, sentence = saved
        messages.success(request, sentence)
        return pk

    def _saved_before(self, request: HttpRequest, row: Any) -> Any:
        """A second click may find that what it asks for is not possible any more, because the first one has done it."""
        before = None if row is None and self.knows_wishes else once.came_of(request)
        return None if before is None else self._say_again(request, row, before)

    def _say_again(self, request: HttpRequest, row: Any, before: Event) -> Any:
        once.say_again(request, "saved it already")
        return self.made_by(before) if row is None else row.pk

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> HttpResponse:
        return redirect(self.url("change", self._found(request, unquote(object_id))) + "#history")

    # what a subclass fills in

    def can_edit(self, request: HttpRequest, row: Any) -> bool:
        return self.has_change_permission(request, row)

    def why_not_editable(self, row: Any) -> str:
        raise NotImplementedError

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {}

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        return {}

    def made_by(self, event: Event) -> Any:
        """Key of the row that was made with this event."""
        return self.opts.pk.to_python(event.aggregate.partition(":")[2])  # type: ignore[union-attr]

    def page_after(self, request: HttpRequest, added: bool) -> str:
        """Name of the page that a saved form leads to."""
        return "change"

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        raise NotImplementedError

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        """Call the action; returns the key of the row and the sentence to report."""
        raise NotImplementedError

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        raise PermissionDenied(f"{self.opts.verbose_name} rows are written by actions only")

    # buttons

    def offer(self, request: HttpRequest, row: Any) -> list[Button]:
        return [b for b in self.buttons if b.shown(row) and request.user.has_perm(b.permission)]

    def _view_of(self, button: Button) -> Callable[..., HttpResponse]:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            row = self._found(request, object_id)
            if not request.user.has_perm(button.permission):
                raise PermissionDenied
            try:
                if button.once and not self.knows_wishes:
                    answer, before = once.carry_out(request, lambda: button.run(request, row))
                    if before is not None:
                        once.say_again(request, "done it already")
                        return redirect(self.url("change", row))
                else:
                    answer = button.run(request, row)
            except (Refused, Conflict) as error:
                messages.error(request, in_words(error))
            else:
                if isinstance(answer, HttpResponse):
                    return answer
                messages.success(request, answer)
            return redirect(self.url("change", row))

        return view

    def _found(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(f"There is no {self.opts.verbose_name} {unquote(object_id)!r}.")
        return row

    def _render(self, request: HttpRequest, template: str, row: Any, context: dict[str, Any]) -> HttpResponse:
        title = (self.add or f"Add {self.opts.verbose_name}") if row is None else str(row)
        common = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": row,
            "title": title,
            "many": self.many,
        }
        common |= {"has_view_permission": True, "add": row is None, "key": quote(row.pk) if row is not None else ""}
        return TemplateResponse(request, template, common | context)


def seen_version(request: HttpRequest) -> int:
    """The version that the user saw, for what must not act on a page that is out of date."""
    try:
        return int(request.POST["version"])
    except (KeyError, ValueError):
        raise Refused(OUT_OF_DATE) from None


def _together(save: Callable[[], Any]) -> Any:
    with transaction.atomic():
        return save()


def _int(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
