"""The pages of a model whose rows only actions may change: a row in words with its buttons, and a form of our own."""

from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from fleet.admin import once, saving, seen
from fleet.admin.buttons import Button, view_of
from fleet.admin.kept import KeptAdmin
from fleet.commit import Conflict
from fleet.models import Event
from fleet.people import access
from fleet.refusals import Refused, to_field


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
            path(f"<path:object_id>/{b.verb}/", wrap(view_of(self, b)), name=f"{name}_{b.verb}") for b in self.buttons
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
        row = self.found(request, object_id)
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied  # forms and buttons have their own addresses
        context = {"row": row, "buttons": self.offer(request, row), "can_edit": self.can_edit(request, row)}
        context |= self.page_context(request, row)
        return self.render(request, self.page_template, row, context)

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._form_view(request, self.found(request, object_id))

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
        return self.render(request, self.form_template, row, context)

    def _save(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> Any:
        """The key of the row."""

        def write() -> tuple[Any, str]:
            return self.save_forms(request, row, forms)

        def anew() -> Any:
            return self.forms(request, self.found(request, quote(str(row.pk))))["form"]

        if row is not None:
            saved, before = saving.change(request, row, forms["form"], anew, write)
        else:
            saved, before = (write(), None) if self.knows_wishes else saving.add(request, write)
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
        return redirect(self.url("change", self.found(request, unquote(object_id))) + "#history")

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

    # means

    def found(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(f"There is no {self.opts.verbose_name} {unquote(object_id)!r}.")
        return row

    def render(self, request: HttpRequest, template: str, row: Any, context: dict[str, Any]) -> HttpResponse:
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
