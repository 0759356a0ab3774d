"""Settings of a driver as fields of a form, and back: plain inputs, one for each setting, with what is usual."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms

from fleet.ports.drivers import Driver, Setting

AS_USUAL = ""  # of a robot's own settings: as its brand
YES_NO = [("yes", "Yes"), ("no", "No")]
_TEXTS = ("text", "list", "map", "json")
_HOW = {
    "list": "Several, with commas between.",
    "map": "One a line: name = value.",
    "json": 'JSON, as {} or {"name": {"key": 1}}.',
}


def name_of(driver: Driver, setting: Setting) -> str:
    """Of the input in a form that holds fields of several drivers."""
    return f"setting-{driver.name}-{setting.name}"


def fields(
    driver: Driver, profile: Mapping[str, Any], *, over: Mapping[str, Any] | None = None
) -> dict[str, forms.Field]:
    """Input name → field, filled in with these settings. `over`: the settings that these are laid over, empty as they."""
    return {name_of(driver, s): _field(s, profile, over) for s in driver.settings}


def _field(setting: Setting, profile: Mapping[str, Any], over: Mapping[str, Any] | None) -> forms.Field:
    usual = setting.default if over is None else over.get(setting.name, setting.default)
    shown = _shown(setting, usual)
    said = (f"Usually {shown}." if over is None else f"Empty: {shown}, as its brand.") if shown else ""
    help = setting.help.partition("Empty: ")[0].strip() if over is not None and shown else setting.help  # one meaning
    value = profile.get(setting.name, AS_USUAL if over is not None else usual)
    about: dict[str, Any] = {
        "label": setting.label, "required": False,
        "help_text": " ".join(part for part in (help, _HOW.get(setting.kind, ""), said) if part) or "Usually empty.",
        "initial": "" if value == AS_USUAL and over is not None else _shown(setting, value, raw=True),
    }  # fmt: skip
    if setting.kind in ("choice", "yes_no"):
        choices = YES_NO if setting.kind == "yes_no" else [(c, c) for c in setting.choices]
        usually = [("", f"As its brand: {shown}")] if over is not None else [("", "None")] if setting.optional else []
        return forms.ChoiceField(choices=[*usually, *choices], **about)
    if setting.kind == "whole":
        return forms.IntegerField(**about)
    if setting.kind == "number":
        return forms.FloatField(**about)
    long = setting.kind in ("map", "json")
    return forms.CharField(
        max_length=8000, widget=forms.Textarea(attrs={"rows": 3}) if long else forms.TextInput(), **about
    )


def _shown(setting: Setting, value: Any, raw: bool = False) -> str:
    """A value as people enter it (`raw`) or read it."""
    if value is None:
        return "" if raw else "none"
    if setting.kind == "yes_no":
        return "yes" if value is True else "no" if value is False else str(value)
    if setting.kind == "list" and isinstance(value, list):
        return ", ".join(map(str, value))
    if setting.kind == "map" and isinstance(value, dict):
        return "\n".join(f"{k} = {v}" for k, v in value.items())
    if setting.kind == "json":
        return json.dumps(value, ensure_ascii=False) if value or raw else ""
    return f"{value:g}" if isinstance(value, float) and not raw else str(value)


def profile_of(form: Any, driver: Driver, *, over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings that are not as usual, of a form that was filled in. What is wrong is said at its field."""
    found: dict[str, Any] = {}
    for setting in driver.settings:
        name = name_of(driver, setting)
        if name not in form.cleaned_data or form.add_prefix(name) not in form.data:
            continue  # wrong already, or not asked for
        told = form.cleaned_data[name]
        try:
            value = _value(setting, told)
        except ValueError as error:
            form.add_error(name, str(error))
            continue
        emptied = told in ("", None)
        if emptied and (over is not None or setting.kind not in _TEXTS or driver.wrong({setting.name: value})):
            value = None if setting.optional and over is None else setting.default
            if over is not None or value == setting.default:
                continue
        if over is not None or value != setting.default:
            found[setting.name] = value
    names = {s.name for s in driver.settings}
    for setting_name, why in driver.wrong({**(over or {}), **found}).items():
        known = next((s for s in driver.settings if s.name == setting_name), None)
        field = name_of(driver, known) if known and setting_name in names else None
        if field is None or field not in form.errors:
            form.add_error(field, why)
    return found


def _value(setting: Setting, told: Any) -> Any:
    """What a person entered as the setting wants it. ValueError says what is wrong."""
    if setting.kind == "yes_no" and told:
        return told == "yes"
    if setting.kind == "list":
        return [word.strip() for word in told.split(",") if word.strip()]
    if setting.kind == "map":
        lines = [line.partition("=") for line in told.splitlines() if line.strip()]
        if any(not sign or not key.strip() for key, sign, _ in lines):
            raise ValueError("One a line, name = value.")
        return {key.strip(): value.strip() for key, _, value in lines}
    if setting.kind == "json":
        try:
            return json.loads(told) if told.strip() else setting.default
        except (ValueError, RecursionError):
            raise ValueError("This is no JSON.") from None
    return told


def in_words(driver: Driver, profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, value) of what is not as usual, for pages; settings that the driver does not know by their names."""
    known = {s.name: s for s in driver.settings}
    return [
        (known[name].label, _shown(known[name], value) or "empty") if name in known else (name, str(value)[:200])
        for name, value in profile.items()
    ]
