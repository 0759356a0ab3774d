"""The installed drivers as people choose among them and set them: what fleet's port (fleet/ports/drivers.py) is filled with."""

import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import inspect

from fleet.ports import drivers as port
from telemetry.drivers import registry
from telemetry.drivers.contract import Driver, Spec

WILD = "+#"  # stand for many topics, so they are in no address
_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "text", inspect.IntType: "whole", inspect.FloatType: "number", inspect.BoolType: "yes_no",
}  # fmt: skip
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (-?\d+(?:\.\d+)?)")
_SAID = {">=": "At least {}.", "<=": "At most {}.", ">": "More than {}.", "<": "Less than {}."}


def known() -> dict[str, port.Driver]:
    """All that can be used; what Drover's own addresses speak comes first."""
    return _known(tuple(registry.get(name) for name in registry.names()))


@cache
def _known(drivers: tuple[Driver, ...]) -> dict[str, port.Driver]:
    return {d.name: _shown(d) for d in sorted(drivers, key=lambda d: (d.transport != "socket", d.label))}


def _shown(driver: Driver) -> port.Driver:
    return port.Driver(
        name=driver.name,
        label=driver.label,
        transport=driver.transport,
        address=driver.address,
        strict_sequence=driver.strict_sequence,
        settings=tuple(_settings(driver)),
        timing=msgspec.structs.asdict(driver.timing),
        wrong=partial(wrong, driver),
        wrong_address=partial(wrong_address, driver),
        topics=partial(topics, driver),
    )


def _settings(driver: Driver) -> Iterable[port.Setting]:
    shape = inspect.type_info(driver.profile)
    assert isinstance(shape, inspect.StructType)
    for field in shape.fields:
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        told: dict[str, Any] = {}
        type, optional = _bare(field.type, told)
        kind, choices = _kind(type)
        label = told.get("title") or field.name.replace("_", " ").capitalize()
        yield port.Setting(
            field.encode_name, label, kind, msgspec.to_builtins(default), told.get("description", ""), choices, optional
        )


def _bare(type: inspect.Type, told: dict[str, Any]) -> tuple[inspect.Type, bool]:
    """Without what is said about it, and whether it may be null."""
    optional = False
    while True:
        if isinstance(type, inspect.Metadata):
            told |= {**(type.extra_json_schema or {}), **told}
            type = type.type
        elif isinstance(type, inspect.UnionType) and type.includes_none and len(type.types) == 2:
            optional, type = True, next(t for t in type.types if not isinstance(t, inspect.NoneType))
        else:
            return type, optional


def _kind(type: inspect.Type) -> tuple[str, tuple[str, ...]]:
    """How people enter it, and among what they choose. What no field can hold is entered as JSON."""
    if isinstance(type, inspect.LiteralType) and all(isinstance(v, str) for v in type.values):
        return "choice", tuple(str(v) for v in type.values)
    if isinstance(type, _LISTS) and isinstance(_bare(type.item_type, {})[0], inspect.StrType):
        return "list", ()
    if isinstance(type, inspect.DictType) and isinstance(_bare(type.value_type, {})[0], inspect.StrType):
        return "map", ()
    return _KINDS.get(type.__class__, "json"), ()


def wrong(driver: Driver, profile: dict[str, Any]) -> dict[str, str]:
    """Setting → what is wrong with it, as far as that is known; the empty name stands for all of it."""
    names = {field.encode_name for field in msgspec.structs.fields(driver.profile)}
    found = {name: "There is no such setting." for name in profile if name not in names}
    try:
        registry.settings(driver, {k: v for k, v in profile.items() if k in names}, {})
    except Exception as error:  # a driver's own check may raise anything
        name, _, reason = str(error).partition(": ")
        field = re.split(r"[.\[]", name)[0]
        found[field if field in names else ""] = _in_words(reason if field in names else str(error))
    return found


def _in_words(reason: str) -> str:
    if bound := _BOUND.search(reason):
        return _SAID[bound[1]].format(f"{float(bound[2]):g}")
    return "It is not of the form that it needs to have." if "matching regex" in reason else reason[:300]


def wrong_address(driver: Driver, id: str, address: str, profile: dict[str, Any]) -> str:
    """Whether the topics that the driver listens to under this address are those of this address."""
    told = address or id
    form = f"“{told}” is none. {_shown(driver).address}"
    if set(told) & set(WILD):
        return form
    try:
        listens = topics(driver, id, address, profile)
        theirs = [driver.whose(topic) for topic in listens if not set(topic) & set(WILD)]
    except Exception:  # a driver may raise anything at what it cannot use
        return form
    return "" if all(whose is not None and whose[0] == told for whose in theirs) else form


def topics(driver: Driver, id: str, address: str, profile: dict[str, Any]) -> list[str]:
    """What is listened to for this robot."""
    spec = Spec(id=id, address=address or id, profile=registry.settings(driver, profile, {}))
    return [topic for topic, _ in driver.topics(spec)]
