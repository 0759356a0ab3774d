"""The page of statistics: bars beside their numbers, for everybody who may see missions, of their own sites."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from fleet.admin.kept import ReadOnlyAdmin
from fleet.csv_files import table as csv_table
from fleet.models import Brand, Site
from telemetry.out.behind import groups_behind
from telemetry.out.models import Tally
from telemetry.out.statistics import report
from telemetry.out.statistics.counting import NAME

COLUMNS = ("hour", "site", "brand", "what", "detail", "command", "n")


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    many = "statistics"

    def get_urls(self) -> list[URLPattern]:
        export = path("export.csv", self.admin_site.admin_view(self.export_view), name="telemetry_tally_export")
        return [export, *super().get_urls()]

    def _question(self, request: HttpRequest) -> report.Question:
        if not self.has_view_permission(request) or request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        return report.Question(request.GET, request.user, timezone.now())

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        question = self._question(request)
        if _has_nul(request):
            return redirect(request.path)
        valid = question.is_valid()
        tables = report.tables(question) if valid else []
        context = {
            **self.admin_site.each_context(request), "opts": self.opts, "title": "Statistics", "form": question,
            "tables": tables, "any": any(table.bars for table in tables), "counted": self.get_queryset(request).exists(),
            "export": f"{reverse('admin:telemetry_tally_export')}?{request.GET.urlencode()}" if valid else "",
            "behind": groups_behind().get(NAME, ""), "wide": report.WIDE,
        }  # fmt: skip
        return TemplateResponse(request, "admin/drover/statistics.html", context)

    def change_view(self, request: Any, object_id: Any, form_url: str = "", extra_context: Any = None) -> Any:
        """A count has no page of its own: the page of all of them says more."""
        super().change_view(request, object_id, form_url, extra_context)  # whether it may be seen at all
        return redirect("admin:telemetry_tally_changelist")

    def export_view(self, request: HttpRequest) -> HttpResponse:
        """The counts as they are kept, one line for each hour and thing."""
        question = self._question(request)
        if _has_nul(request):
            return redirect(request.path)
        if not question.is_valid():
            return HttpResponse(question.errors.as_text(), status=400, content_type="text/plain; charset=utf-8")
        sites, brands = dict(Site.objects.values_list("pk", "name")), dict(Brand.objects.values_list("pk", "name"))
        rows = question.rows().order_by("hour", "site_id", "brand_id", "what", "detail", "command")
        found = rows.values_list("hour", "site_id", "brand_id", "what", "detail", "command", "n").iterator()
        text = csv_table.write(COLUMNS, (
            (f"{hour:%Y-%m-%dT%H:%MZ}", sites[site], brands.get(brand, ""), what, detail, command, str(n))
            for hour, site, brand, what, detail, command, n in found
        ))  # fmt: skip
        name = f"drover-statistics-{question.now:%Y-%m-%d}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def _has_nul(request: HttpRequest) -> bool:
    return any("\x00" in value for value in request.GET.values())  # PostgreSQL cannot compare with it
