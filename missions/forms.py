"""Forms to draw up a mission: its head, and one row per step whose fields depend on the command type."""

from typing import Any

import msgspec
from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

from fleet.access import at_sites, narrow
from fleet.models import Place, Robot, Site
from missions.actions import MAX_STEPS
from missions.command_types import (
    MAX_ARGS_BYTES,
    MAX_TEXT,
    MAX_TIMEOUT_S,
    TYPES,
    Input,
    Invalid,
    default_timeout_s,
    validate,
)

BLANK_ROWS = 5  # without JavaScript; with it, rows are added as needed
SENT_ROWS = 200  # with those that were added and removed again


class RobotChoice(forms.ModelChoiceField):
    """By name and id: names need not be unique."""

    def label_from_instance(self, robot: Any) -> str:
        return f"{robot.name} ({robot.pk}, {robot.site})"


class MissionForm(forms.Form):
    """Title, where, by whom, how urgent, how long."""

    title = forms.CharField(max_length=200, help_text="What people will call it, e.g. Pallet 7 to Dock A.")
    site = forms.ModelChoiceField(Site.objects.all())
    robot = RobotChoice(
        Robot.objects.filter(retired_at=None).select_related("site"), required=False,
        help_text="May be chosen later, before it is dispatched.",
    )  # fmt: skip
    priority = forms.IntegerField(initial=0, min_value=-100, max_value=100, help_text="Higher goes first.")
    timeout_s = forms.IntegerField(
        label="Time for the whole mission (s)", initial=600, min_value=1, max_value=MAX_TIMEOUT_S,
        help_text="Counted from the robot's acceptance. Then it is asked, stopped, and the mission aborted.",
    )  # fmt: skip
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        robot, site = said.get("robot"), said.get("site")
        if robot and site and robot.site_id != site.pk:
            self.add_error("robot", f"{robot.pk} works on {robot.site}, not on {site}.")
        return said


def _field(spec: Input) -> forms.Field:
    kinds: dict[str, Any] = {
        "place": lambda: forms.CharField(
            max_length=MAX_TEXT, widget=forms.TextInput(attrs={"list": "places", "autocomplete": "off"})
        ),
        "text": lambda: forms.CharField(max_length=MAX_TEXT),
        "number": lambda: forms.FloatField(widget=forms.NumberInput(attrs={"step": "any", "min": "0"})),
        "json": lambda: forms.CharField(max_length=MAX_ARGS_BYTES, widget=forms.Textarea(attrs={"rows": 1})),
    }
    field: forms.Field = kinds[spec.kind]()
    field.label, field.help_text, field.required = (
        spec.label,
        spec.help or spec.rule,
        False,
    )  # required by type: see clean()
    return field


