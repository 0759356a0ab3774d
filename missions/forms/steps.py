"""The rows of a mission's form: one per step, with inputs that depend on the command type, and errors in words."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

from missions.command_types import (
    MAX_ARGS_BYTES,
    MAX_TEXT,
    MAX_TIMEOUT_S,
    TYPES,
    Input,
    Invalid,
    validate,
)
from missions.forms.policy import chosen, filled_policy, policy_fields, refusal, says
from missions.plans import MAX_STEPS
from missions.step_policy import COLUMNS as POLICY
from missions.templates import PLACEHOLDER, fill

PREFIX = "steps"
BLANK_ROWS = 5  # without JavaScript; with it, rows are added as needed
SENT_ROWS = 200  # with those that were added and removed again
INPUTS = {spec.name: spec for known in TYPES.values() for spec in known.inputs}


class Problem(NamedTuple):
    """Something that must be put right: `name` of the input (empty: none in particular), and what, in words."""

    name: str
    text: str


def problems_of(form: forms.Form) -> list[Problem]:
    """Every error of a form with its field, in words."""
    loose = [Problem("", str(error)) for error in form.non_field_errors()]
    named = {name: errors for name, errors in form.errors.items() if name in form.fields}
    return loose + [Problem(n, f"{form[n].label}: {e}") for n, errors in named.items() for e in errors]


def _field(spec: Input) -> forms.Field:
    kinds: dict[str, Any] = {
        "place": lambda: forms.CharField(
            max_length=MAX_TEXT, widget=forms.TextInput(attrs={"list": "places", "autocomplete": "off"})
        ),
        "text": lambda: forms.CharField(max_length=MAX_TEXT),
        "number": lambda: forms.FloatField(
            widget=forms.NumberInput(attrs={"step": "any", "min": "0"}), error_messages={"invalid": spec.rule}
        ),
        "json": lambda: forms.CharField(max_length=MAX_ARGS_BYTES, widget=forms.Textarea(attrs={"rows": 1})),
    }
    field: forms.Field = kinds[spec.kind]()
    field.label, field.help_text = spec.title, spec.help or spec.rule
    field.required = False  # whether it is needed depends on the type: see clean()
    return field


class StepForm(forms.Form):
    """One step. It has the inputs of every type; only those of the chosen one may be filled in."""

    command = forms.ChoiceField(
        label="Command", choices=[("", "Choose…"), *((t.name, t.label) for t in TYPES.values())],
        error_messages={"required": "Choose what the robot should do."},
    )  # fmt: skip
    timeout_s = forms.IntegerField(
        label="Time allowed (s)", required=False, help_text="Empty: the type's default.",
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TIMEOUT_S)],
    )  # fmt: skip

    number = 0  # as people count them; 0 when the row counts for nothing

    def __init__(
        self, *args: Any, places: Collection[str] | None, capabilities: Collection[str],
        samples: Mapping[str, Any] | None = None, whose: str = "", **kwargs: Any,
    ) -> None:  # fmt: skip
        """`samples`: in a template, what its `{parameters}` may be, to check with; inputs are text then."""
        super().__init__(*args, **kwargs)
        self.places, self.capabilities, self.samples, self.whose = places, capabilities, samples, whose
        for name, spec in INPUTS.items():
            self.fields[name] = _field(spec if samples is None or spec.kind == "place" else replace(spec, kind="text"))
        self.fields |= policy_fields()
        self.order_fields(["command", *INPUTS])

    @property
    def shown(self) -> list[tuple[Any, list[str]]]:
        """Bound fields of the parameters and what is wrong with each, for the page."""
        return [(self[name], self.said(name)) for name in INPUTS]

    @property
    def command_errors(self) -> list[str]:
        return self.said("command")

    @property
    def timeout_errors(self) -> list[str]:
        return self.said("timeout_s")

    @property
    def policy(self) -> list[tuple[Any, list[str]]]:
        """What happens when it goes wrong: bound fields and what is wrong with each."""
        return [(self[name], self.said(name)) for name in policy_fields()]

    @property
    def policy_says(self) -> str:
        return says({name: self[name].value() for name in POLICY})

    @property
    def policy_errors(self) -> bool:
        return any(self.said(name) for name in POLICY)

    def said(self, name: str) -> list[str]:
        """Errors of one input, with step and field: Step 2, place: Mars is no place of this site."""
        if not self.number:
            return []
        label = str(self.fields[name].label).lower() if name in self.fields else "step"
        return [f"Step {self.number}, {label}: {error}" for error in self.errors.get(name, ())]

    def problems(self) -> list[Problem]:
        return [Problem(self.add_prefix(name), text) for name in self.errors for text in self.said(name)]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        known = TYPES.get(said.get("command", ""))
        if known is None or any(name in self.errors for name in INPUTS):
            return said
        own = {spec.name: spec for spec in known.inputs}
        for name in INPUTS:
            if name not in own and said.get(name) not in (None, ""):
                self.add_error(name, f"{known.label} has no {self.fields[name].label.lower()}: leave it empty.")
        try:
            params = {s.name: self._value(s, said[s.name]) for s in known.inputs if said[s.name] not in (None, "")}
            tried = params if self.samples is None else fill(params, self.samples)
            places = {tried.get("place", "")} if self.places is None else self.places
            checked = validate(
                known.name, tried, places=places, capabilities=self.capabilities, whose=self.whose
            )  # fmt: skip
            said["params"] = checked if self.samples is None else params
        except Invalid as error:
            self.add_error(error.field if error.field in self.fields else "command", error.reason)
        said["policy"] = chosen(said)
        if wrong := refusal(known, said["policy"]):
            self.add_error(*wrong)
        return said

    def _value(self, spec: Input, value: Any) -> Any:
        if isinstance(value, str) and spec.kind != "text" and PLACEHOLDER.search(value):
            return value
        if spec.kind == "number":
            return self._number(spec, value)
        if spec.kind != "json":
            return value
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise Invalid(spec.name, spec.rule) from None

    def _number(self, spec: Input, value: Any) -> int | float:
        try:
            number = float(value)
        except ValueError:
            raise Invalid(spec.name, spec.rule) from None
        return int(number) if number.is_integer() else number


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
            {"command": row["command"], "params": row["params"], "timeout_s": row["timeout_s"], **row["policy"]}
            for row in rows
        ]

    def in_order(self) -> list[Any]:
        """Rows that count, by their order number; those without one, or with the same, as they came."""
        rows = [form for form in self.forms if form.has_changed() and not self._should_delete_form(form)]
        numbers = {form: getattr(form, "cleaned_data", {}).get("ORDER") for form in rows}
        return sorted(rows, key=lambda form: (numbers[form] is None, numbers[form] or 0))

    def problems(self) -> list[Problem]:
        """Every error with its step and field, in words, in the order of the steps."""
        rows = self.in_order()
        for number, form in enumerate(rows, 1):
            form.number = number
        found = [Problem("", str(error)) for error in self.non_form_errors()]
        return found + [problem for form in rows for problem in form.problems()]


StepFormSet = forms.formset_factory(
    StepForm, formset=BaseStepFormSet, extra=BLANK_ROWS, can_order=True, can_delete=True,
    max_num=MAX_STEPS, validate_max=True, absolute_max=SENT_ROWS,
)  # fmt: skip


def filled(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Initial values of the rows for stored steps: command, parameters, time allowed and policy."""
    rows = []
    for step in steps:
        params = {k: v for k, v in step["params"].items() if v not in ("", {})}
        if isinstance(params.get("args"), dict):
            params["args"] = msgspec.json.encode(params["args"]).decode()
        known = TYPES.get(step["command"])
        head = {"command": step["command"], "timeout_s": step.get("timeout_s")}
        rows.append({**params, **head, **filled_policy(known, step)})
    return rows
