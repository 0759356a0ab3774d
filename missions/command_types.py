"""The registry of command types: what a step may ask of a robot, with typed parameters.

Pages build their fields from this table, actions validate by it, and it says every step in words.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fleet.robots.abilities import cannot_words, missing, needed, words

MAX_TEXT = 200
MAX_ARGS_BYTES = 4096
MAX_ARGS_DEPTH = 8
MAX_TIMEOUT_S = 86400


class Invalid(ValueError):
    """A command that may not be stored. `field` names the parameter (`command` for the type itself)."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


Name = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Seconds = Annotated[float, Meta(gt=0, le=86400)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of one command type. A field called `place` must name a place of the mission's site."""


class Navigate(Params, frozen=True):
    place: Name


class Handle(Params, frozen=True):
    place: Name
    load: Text = ""


class Wait(Params, frozen=True):
    seconds: Seconds


class Charge(Params, frozen=True):
    place: Text = ""
    until_percent: Percent = 100


class Custom(Params, frozen=True):
    name: Name
    args: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Input:
    """How a person enters one parameter: `kind` is place, text, number or json; `rule` says what is accepted.

    `default` is what an empty one becomes, as people read it.
    """

    name: str
    label: str
    kind: str
    rule: str
    required: bool = True
    help: str = ""
    unit: str = ""
    default: str = ""

    @property
    def title(self) -> str:
        """Label with unit: Wait for (s)."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True, slots=True)
class CommandType:
    """One line of the registry.

    `timeout_s` is the default time for one attempt; `repeatable` says whether a mere timeout may repeat it; `confirm`
    whether only the robot's own word says that it was done (what comes later proves nothing);
    `words` makes the sentence people read from valid parameters, `help` says what the robot will do.
    """

    name: str
    label: str
    params: type[Params]
    timeout_s: int
    repeatable: bool
    confirm: bool
    inputs: tuple[Input, ...]
    words: Callable[[Any], str]
    help: str


def _load(verb: str) -> Callable[[Any], str]:
    return lambda p: f"{verb} {p.load} at {p.place}" if p.load else f"{verb} at {p.place}"


_TEXT = f"Text of at most {MAX_TEXT} characters."
_PLACE = Input("place", "Place", "place", _TEXT)
_LOAD = Input("load", "Load", "text", _TEXT, required=False, help="What is carried, e.g. pallet 7.")

TYPES: dict[str, CommandType] = {
    t.name: t
    for t in (
        CommandType(
            "navigate", "Navigate", Navigate, 60, True, False, (_PLACE,), lambda p: f"Drive to {p.place}",
            "The robot drives there and stands.",
        ),
        CommandType(
            "pick", "Pick", Handle, 60, False, True, (_PLACE, _LOAD), _load("Pick"),
            "The robot drives there and takes something up.",
        ),
        CommandType(
            "drop", "Drop", Handle, 60, False, True, (_PLACE, _LOAD), _load("Drop"),
            "The robot drives there and puts down what it carries.",
        ),
        CommandType(
            "wait", "Wait", Wait, 60, True, False,
            (Input("seconds", "Wait for", "number", "More than 0 and at most 86400 (one day).", unit="s"),),
            lambda p: f"Wait {p.seconds:g} s",
            "The robot stands where it is.",
        ),
        CommandType(
            "charge", "Charge", Charge, 3600, True, False,
            (
                Input(
                    "place", "Place", "place", _TEXT, required=False, help="Empty: the robot chooses.",
                    default="the robot chooses",
                ),
                Input(
                    "until_percent", "Charge to", "number", "A whole number from 1 to 100.", required=False,
                    help="100 when empty.", unit="%", default="100",
                ),
            ),
            lambda p: f"Charge{f' at {p.place}' if p.place else ''} to {p.until_percent} %",
            "The robot drives to the charger and stays until its battery is that full.",
        ),
        CommandType(
            "custom", "Custom", Custom, 60, False, False,
            (
                Input("name", "Name", "text", _TEXT, help="The brand's own name of the command."),
                Input("args", "Arguments", "json", 'A JSON object, e.g. {"height": 2}.', required=False),
            ),
            lambda p: f"Run {p.name}" + (f" with {msgspec.json.encode(p.args).decode()}" if p.args else ""),
            "A command that only this brand knows; it is passed on as it is.",
        ),
    )
}  # fmt: skip


def validate(
    command: str,
    params: dict[str, Any],
    *,
    places: Collection[str],
    capabilities: Collection[str],
    whose: str = "",
) -> dict[str, Any]:
    """The parameters as they are stored: complete, typed, bounded. Raises `Invalid` naming the field.

    `places` are the names on the mission's site, `capabilities` what the robot can do (fleet/robots/abilities.py);
    `whose`: name of the robot, where it says that itself.
    """
    known = TYPES.get(command) if isinstance(command, str) else None
    if known is None:
        raise Invalid("command", f"Choose one of {', '.join(TYPES)}.")
    _check_ability(command, capabilities, whose)
    if not isinstance(params, dict):
        raise Invalid("params", "Must be an object.")
    typed = _typed(known, params)
    _check_ability(needed(command, params), capabilities, whose, "name")
    place = getattr(typed, "place", "")
    if place and place not in places:
        raise Invalid("place", f"{place} is no place of this site. Choose one of the list.")
    stored: dict[str, Any] = msgspec.to_builtins(typed)
    return stored


def _check_ability(need: str, able: Collection[str], whose: str, field: str = "command") -> None:
    if not missing([need], able):
        return
    if whose:
        raise Invalid(field, f"{whose} {cannot_words([need], able, True)}.")
    what, can = need.replace(":", " "), words([str(a) for a in able])
    raise Invalid(field, f"Robots of this brand cannot do {what}; they can do {can}.")


def default_timeout_s(command: str, params: dict[str, Any], brand: Mapping[str, int] | None = None) -> int:
    """Time for one attempt, s, when nobody chose one: the type's default, and longer than a wait itself.

    `brand`: command type → seconds, where a brand needs other than the usual (Brand.step_timeouts).
    """
    seconds = params.get("seconds", 0) if command == "wait" else 0
    return min((brand or {}).get(command, TYPES[command].timeout_s) + math.ceil(seconds), MAX_TIMEOUT_S)


def in_words(command: str, params: dict[str, Any]) -> str:
    """One line for people. Never raises: a stored step of an unknown or older form is shown by its name."""
    known = TYPES.get(command)
    try:
        return known.words(msgspec.convert(params, known.params)) if known else command
    except msgspec.ValidationError:
        return command


def _typed(known: CommandType, params: dict[str, Any]) -> Params:
    for name in params.keys() & set(known.params.__struct_fields__):
        value = params[name]
        _bounded(name, value, MAX_ARGS_DEPTH)
        if isinstance(value, dict) and len(msgspec.json.encode(value)) > MAX_ARGS_BYTES:
            raise Invalid(name, f"Too long: at most {MAX_ARGS_BYTES} bytes of JSON.")
    unknown = params.keys() - set(known.params.__struct_fields__)
    if unknown:
        raise Invalid(min(map(str, unknown)), f"{known.name} has no such parameter.")
    for name in known.params.__struct_fields__[: _required(known.params)]:
        if params.get(name) in (None, ""):
            raise Invalid(name, "This is needed.")
    try:
        return msgspec.convert(params, known.params)
    except msgspec.ValidationError as error:
        _, _, path = str(error).partition(" - at `$.")
        rules = {spec.name: spec.rule for spec in known.inputs}
        name = path.rstrip("`")
        raise Invalid(name if name in rules else "params", rules.get(name, str(error))) from None


def _required(params: type[Params]) -> int:
    return len(params.__struct_fields__) - len(params.__struct_defaults__)


def _bounded(field: str, value: Any, depth: int) -> None:
    """Refuse what JSON, PostgreSQL or a person's patience cannot hold."""
    if depth < 0:
        raise Invalid(field, f"Nested too deeply: at most {MAX_ARGS_DEPTH} levels.")
    match value:
        case str():
            if "\x00" in value:
                raise Invalid(field, "Must not contain the NUL character.")
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Invalid(field, "Is not valid text.") from None
        case bool() | None:
            pass
        case int():
            if not -(2**63) <= value < 2**63:
                raise Invalid(field, "Number out of range.")
        case float():
            if not math.isfinite(value):
                raise Invalid(field, "Must be a finite number.")
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise Invalid(field, "Keys must be text.")
                _bounded(field, key, depth)
                _bounded(field, inner, depth - 1)
        case list() | tuple():
            for inner in value:
                _bounded(field, inner, depth - 1)
        case _:
            raise Invalid(field, "Must be plain JSON.")
