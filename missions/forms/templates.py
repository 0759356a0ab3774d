"""Forms of templates: one to draw up a template, and one, made of its parameters, to draw up a mission from it."""

from contextlib import suppress
from typing import Any

from django import forms

from fleet.refusals import Refused
from fleet.robots import abilities
from missions.command_types import MAX_TEXT, MAX_TIMEOUT_S, TYPES
from missions.forms.choices import Choices
from missions.forms.mission import CHOOSE_FOR_ME, NEEDED
from missions.forms.steps import PREFIX, Problem, StepFormSet, filled, problems_of
from missions.models import Importance, Template
from missions.plans import LEAST_PRIORITY, MOST_PRIORITY
from missions.templates import MAX_PARAMETERS, SAMPLE, typed
from missions.templates import TYPES as PARAMETER_TYPES

PARAMETERS = "parameters"
VALUE = "value-"  # before the name of a parameter: its input


class TemplateForm(forms.Form):
    """Name, where, and what every mission made from it has in common."""

    MAIN = ("name", "site", "title")  # the rest is asked for under “More”

    name = forms.CharField(max_length=200, error_messages=NEEDED, help_text="What people choose it by.")
    site = forms.TypedChoiceField(coerce=int, error_messages=NEEDED, help_text="Missions made from it run here.")
    title = forms.CharField(
        label="Title of its missions", max_length=200, error_messages=NEEDED,
        help_text="May hold parameters in braces, e.g. Fetch {load} from {place}.",
    )  # fmt: skip
    importance = forms.ChoiceField(choices=Importance.choices, initial=Importance.NORMAL)
    priority = forms.IntegerField(initial=0, min_value=LEAST_PRIORITY, max_value=MOST_PRIORITY, error_messages=NEEDED)
    timeout_s = forms.IntegerField(
        label="Time for the whole mission (s)", initial=600, min_value=1, max_value=MAX_TIMEOUT_S, error_messages=NEEDED
    )
    needs_approval = forms.BooleanField(
        label="Each needs approval", required=False, help_text="Before somebody has approved it, a mission cannot run."
    )
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, choices: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choices = choices
        sites = list(choices.sites.items())
        self.fields["site"].choices = sites if len(sites) == 1 else [("", "Choose…"), *sites]  # type: ignore[attr-defined]

    def main(self) -> list[Any]:
        return [self[name] for name in self.MAIN]

    def more(self) -> list[Any]:
        return [field for field in self.visible_fields() if field.name not in self.MAIN]

    def more_is_wrong(self) -> bool:
        """Whether something that is folded away has to be put right."""
        return any(field.errors for field in self.more())

    def problems(self) -> list[Problem]:
        """Every error with its field, in words."""
        return problems_of(self)


def _named(what: str) -> forms.TextInput:
    """Says what it is where the table has no room for its head."""
    return forms.TextInput(attrs={"placeholder": what, "aria-label": what.capitalize(), "autocomplete": "off"})


class ParameterForm(forms.Form):
    """One parameter; whoever makes a mission from the template says what it is."""

    name = forms.RegexField(
        r"^[a-z][a-z0-9_]{0,39}\Z", error_messages={**NEEDED, "invalid": "Small letters, digits and underscores."},
        widget=_named("name"),
    )  # fmt: skip
    type = forms.ChoiceField(
        choices=list(PARAMETER_TYPES.items()), initial="place", widget=forms.Select({"aria-label": "Is a"})
    )
    label = forms.CharField(required=False, max_length=100, widget=_named("label"))
    default = forms.CharField(required=False, max_length=MAX_TEXT, widget=_named("default"))


class _Parameters(forms.BaseFormSet):
    """Its boxes stand in a table and have no label of their own."""

    def add_fields(self, form: Any, index: Any) -> None:
        super().add_fields(form, index)
        form.fields["DELETE"].widget.attrs["aria-label"] = "Remove this parameter"


ParameterFormSet = forms.formset_factory(
    ParameterForm,
    formset=_Parameters,
    extra=3,
    max_num=MAX_PARAMETERS,
    absolute_max=2 * MAX_PARAMETERS,
    validate_max=True,
    can_delete=True,
)


