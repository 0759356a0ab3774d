"""The part of a step's form that says what happens when it goes wrong. What is not said is as usual for the command."""

from collections.abc import Mapping
from typing import Any

from django import forms

from fleet.refusals import Refused, named
from missions import step_policy
from missions.command_types import CommandType
from missions.models import Then
from missions.step_wording import course_words

USUAL = ("", "As usual for the command")
_THEN = [("", "Abort the mission"), (Then.SKIP.value, "Skip the step")]  # a row without anything says nothing
_YES_NO = {"yes": True, "no": False}
_LABELS = {
    "timeout_retries": "Timeout: more tries",
    "timeout_then": "Timeout: at last",
    "failure_retries": "Failure: more tries",
    "failure_then": "Failure: at last",
    "repeatable": "May be repeated",
    "confirm": "Only its word counts",
}


def policy_fields() -> dict[str, forms.Field]:
    """One input per column of the policy, in the order of the page."""
    made: dict[str, forms.Field] = {}
    for name, label in _LABELS.items():
        if name.endswith("_retries"):
            made[name] = forms.IntegerField(
                label=label, required=False, min_value=0, max_value=step_policy.MAX_RETRIES,
                widget=forms.NumberInput(attrs={"placeholder": "0"}),
            )  # fmt: skip
        elif name.endswith("_then"):
            made[name] = forms.ChoiceField(label=label, required=False, choices=_THEN)
        else:
            choices = [USUAL, ("yes", "Yes"), ("no", "No")]
            made[name] = forms.ChoiceField(label=label, required=False, choices=choices)
    return made


def chosen(said: Mapping[str, Any]) -> dict[str, Any]:
    """Of what the form says, the policy: only what is not as usual."""
    values = {name: said.get(name) for name in _LABELS}
    for name in ("repeatable", "confirm"):
        values[name] = _YES_NO.get(values[name] or "")
    return step_policy.said(values)


def refusal(known: CommandType, policy: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with it, if anything: the field and the reason."""
    try:
        step_policy.checked(1, {"command": known.name, **policy})
    except Refused as refused:
        where, reason = named(refused)
        return where.partition(", ")[2], reason
    return None


def filled_policy(known: CommandType | None, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Initial values for a stored policy; what is as usual is left to the command."""
    policy = {name: stored[name] for name in _LABELS if stored.get(name) not in (None, "", 0, Then.ABORT)}
    for name in ("repeatable", "confirm"):
        usual = known is None or stored.get(name) in (None, "", getattr(known, name))
        policy[name] = "" if usual else "yes" if stored[name] else "no"
    return policy


def says(values: Mapping[str, Any]) -> str:
    """The line for what is in the inputs, also when it is wrong."""
    policy = {}
    for why in ("timeout", "failure"):
        tries = str(values.get(f"{why}_retries") or 0)
        policy[f"{why}_retries"] = int(tries) if tries.isdecimal() and len(tries) < 10 else 0
        then = values.get(f"{why}_then")
        policy[f"{why}_then"] = then if then in Then.values else Then.ABORT.value
    return course_words(policy)
