"""Templates: missions drawn up once with `{parameters}`, made into missions again and again."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.columns import checked_name
from fleet.commit import commit, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.locked import one
from fleet.models import Robot, Site
from fleet.refusals import Refused
from missions import command_types, plans, step_policy
from missions.drawing_up import draft_mission
from missions.models import Importance, OriginKind, Template

MAX_PARAMETERS = 20
TYPES = {"place": "Place", "text": "Text", "number": "Number"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")
SAMPLE = {"place": "", "text": "x", "number": 1}


def save_template(
    *,
    name: str,
    site: Site | int,
    title: str,
    steps: Sequence[Mapping[str, Any]],
    by: Origin,
    parameters: Sequence[Mapping[str, Any]] = (),
    template_id: UUID | None = None,
    version: int | None = None,
    priority: int = 0,
    importance: str = Importance.NORMAL,
    timeout_s: int = 600,
    needs_approval: bool = False,
) -> UUID:
    """Draw up a template, or change the one named. Texts of `title` and of steps' parameters may hold `{parameter}`.

    `parameters`: dicts with `name`, `type` (place, text, number) and, if wanted, `label` and `default`.
    """
    name = checked_name("name", name)
    if not 1 <= len(steps) <= plans.MAX_STEPS:
        raise Refused(f"steps: A template has 1 to {plans.MAX_STEPS} steps.")
    known = _checked_parameters(parameters)
    rows = [
        {
            "command": s.get("command", ""), "params": dict(s.get("params", {})), "timeout_s": s.get("timeout_s"),
            **step_policy.said(s),
        }
        for s in steps
    ]  # fmt: skip
    _checked_placeholders(title, rows, {p["name"] for p in known})
    site_id = site.pk if isinstance(site, Site) else site
    fields: dict[str, Any] = {
        "name": name, "site_id": site_id, "title": plans.checked_title(title), "steps": rows,
        "parameters": known, "priority": plans.checked_priority(priority), "importance": str(importance),
        "timeout_s": timeout_s, "needs_approval": bool(needs_approval),
    }  # fmt: skip
    values = {p["name"]: p["default"] if p["default"] != "" else SAMPLE[p["type"]] for p in known}
    if all(values[p["name"]] != "" for p in known):  # a place without a default cannot be tried
        _try(fields, values)

    def save(change: Change) -> None:
        if template_id is None:
            change.record("template.drafted", **fields, created_at=change.now, created_by=by.actor_name)
            return
        if version is not None and version != change.row.version:
            raise Refused("It has changed since you looked. Read it again and decide anew.")
        change.record("template.edited", **fields)

    try:
        return _change(template_id, by, save)
    except IntegrityError as error:
        if "template_name_once_per_site" not in str(error):
            raise
        raise Refused(f"name: This site has a template called {name} already.") from error


def retire_template(template_id: UUID, *, by: Origin) -> None:
    """Take it out of use; missions made from it stay."""
    _change(template_id, by, lambda change: change.record("template.retired", retired_at=change.now))


def mission_of_template(
    template_id: UUID, values: Mapping[str, Any], *, by: Origin, robot: Robot | str | None = None, key: str = ""
) -> UUID:
    """Draw up a mission with these values for the parameters; those left out have their defaults. `key`: once."""
    template = Template.objects.filter(pk=template_id).first()
    if template is None:
        raise Refused(f"There is no template {template_id}.")
    if template.retired_at:
        raise Refused(f"“{template}” is out of use. Choose another template.")
    filled = _values(template.parameters, values)
    return draft_mission(
        title=str(fill(template.title, filled))[:200], site=template.site_id, steps=_steps(template.steps, filled),
        robot=robot, by=by, priority=template.priority, timeout_s=template.timeout_s, importance=template.importance,
        needs_approval=template.needs_approval, origin_kind=OriginKind.TEMPLATE, template_id=template.pk, key=key,
    )  # fmt: skip


def _change(template_id: UUID | None, by: Origin, record: Callable[[Change], None]) -> UUID:
    now = timezone.now()
    with transaction.atomic():
        if template_id is None:
            change = new(AGGREGATES["template"], uuid4())
        else:
            change = one("template", template_id)
            if change.row.retired_at:
                raise Refused(f"“{change.row}” is out of use.")
        change.origin, change.now = by, now
        record(change)
        commit([change], now=now)
    return change.row.pk  # type: ignore[no-any-return]


def _checked_parameters(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if len(parameters) > MAX_PARAMETERS:
        raise Refused(f"parameters: At most {MAX_PARAMETERS}.")
    known: dict[str, dict[str, Any]] = {}
    for parameter in parameters:
        name, kind = str(parameter.get("name", "")), parameter.get("type", "text")
        if not _NAME.match(name) or name in known:
            raise Refused(f"parameters: “{name}” must be a name of its own: small letters, digits and underscores.")
        if kind not in TYPES:
            raise Refused(f"parameters: {name} is of type {', '.join(TYPES)}.")
        default = parameter.get("default", "")
        if default not in ("", None):
            default = typed(name, kind, default)
        label = str(parameter.get("label") or name.replace("_", " ").capitalize())[:100]
        known[name] = {"name": name, "type": kind, "label": label, "default": "" if default is None else default}
    return list(known.values())


def _checked_placeholders(title: str, steps: list[dict[str, Any]], names: set[str]) -> None:
    for where, value in (("title", title), *((f"Step {n}", step["params"]) for n, step in enumerate(steps, 1))):
        if unknown := _placeholders(value) - names:
            raise Refused(f"{where}: {{{min(unknown)}}} is no parameter of this template.")
    for number, step in enumerate(steps, 1):
        if step["command"] not in command_types.TYPES:
            raise Refused(f"Step {number}, command: Choose one of {', '.join(command_types.TYPES)}.")


def _placeholders(value: Any) -> set[str]:
    if isinstance(value, str):
        return set(PLACEHOLDER.findall(value))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(_placeholders, inner))


def _try(fields: dict[str, Any], values: dict[str, Any]) -> None:
    """The mission that it would make must be one that can be drawn up."""
    plans.checked(
        title=str(fill(fields["title"], values))[:200], site=fields["site_id"],
        steps=_steps(fields["steps"], values), priority=fields["priority"], timeout_s=fields["timeout_s"],
        importance=fields["importance"], needs_approval=fields["needs_approval"],
    )  # fmt: skip


def _values(parameters: list[dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := given.keys() - {p["name"] for p in parameters}:
        raise Refused(f"{min(unknown)}: The template has no such parameter.")
    values = {}
    for parameter in parameters:
        value = given.get(parameter["name"])
        if value in (None, ""):
            value = parameter["default"]
        if value == "":
            raise Refused(f"{parameter['name']}: This is needed.")
        values[parameter["name"]] = typed(parameter["name"], parameter["type"], value)
    return values


def typed(name: str, kind: str, value: Any) -> Any:
    if kind != "number":
        if not isinstance(value, str) or len(value) > command_types.MAX_TEXT or "\x00" in value:
            raise Refused(f"{name}: Text of at most {command_types.MAX_TEXT} characters.")
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Refused(f"{name}: A number.") from None
    if isinstance(value, bool) or not -1e15 < number < 1e15:
        raise Refused(f"{name}: A number.")
    return int(number) if number.is_integer() else number


def _steps(steps: list[dict[str, Any]], values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**step, "params": fill(step["params"], values)} for step in steps]


def fill(value: Any, values: dict[str, Any]) -> Any:
    """Parameters in place of their names. A text that is nothing but one parameter becomes its value, type and all."""
    if isinstance(value, dict):
        return {key: fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    if not isinstance(value, str):
        return value
    if (whole := PLACEHOLDER.fullmatch(value)) and whole[1] in values:
        return values[whole[1]]
    return PLACEHOLDER.sub(lambda m: str(values.get(m[1], m[0])), value)