def parameters_of(formset: Any) -> list[dict[str, Any]]:
    """What to store; blank rows and those marked for removal count for nothing."""
    rows = [form.cleaned_data for form in formset.forms if form.has_changed() and form.is_valid()]
    return [{k: row[k] for k in ("name", "type", "label", "default")} for row in rows if not row.get("DELETE")]


def _sample(parameter: dict[str, Any], places: list[str]) -> Any:
    """Something that the parameter could be: its default, or what its type allows."""
    if parameter["default"]:
        with suppress(Refused):
            return typed(parameter["name"], parameter["type"], parameter["default"])
    return SAMPLE[parameter["type"]] or (places[0] if places else "x")


def bound(data: Any, choices: Choices) -> dict[str, Any]:
    """All three forms with what was sent; steps are checked with a sample of every parameter."""
    form = TemplateForm(data, choices=choices)
    form.is_valid()
    parameters = ParameterFormSet(data, prefix=PARAMETERS)
    known = parameters_of(parameters) if parameters.is_valid() else []
    site = getattr(form, "cleaned_data", {}).get("site")
    places = choices.places.get(site or 0, [])
    samples = {p["name"]: _sample(p, places) for p in known}
    kwargs = {
        "places": None if site is None else set(places), "capabilities": abilities.types(choices.capabilities(site, "")),  # names of custom ones are samples
        "samples": samples,
    }  # fmt: skip
    return {
        "form": form,
        "parameters": parameters,
        "steps": StepFormSet(data, prefix=PREFIX, form_kwargs=kwargs),
    }


def blank(template: Template | None, choices: Choices) -> dict[str, Any]:
    """All three forms to fill in."""
    head: dict[str, Any] = {"site": next(iter(choices.sites))} if len(choices.sites) == 1 else {}
    rows, known = [], []
    if template is not None:
        names = ("name", "title", "importance", "priority", "timeout_s", "needs_approval", "version")
        head = {name: getattr(template, name) for name in names} | {"site": template.site_id}
        rows = filled(template.steps)
        known = template.parameters
    anything = {"places": None, "capabilities": list(TYPES), "samples": {}}
    return {
        "form": TemplateForm(initial=head, choices=choices),
        "parameters": ParameterFormSet(prefix=PARAMETERS, initial=known),
        "steps": StepFormSet(prefix=PREFIX, initial=rows, form_kwargs=anything),
    }


def problems(forms: dict[str, Any]) -> list[Problem]:
    """All that must be put right, in the order of the page."""
    if not forms["form"].is_bound:
        return []
    found = forms["form"].problems()
    found += [Problem("", str(e)) for e in forms["parameters"].non_form_errors()]
    for number, form in enumerate(forms["parameters"].forms, 1):
        for name, errors in form.errors.items():
            found += [Problem(form.add_prefix(name), f"Parameter {number}, {name}: {error}") for error in errors]
    return found + forms["steps"].problems()


class UseForm(forms.Form):
    """One input per parameter of the template, by its type, and who should do it."""

    def __init__(self, *args: Any, template: Template, choices: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        places = [(name, name) for name in choices.places.get(template.site_id, ())]
        kinds: dict[str, Any] = {
            "place": lambda: forms.ChoiceField(choices=[("", "Choose…"), *places], error_messages=NEEDED),
            "text": lambda: forms.CharField(max_length=MAX_TEXT, error_messages=NEEDED),
            "number": lambda: forms.FloatField(error_messages={**NEEDED, "invalid": "A number."}),
        }
        for parameter in template.parameters:
            field = kinds[parameter["type"]]()
            field.label, field.initial = parameter["label"], parameter["default"]
            self.fields[f"{VALUE}{parameter['name']}"] = field
        groups = [
            (label, [(pk, words) for pk, words in robots if choices.robots[pk].site_id == template.site_id])
            for label, robots in choices.grouped_robots()
        ]
        self.fields["robot"] = forms.ChoiceField(
            required=False, choices=[("", CHOOSE_FOR_ME), *((label, robots) for label, robots in groups if robots)],
            help_text="What each is doing now. One that is busy does this when it is done.",
        )  # fmt: skip

    def values(self) -> dict[str, Any]:
        return {n.removeprefix(VALUE): v for n, v in self.cleaned_data.items() if n.startswith(VALUE)}
