"""Pages to bring rows in from a CSV file, with a preview that changes nothing, and to take them out as one."""

import base64
import binascii
import hashlib
from collections import Counter
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone

from fleet.admin import seen
from fleet.admin.pages import PageAdmin
from fleet.csv_files import imports
from fleet.csv_files import table as csv_table
from fleet.history import by_user
from fleet.refusals import Refused


class FileForm(forms.Form):
    file = forms.FileField(
        label="CSV file", widget=forms.FileInput({"accept": ".csv,text/csv"}),
        help_text="UTF-8, at most 1 MB and 2000 rows. Nothing changes before you have seen what it would do.",
    )  # fmt: skip


class SheetAdmin(PageAdmin):
    """A page admin whose rows come and go as a CSV file."""

    sheet: imports.Sheet

    def get_urls(self) -> list[URLPattern]:
        wrap, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        own = [
            path("import/", wrap(self.import_view), name=f"{name}_import"),
            path("export/", wrap(self.export_view), name=f"{name}_export"),
        ]
        return own + super().get_urls()

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return super().changelist_view(request, {"may_import": self._may_import(request)} | (extra_context or {}))

    def export_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        text = csv_table.write(self.sheet.columns, self.sheet.rows(self.get_queryset(request)))
        answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{self.sheet.name}-{timezone.now():%Y-%m-%d}.csv"'
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Cache-Control"] = "no-store"
        return answer

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """First the file, then what it would do, then what it did: what was shown, or, without a digest of that, what it is now."""
        if not self._may_import(request):
            raise PermissionDenied
        context: dict[str, Any] = {"form": FileForm(), "sheet": self.sheet}
        if request.method == "POST":
            try:
                raw = _sent(request)
                rows = csv_table.read(raw, self.sheet.columns, self.sheet.required)
                plan = imports.planned(self.sheet, rows, request.user)
            except Refused as refused:
                context["form"] = form = FileForm(request.POST, request.FILES)
                form.is_valid()
                form.errors.pop("file", None)
                form.add_error("file", str(refused))
            else:
                was, done = _digest(plan), "apply" in request.POST
                if done and request.POST.get(seen.NAME, was) != was:
                    whats = {row.what for row in plan}
                    if imports.SAME in whats and not whats & {imports.ADD, imports.CHANGE}:
                        messages.info(request, "It is done already: by your first click, or by somebody else.")
                    else:
                        messages.warning(
                            request, "By now it would do something else than you were shown, so nothing was done."
                        )
                    done = False
                if done:
                    plan = imports.applied(plan, by_user(request.user))
                context |= {
                    "plan": plan,
                    "was": was,
                    "done": done,
                    "counts": _counts(plan),
                    "again": base64.b64encode(raw).decode(),
                }
        return self._csv_page(request, context)

    def _csv_page(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        common = {**self.admin_site.each_context(request), "opts": self.opts, "original": None}
        title = f"Import {self.sheet.name}"
        return TemplateResponse(request, "admin/drover/import.html", common | context | {"title": title})

    def _may_import(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request) and self.has_change_permission(request)


def _sent(request: HttpRequest) -> bytes:
    """The file, or the same once more from the preview."""
    if "apply" in request.POST:
        try:
            return base64.b64decode(request.POST.get("again", ""), validate=True)
        except (binascii.Error, ValueError):
            raise Refused("This page is out of date: choose the file again.") from None
    upload: Any = request.FILES.get("file")
    if upload is None:
        raise Refused("Choose a file.")
    return bytes(upload.read(csv_table.MAX_BYTES + 1))


def _digest(plan: list[imports.Planned]) -> str:
    """What people are shown that it would do."""
    return hashlib.sha256(repr([row[:3] for row in plan]).encode()).hexdigest()[:32]


def _counts(plan: list[imports.Planned]) -> dict[str, int]:
    found = Counter(row.what for row in plan)
    return {"add": found["add"], "change": found["change"], "same": found["same"], "error": found["error"]}
