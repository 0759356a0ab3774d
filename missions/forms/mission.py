"""The form to draw up a mission: its head, and the rows of its steps, checked as they will be when it is saved."""

from collections.abc import Container
from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction

from fleet.models import OfflinePolicy
from fleet.refusals import Refused, to_field
from missions import plans
from missions.command_types import MAX_TIMEOUT_S, TYPES
from missions.forms.choices import Choices
from missions.forms.steps import PREFIX, Problem, StepFormSet, filled, problems_of
from missions.models import Importance
from missions.step_policy import COLUMNS as POLICY

WHEN = "A date and a time, e.g. 2026-12-01 14:30."
NEEDED = {"required": "This is needed."}
CHOOSE_FOR_ME = "Choose for me: whoever can do it and is free"


def _moment() -> forms.DateTimeInput:
    return forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class RobotField(forms.ChoiceField):
    """Puts its choices into words only when they are shown: there may be thousands, and a form is checked while one types."""

    known: Container[str] = ()

    def valid_value(self, value: str) -> bool:
        return value in self.known


class MissionForm(forms.Form):
    """Title, where and by whom; and under “More” how urgent, when and after what."""

    title = forms.CharField(
        max_length=200, error_messages=NEEDED, help_text="What people will call it, e.g. Pallet 7 to Dock A.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )  # fmt: skip
    site = forms.TypedChoiceField(
        coerce=int, error_messages={**NEEDED, "invalid_choice": "Choose one of the list."}, help_text="Where it runs."
    )
    robot = RobotField(
        required=False, error_messages={"invalid_choice": "There is no such robot in service. Choose one of the list."},
        help_text="What each is doing now. One that is busy does this when it is done.",
    )  # fmt: skip
    importance = forms.ChoiceField(
        choices=Importance.choices,
        initial=Importance.NORMAL,
        required=False,
        help_text="If an important one goes wrong, people are told.",
    )
    priority = forms.IntegerField(
        initial=0, min_value=plans.LEAST_PRIORITY, max_value=plans.MOST_PRIORITY, error_messages=NEEDED,
        help_text=f"From {plans.LEAST_PRIORITY} to {plans.MOST_PRIORITY}. Of those that wait for a robot, the higher goes first; of equals, the older.",
    )  # fmt: skip
    not_before = forms.DateTimeField(
        label="Not before (UTC)", required=False, widget=_moment(), error_messages={"invalid": WHEN},
        help_text="Empty: as soon as it is run. Otherwise it waits in the queue until then.",
    )  # fmt: skip
    expires_at = forms.DateTimeField(
        label="Expires (UTC)", required=False, widget=_moment(), error_messages={"invalid": WHEN},
        help_text="If it has not begun by then, it is aborted. Empty: it waits as long as it takes.",
    )  # fmt: skip
    timeout_s = forms.IntegerField(
        label="Time for the whole mission (s)", required=False, min_value=1, max_value=MAX_TIMEOUT_S,
        help_text="Counted from the robot's acceptance. Then it is asked, stopped, and the mission aborted. "
        "Empty: as the robot's brand says.",
    )  # fmt: skip
    offline_policy = forms.ChoiceField(
        label="When offline too long", required=False,
        choices=[("", "As the robot's brand says"), *OfflinePolicy.choices],
        help_text="When its robot has been offline as long as its brand allows. It is handed over by itself only when it is "
        "certain that the robot does nothing more with it; otherwise you are asked.",
    )  # fmt: skip
    needs_approval = forms.BooleanField(
        label="Needs approval", required=False,
        help_text="It cannot run before somebody other than its authors has approved it.",
    )  # fmt: skip
    after = forms.TypedMultipleChoiceField(
        label="After these missions", required=False, coerce=UUID, widget=forms.CheckboxSelectMultiple,
        error_messages={"invalid_choice": "There is no such open mission. Choose those of the list."},
        help_text="It waits until all of them have succeeded. If one is aborted, this one is aborted too.",
    )  # fmt: skip
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    MAIN = ("title", "site", "robot")

    def __init__(self, *args: Any, choices: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choices = choices
        sites = list(choices.sites.items())
        self.fields["site"].choices = sites if len(sites) == 1 else [("", "Choose…"), *sites]  # type: ignore[attr-defined]
        robot: Any = self.fields["robot"]
        robot.known, robot.choices = choices.facts, lambda: [("", CHOOSE_FOR_ME), *choices.grouped_robots()]
        self.fields["after"].choices = [(str(pk), words) for pk, (_, words) in choices.missions.items()]  # type: ignore[attr-defined]
        if not choices.missions:
            del self.fields["after"]

    def main(self) -> list[Any]:
        return [self[name] for name in self.MAIN]

    def more(self) -> list[Any]:
        return [field for field in self.visible_fields() if field.name not in self.MAIN]

    def more_says(self) -> str:
        return "importance, priority, when, how long, what if offline, approval, after which missions"

    def more_is_open(self) -> bool:
        """Whether something there is not as it usually is, or is wrong. What was sent is text: "0"; the field reads it."""
        return any(f.errors or (f.value() and f.field.has_changed(f.field.initial, f.value())) for f in self.more())

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        robot, site = self.choices.facts.get(said.get("robot", "")), said.get("site")
        if robot and site and robot.site_id != site:
            here, there = self.choices.sites[site], self.choices.sites[robot.site_id]
            self.add_error("robot", f"{robot.id} works at {there}, not at {here}. Choose a robot of {here}.")
        said["robot"] = said.get("robot") or None
        said["importance"] = said.get("importance") or Importance.NORMAL
        return said

    def problems(self) -> list[Problem]:
        """Every error with its field, in words."""
        return problems_of(self)


def bound(data: Any, choices: Choices, mission_id: UUID | None = None) -> tuple[MissionForm, Any]:
    """Both forms with what was sent, checked against each other and by the rules of drawing up a mission."""
    form = MissionForm(data, choices=choices)
    form.is_valid()
    said = getattr(form, "cleaned_data", {})
    site = said.get("site")
    kwargs = {
        "places": None if site is None else set(choices.places.get(site, ())),
        "capabilities": choices.capabilities(site, said.get("robot") or ""),
        "whose": choices.whose(said.get("robot") or ""),
    }
    steps = StepFormSet(data, prefix=PREFIX, form_kwargs=kwargs)
    if steps.is_valid() and form.is_valid():
        _agree(form, steps.steps(), mission_id)
    return form, steps


def _agree(form: MissionForm, steps: list[dict[str, Any]], mission_id: UUID | None) -> None:
    """What only the rules of drawing up know: times that have passed, circles of dependencies."""
    said = {name: value for name, value in form.cleaned_data.items() if name not in ("version", "after")}
    try:
        with transaction.atomic():
            plans.checked(**said, steps=steps)
            plans.checked_after(form.cleaned_data.get("after", ()), said["site"], mission_id)
    except Refused as refused:
        to_field(form, refused)


def blank(initial: dict[str, Any], rows: list[dict[str, Any]], choices: Choices) -> tuple[MissionForm, Any]:
    """Both forms to fill in. Who works at one site does not have to say which."""
    if len(choices.sites) == 1:
        initial = {"site": next(iter(choices.sites)), **initial}
    anything = {"places": None, "capabilities": list(TYPES)}
    return (
        MissionForm(initial=initial, choices=choices),
        StepFormSet(prefix=PREFIX, initial=rows, form_kwargs=anything),
    )


def filled_in(mission: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Initial values of both forms for a mission that is drawn up."""
    names = (
        "title", "importance", "priority", "not_before", "expires_at", "timeout_s", "offline_policy", "needs_approval",
        "version",
    )  # fmt: skip
    head = {name: getattr(mission, name) for name in names}
    after = [str(pk) for pk in mission.dependencies.values_list("on", flat=True)]
    head |= {"site": mission.site_id, "robot": mission.robot_id, "after": after}
    return head, filled(mission.steps.values("command", "params", "timeout_s", *POLICY))


def problems(form: MissionForm, steps: Any) -> list[Problem]:
    """All that must be put right, the head first."""
    return form.problems() + steps.problems() if form.is_bound else []


def check(data: Any, choices: Choices, mission_id: UUID | None = None) -> dict[str, Any]:
    """What is wrong with what somebody is filling in, and who would get it; plain JSON. Stores nothing."""
    form, steps = bound(data, choices, mission_id)
    said = getattr(form, "cleaned_data", {})
    goes = choices.would_go_to(said["site"], said.get("robot") or "", steps.steps()) if said.get("site") else ""
    return {"problems": [problem._asdict() for problem in problems(form, steps)], "robot": goes}
