"""Which drivers there are: the built-in ones, and those that installed packages offer (entry points `drover.drivers`).

A package that cannot be used is named with the reason, and costs only its own driver: everything else runs.
"""

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import msgspec

from telemetry.drivers.contract import ENTRY_POINTS, VERSION, Driver, Timing

log = logging.getLogger(__name__)

BUILT_IN = {
    "native": "telemetry.drivers.native:driver",
    "vda5050": "telemetry.drivers.vda5050:driver",
}

_METHODS = ("topics", "commands", "discovery", "whose", "converse")


class Unusable(LookupError):
    """There is no such driver here, or its package cannot be used: the text says which, why, and what to do."""


class _Found(NamedTuple):
    """All drivers by name, and what is wrong with those that cannot be used."""

    usable: dict[str, Driver]
    unusable: dict[str, str]


def get(name: str) -> Driver:
    """The driver of this name. Raises `Unusable`."""
    found = _found()
    if name not in found.usable:
        raise Unusable(why_not(name))
    return found.usable[name]


def why_not(name: str) -> str:
    """Why there is no driver of this name here, and what to do, for people."""
    there = ", ".join(names())
    missing = f"There is no driver {name!r} here, only {there}. Install the package that brings it, and restart."
    return _found().unusable.get(name, missing)


def names() -> list[str]:
    """Drivers that can be used, in order of the alphabet."""
    return sorted(_found().usable)


def settings(driver: Driver, brand: Mapping[str, Any], robot: Mapping[str, Any]) -> Any:
    """`Spec.profile`: the brand's settings with the robot's own laid over them. ValueError names the field."""
    try:
        return msgspec.convert({**brand, **robot}, driver.profile)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise ValueError(f"{path.strip('`.') or 'profile'}: {reason}") from None


def forget() -> None:
    """Look anew with the next question: packages have come or gone."""
    _found.cache_clear()


@cache
def _found() -> _Found:
    found = _Found({}, {})
    for name, value in BUILT_IN.items():
        _add(found, EntryPoint(name, value, ENTRY_POINTS), "Drover itself")
    offers: dict[str, list[EntryPoint]] = {}
    for offer in entry_points(group=ENTRY_POINTS):
        offers.setdefault(offer.name, []).append(offer)
    for name, several in sorted(offers.items()):
        packages = " and ".join(sorted({_package(offer) for offer in several}))
        if name in BUILT_IN:
            log.error("The driver %s of %s is not used: Drover brings one of that name. Uninstall it.", name, packages)
        elif len(several) > 1:
            why = f"The driver {name!r} is offered twice, by {packages}. Uninstall one of them, and restart."
            _give_up(found, name, why)
        else:
            _add(found, several[0], packages)
    return found


def _add(found: _Found, offer: EntryPoint, package: str) -> None:
    try:
        loaded = offer.load()
        wrong = _wrong(offer.name, loaded)
    except (Exception, SystemExit) as error:  # what a stranger's module does when it is imported
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        why = f"The driver {offer.name!r} ({offer.value}, from {package}) cannot be used: {wrong}."
        return _give_up(found, offer.name, f"{why} Correct or update the package, and restart.")
    found.usable[offer.name] = loaded
    return None


def _give_up(found: _Found, name: str, why: str) -> None:
    log.error("%s Robots of its brands are not served; all others are.", why)
    found.unusable[name] = why


def _package(offer: EntryPoint) -> str:
    return f"{offer.dist.name} {offer.dist.version}" if offer.dist is not None else "an unnamed package"


# what a driver must be: what is said when it is not, and the question
_CHECKS: tuple[tuple[str, Callable[[str, Any], bool]], ...] = (
    ("names a class; it must name an object, such as `driver = MyDriver()`", lambda name, it: not isinstance(it, type)),
    (f"is not written for version {VERSION} of the contract, which is spoken here (its `contract`)",
     lambda name, it: it.contract == VERSION),
    ("its name is 1 to 40 of a-z 0-9 . _ -", lambda name, it: bool(re.fullmatch(r"[a-z0-9._-]{1,40}", it.name))),
    ("its `name` is another than its entry point's", lambda name, it: it.name == name),
    ("its `label` is no text", lambda name, it: isinstance(it.label, str) and bool(it.label)),
    ("its `transport` is neither mqtt nor socket", lambda name, it: it.transport in ("mqtt", "socket")),
    ("its `address` is no text", lambda name, it: isinstance(it.address, str)),
    ("its `profile` is no msgspec.Struct", lambda name, it: issubclass(it.profile, msgspec.Struct)),
    ("its `profile` has a field without a default", lambda name, it: not any(
        field.required for field in msgspec.structs.fields(it.profile))),
    ("its `timing` is no Timing", lambda name, it: isinstance(it.timing, Timing)),
    ("its `strict_sequence` is neither true nor false", lambda name, it: isinstance(it.strict_sequence, bool)),
    ("its `newest` is no frozenset", lambda name, it: isinstance(it.newest, frozenset)),
    (f"one of {', '.join(_METHODS)} is no function",
     lambda name, it: all(callable(getattr(it, method)) for method in _METHODS)),
)  # fmt: skip


def _wrong(name: str, loaded: Any) -> str:
    """What is wrong with it; empty when nothing is."""
    try:
        return next((text for text, holds in _CHECKS if not holds(name, loaded)), "")
    except (AttributeError, TypeError) as error:
        return str(error)
