"""Brings a message of any form into a `typed` one: what cannot be read is left out and named.

Fields are counted by the standard's own names, never by words that a robot chose.
"""

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from telemetry.drivers.contract import Complaint
from telemetry.drivers.vda5050 import typed

T = TypeVar("T")

_BIGGEST = 2**53
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
_TRUTHS = {0: False, 1: True, "false": False, "true": True, "False": False, "True": True}


def parse(payload: bytes) -> dict[str, Any] | Complaint:
    """Any JSON that begins with an object, also with NaN, a mark of byte order, broken characters."""
    try:
        value = json.loads(payload.decode("utf-8-sig", "replace"), parse_int=_integer)
    except RecursionError:
        return Complaint(field="payload", reason="it is nested too deeply")
    except ValueError as error:
        return Complaint(field="payload", reason=f"it is not JSON: {str(error)[:200]}")
    if not isinstance(value, dict):
        return Complaint(field="payload", reason=f"an object is expected, not {_kind(value)}")
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 40 else math.inf


def clean(text: str) -> str:
    """Text that every store takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _kind(value: object) -> str:
    return "nothing" if value is None else _KINDS[type(value)]


class Fields:
    """One object of a message. Each reader answers None for what is missing, null, or wrong."""

    def __init__(self, raw: dict[str, Any], wrong: list[Complaint], path: str = "") -> None:
        self._raw, self._wrong, self._path = raw, wrong, path

    def has(self, name: str) -> bool:
        return name in self._raw

    def complain(self, name: str, reason: str) -> None:
        """Once for each field, so there are as many as the standard has fields, and none is crowded out."""
        if all(one.field != self._path + name for one in self._wrong):
            self._wrong.append(Complaint(field=self._path + name, reason=reason))

    def text(self, name: str) -> str | None:
        value = self._raw.get(name)
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _BIGGEST:
            return str(value)  # an id that somebody took for a number
        self._not(name, value, "a text")
        return None

    def whole(self, name: str) -> int | None:
        value = self._number(name, "a whole number")
        if value is None:
            return None
        if value != int(value):
            self.complain(name, "a whole number is expected, not a part of one")
            return None
        if not -(2**63) <= value < 2**63:
            self.complain(name, "the number is out of range")
            return None
        return int(value)

    def number(self, name: str) -> float | None:
        value = self._number(name, "a number")
        return None if value is None else float(value)

    def _number(self, name: str, expected: str) -> float | int | None:
        value = self._raw.get(name)
        if isinstance(value, str) and len(value) < 32:
            try:
                value = float(value)
            except ValueError:
                self._not(name, value, expected)
                return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if math.isfinite(value):
                return value
            self.complain(name, "the number is out of range")
            return None
        self._not(name, value, expected)
        return None

    def flag(self, name: str) -> bool | None:
        value = self._raw.get(name)
        if isinstance(value, bool):
            return value
        if isinstance(value, (int, str)) and value in _TRUTHS:
            return _TRUTHS[value]
        self._not(name, value, "true or false")
        return None

    def time(self, name: str) -> datetime | None:
        value = self._raw.get(name)
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value[:64].strip())
            except ValueError:
                self.complain(name, "it is no date and time")
                return None
        self._not(name, value, "a date and time")
        return None

    def section(self, name: str, read: "Callable[[Fields], T | None]") -> T | None:
        value = self._raw.get(name)
        if isinstance(value, dict):
            return read(Fields(value, self._wrong, f"{self._path}{name}."))
        self._not(name, value, "an object")
        return None

    def table(self, name: str, read: "Callable[[Fields], T]") -> list[T] | None:
        """An entry that is no object is left out; the others hold. Of very many the first are read."""
        value = self._raw.get(name)
        if not isinstance(value, list):
            self._not(name, value, "a list")
            return None
        if len(value) > typed.MOST:
            self.complain(name, f"it has {len(value)} entries; {typed.MOST} are read")
            value = value[: typed.MOST]
        for entry in value:
            if not isinstance(entry, dict):
                self._not(name, entry, "a list of objects", but="one with ")
        path = f"{self._path}{name}."
        return [read(Fields(entry, self._wrong, path)) for entry in value if isinstance(entry, dict)]

    def texts(self, name: str) -> list[str]:
        value = self._raw.get(name)
        if isinstance(value, list):
            return [clean(entry) for entry in value if isinstance(entry, str)]
        self._not(name, value, "a list of texts")
        return []

    def _not(self, name: str, value: object, expected: str, but: str = "") -> None:
        """A complaint, unless it is null or missing."""
        if value is not None or but:
            self.complain(name, f"{expected} is expected, not {but}{_kind(value)}")


# --- the messages


def _told(fields: Fields, name: str, value: T) -> T | UnsetType:
    return value if fields.has(name) else UNSET


def state(raw: dict[str, Any], wrong: list[Complaint]) -> typed.State:
    f = Fields(raw, wrong)
    return typed.State(
        *_header(f), _told(f, "orderId", f.text("orderId")), f.whole("orderUpdateId"), f.text("lastNodeId"),
        f.whole("lastNodeSequenceId"), _told(f, "nodeStates", f.table("nodeStates", _node)),
        f.table("edgeStates", _edge), f.table("actionStates", _action), _told(f, "driving", f.flag("driving")),
        f.flag("paused"), f.flag("newBaseRequest"), f.text("operatingMode"), f.section("safetyState", _safety),
        f.table("errors", _error), f.section("batteryState", _battery), f.number("batteryCharge"),
        f.section("agvPosition", _position), f.section("velocity", _velocity), f.table("loads", _load),
    )  # fmt: skip


def visualization(raw: dict[str, Any], wrong: list[Complaint]) -> typed.Visualization:
    f = Fields(raw, wrong)
    return typed.Visualization(*_header(f), f.section("agvPosition", _position), f.section("velocity", _velocity))


def connection(raw: dict[str, Any], wrong: list[Complaint]) -> typed.Connection:
    f = Fields(raw, wrong)
    return typed.Connection(*_header(f), f.text("connectionState"))


def _header(f: Fields) -> tuple[int | None, datetime | None, str | None]:
    return f.whole("headerId"), f.time("timestamp"), f.text("version")


def _node(f: Fields) -> typed.Node:
    return typed.Node(f.text("nodeId"), f.whole("sequenceId"), f.flag("released"))


def _edge(f: Fields) -> typed.Edge:
    return typed.Edge(f.text("edgeId"), f.whole("sequenceId"), f.flag("released"))


def _action(f: Fields) -> typed.Action:
    return typed.Action(f.text("actionId"), f.text("actionType"), f.text("actionStatus"), f.text("resultDescription"))


def _reference(f: Fields) -> typed.Reference:
    return typed.Reference(f.text("referenceKey"), f.text("referenceValue"))


def _error(f: Fields) -> typed.Error:
    references = f.table("errorReferences", _reference)
    return typed.Error(f.text("errorType"), f.text("errorLevel"), f.text("errorDescription"), references)


def _safety(f: Fields) -> typed.Safety:
    return typed.Safety(f.text("eStop"), f.flag("fieldViolation"))


def _battery(f: Fields) -> typed.Battery:
    return typed.Battery(f.number("batteryCharge"), f.flag("charging"))


def _position(f: Fields) -> typed.Position:
    return typed.Position(
        f.number("x"), f.number("y"), f.number("theta"), f.text("mapId"), f.flag("positionInitialized")
    )


def _velocity(f: Fields) -> typed.Velocity:
    return typed.Velocity(f.number("vx"), f.number("vy"), f.number("omega"))


def _load(f: Fields) -> typed.Load:
    return typed.Load(f.text("loadId"), f.text("loadType"))
