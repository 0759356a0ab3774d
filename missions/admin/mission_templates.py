"""Templates in admin: missions drawn up once, with parameters, and made into missions again and again."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from fleet.admin.buttons import Button
from fleet.admin.filters import RetiredFilter
from fleet.admin.once import key_of
from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import timeline
from fleet.history import by_user
from fleet.refusals import Refused, to_field
from missions import templates
from missions.admin.mission_buttons import again, run_now
from missions.command_types import TYPES
from missions.drawing_up import DrawnUp
from missions.forms.choices import choices_for
from missions.forms.templates import VALUE, UseForm, blank, bound, parameters_of, problems
from missions.models import Template
from missions.step_wording import unusual_words
from missions.templates import TYPES as PARAMETER_TYPES


class UseFilter(RetiredFilter):
    title = parameter_name = "use"
    usual, retired = "In use", "Out of use"


def _retire(request: HttpRequest, template: Template) -> str:
    templates.retire_template(template.pk, by=by_user(request.user))
    return f"“{template}” is out of use. Missions made from it stay."


@admin.register(Template)
class TemplateAdmin(PageAdmin):
    page_template = "admin/drover/mission_template.html"
    form_template = "admin/drover/mission_template_form.html"
    add = "Draw up a template"
    change_list_template = "admin/drover/mission_template_list.html"
    list_display = ("name", "site", "what", "asks", "used")
    list_filter = (UseFilter, "site")
    list_select_related = ("site",)
    search_fields = ("name", "title")
    search_help_text = "Name of the template or title of its missions"
    ordering = ("name", "id")
    buttons = (
        Button(
            "retire", "Take out of use…", "missions.change_template", _retire, shown=lambda t: not t.retired_at,
            confirm="No mission can be made from it any more. Those that were made stay.", yes="Take out of use",
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Template]:
        return super().get_queryset(request).annotate(used_n=Count("missions"))

    @admin.display(description="steps")
    def what(self, template: Template) -> str:
        return str(Truncator("; ".join(words for words, _, _ in steps_in_words(template))).chars(200))

    @admin.display(description="asks for")
    def asks(self, template: Template) -> str:
        return ", ".join(p["label"] for p in template.parameters)

    @admin.display(description="missions made", ordering="used_n")
    def used(self, template: Any) -> int:
        return int(template.used_n)

    # the page of one, and its form

    def can_edit(self, request: HttpRequest, row: Any) -> bool:
        return row.retired_at is None and self.has_change_permission(request, row)

    def why_not_editable(self, row: Any) -> str:
        return f"“{row}” is out of use and can no longer be changed."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "steps": steps_in_words(row),
            "parameters": [{**p, "kind": PARAMETER_TYPES[p["type"]].lower()} for p in row.parameters],
            "may_use": row.retired_at is None and request.user.has_perm("missions.add_mission"),
            **timeline(f"template:{row.pk}", request.user),
        }

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        choices = choices_for(request.user)
        return bound(request.POST, choices) if request.method == "POST" else blank(row, choices)

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        choices = forms["form"].choices
        return {
            "problems": problems(forms),
            "choices": choices.for_page(),
            "place_names": sorted({name for names in choices.places.values() for name in names}),
        }

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said = dict(forms["form"].cleaned_data)
        if row is None:
            said.pop("version")
        elif said["version"] is None:
            raise Refused("This form is out of date: look at the template again, then edit it.")
        pk = templates.save_template(
            **said, steps=forms["steps"].steps(), parameters=parameters_of(forms["parameters"]),
            template_id=row.pk if row else None, by=by_user(request.user),
        )  # fmt: skip
        return (
            pk,
            f"“{said['name']}” is {'changed' if row else 'drawn up'}. Make missions from it as often as you like.",
        )

    # a mission made from it

    def get_urls(self) -> list[URLPattern]:
        use = path("<path:object_id>/use/", self.admin_site.admin_view(self.use_view), name="missions_template_use")
        return [use, *super().get_urls()]

    def use_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "POST"])
        row = self.found(request, object_id)
        may_run = request.user.has_perm("missions.dispatch_mission")
        if not request.user.has_perm("missions.add_mission") or ("_run" in request.POST and not may_run):
            raise PermissionDenied
        form = UseForm(request.POST or None, template=row, choices=choices_for(request.user))
        if form.is_valid():
            try:
                return self._make(request, row, form)
            except Refused as refused:
                to_field(form, refused, VALUE)
        context = {"row": row, "form": form, "steps": steps_in_words(row), "may_run": may_run}
        return self.render(request, "admin/drover/mission_from_template.html", row, context)

    def _make(self, request: HttpRequest, row: Template, form: UseForm) -> HttpResponse:
        by, robot = by_user(request.user), form.cleaned_data["robot"] or None
        try:
            pk = templates.mission_of_template(row.pk, form.values(), by=by, robot=robot, key=key_of(request))
        except DrawnUp as known:
            messages.info(request, again(request, known.mission_id, "_run" in request.POST))
            return redirect(reverse("admin:missions_mission_change", args=[known.mission_id]))
        more = run_now(request, pk) if "_run" in request.POST else "It moves nothing until it is run."
        messages.success(request, f"It is drawn up. {more}".strip())
        return redirect(reverse("admin:missions_mission_change", args=[pk]))


def steps_in_words(template: Template) -> list[tuple[str, int | None, str]]:
    """Each step as a sentence in which parameters stand in braces, its time allowed, s, and what is unusual if it fails."""
    return [
        (_words(step["command"], step["params"]), step.get("timeout_s"), unusual_words(step)) for step in template.steps
    ]


def _words(command: str, params: dict[str, Any]) -> str:
    if command not in TYPES:
        return command
    values = (params.get(spec.name) for spec in TYPES[command].inputs)
    return f"{TYPES[command].label} {', '.join(str(v) for v in values if v not in (None, '', {}))}".strip()