class StepForm(forms.Form):
    """One step. It has the inputs of every type; only those of the chosen one may be filled in."""

    command = forms.ChoiceField(
        label="Command", choices=[("", "Choose…"), *((t.name, t.label) for t in TYPES.values())],
        error_messages={"required": "Choose what the robot should do."},
    )  # fmt: skip
    timeout_s = forms.IntegerField(
        label="Time (s)", required=False,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TIMEOUT_S)], help_text="Empty: the type's default.",
    )  # fmt: skip

    def __init__(self, *args: Any, places: set[str] | None, capabilities: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places, self.capabilities = places, capabilities
        for known in TYPES.values():
            for spec in known.inputs:
                self.fields.setdefault(spec.name, _field(spec))
        self.order_fields(["command", *self.inputs()])

    def inputs(self) -> list[str]:
        return list(dict.fromkeys(spec.name for known in TYPES.values() for spec in known.inputs))

    @property
    def shown(self) -> list[Any]:
        """Bound fields of the parameters, for the page."""
        return [self[name] for name in self.inputs()]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        known = TYPES.get(said.get("command", ""))
        if known is None or any(name in self.errors for name in self.inputs()):
            return said
        own = {spec.name: spec for spec in known.inputs}
        for name in self.inputs():
            if name not in own and said.get(name) not in (None, ""):
                self.add_error(name, f"{known.label} has no {self.fields[name].label.lower()}: leave it empty.")
        try:
            params = {s.name: self._value(s, said[s.name]) for s in known.inputs if said[s.name] not in (None, "")}
            places = {params.get("place", "")} if self.places is None else self.places
            said["params"] = validate(known.name, params, places=places, capabilities=self.capabilities)
        except Invalid as error:
            self.add_error(error.field if error.field in self.fields else "command", error.reason)
        return said

    def _value(self, spec: Input, value: Any) -> Any:
        if spec.kind == "number" and value.is_integer():
            return int(value)
        if spec.kind != "json":
            return value
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise Invalid(spec.name, spec.rule) from None


class BaseStepFormSet(forms.BaseFormSet):
    """The steps in order. Blank rows count for nothing, wherever they are."""

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        form = super()._construct_form(i, **kwargs)
        form.empty_permitted = True
        return form

    def clean(self) -> None:
        if not self.steps() and not any(self.errors):
            raise forms.ValidationError("A mission needs at least one step.")

    def steps(self) -> list[dict[str, Any]]:
        """What to store, first step first."""
        rows = [form.cleaned_data for form in self.in_order() if form.is_valid() and "params" in form.cleaned_data]
        return [
            {
                "command": row["command"],
                "params": row["params"],
                "timeout_s": row["timeout_s"] or default_timeout_s(row["command"], row["params"]),
            }
            for row in rows
        ]

    def in_order(self) -> list[Any]:
        """Rows that count, by their order number; those without one, or with the same, as they came."""
        rows = [form for form in self.forms if form.has_changed() and not self._should_delete_form(form)]
        numbers = {form: getattr(form, "cleaned_data", {}).get("ORDER") for form in rows}
        return sorted(rows, key=lambda form: (numbers[form] is None, numbers[form] or 0))

    def problems(self) -> list[str]:
        """Every error with its step and field, in words."""
        found = [str(e) for e in self.non_form_errors()]
        for number, form in enumerate(self.in_order(), 1):
            for name, errors in form.errors.items():
                where = form.fields[name].label if name in form.fields else ""
                found += [f"Step {number}, {str(where).lower()}: {error}" for error in errors]
        return found


StepFormSet = forms.formset_factory(
    StepForm, formset=BaseStepFormSet, extra=BLANK_ROWS, can_order=True, can_delete=True,
    max_num=MAX_STEPS, validate_max=True, absolute_max=SENT_ROWS,
)  # fmt: skip


def filled(mission: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Initial values of both forms for a mission that is drawn up."""
    head = {name: getattr(mission, name) for name in ("title", "priority", "timeout_s", "version")}
    head |= {"site": mission.site_id, "robot": mission.robot_id}
    rows = []
    for step in mission.steps.all():
        params = {k: v for k, v in step.params.items() if v not in ("", {})}
        if "args" in params:
            params["args"] = msgspec.json.encode(params["args"]).decode()
        rows.append({**params, "command": step.command, "timeout_s": step.timeout_s})
    return head, rows


def bound(data: Any, user: Any) -> tuple[MissionForm, Any]:
    """Both forms with what was sent; the steps are checked against the site and the robot's brand."""
    form: MissionForm = narrow(user, MissionForm(data))  # a place of another site must not even be denied
    form.is_valid()
    said = getattr(form, "cleaned_data", {})
    site, robot = said.get("site"), said.get("robot")
    places = set(Place.objects.filter(site=site).values_list("name", flat=True)) if site else None
    capabilities = robot.brand.capabilities if robot else list(TYPES)
    return form, StepFormSet(data, prefix="steps", form_kwargs={"places": places, "capabilities": capabilities})


def blank(initial: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[MissionForm, Any]:
    kwargs = {"places": None, "capabilities": list(TYPES)}
    return MissionForm(initial=initial), StepFormSet(prefix="steps", initial=rows, form_kwargs=kwargs)


def choices_for_page(user: Any) -> dict[str, Any]:
    """What the page's script needs: inputs by type, places by site, site and abilities by robot, at the user's sites."""
    places: dict[int, list[str]] = {}
    for site_id, name in at_sites(user, Place.objects.order_by("name")).values_list("site_id", "name"):
        places.setdefault(site_id, []).append(name)
    robots = at_sites(user, Robot.objects.filter(retired_at=None)).values_list("id", "site_id", "brand__capabilities")
    return {
        "types": {
            t.name: {
                "inputs": {spec.name: {"required": spec.required, "help": spec.help or spec.rule} for spec in t.inputs},
                "timeout_s": t.timeout_s,
            }
            for t in TYPES.values()
        },
        "places": places,
        "robots": {pk: {"site": site, "can": can} for pk, site, can in robots},
        "max_steps": MAX_STEPS,
    }
