"""What is asked of a site and its places: pure rules from a fact to recorded events."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleet import edited
from fleet.history import Change
from fleet.verdict import Verdict


@dataclass(frozen=True, slots=True)
class NameSite:
    """The first one makes the site."""

    name: str


@dataclass(frozen=True, slots=True)
class AddPlace:
    """x, y in metres, theta in radians; `nodes`: brand id as text → node id."""

    name: str
    x: float
    y: float
    theta: float
    is_charger: bool
    nodes: dict[str, str]


@dataclass(frozen=True, slots=True)
class EditPlace(AddPlace):
    number: int


@dataclass(frozen=True, slots=True)
class RemovePlace:
    number: int


@dataclass(frozen=True, slots=True)
class PlaceMap:
    """Where the picture lies: its lower left corner (m), metres per pixel, rotation about that corner (rad)."""

    map_x: float
    map_y: float
    map_m_per_px: float
    map_rotation: float


@dataclass(frozen=True, slots=True)
class SetMap(PlaceMap):
    map_sha256: str
    map_width: int
    map_height: int


@dataclass(frozen=True, slots=True)
class RemoveMap:
    pass


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the site. No I/O, no clock."""
    change.now = now
    return _RULES[type(fact)](change, fact)


def _name_site(change: Change, fact: NameSite) -> Verdict:
    if not change.row.version:
        change.record("site.created", name=fact.name)
    elif fact.name == change.row.name:
        return Verdict.REDUNDANT
    else:
        change.record("site.renamed", name=fact.name, before=change.row.name)
    return Verdict.APPLIED


def _add_place(change: Change, fact: AddPlace) -> Verdict:
    columns = asdict(fact)
    what = f"{fact.x:g}, {fact.y:g}" + (", a charger" if fact.is_charger else "")
    place = {"number": change.row.version + 1, **columns}
    change.record("site.place_added", places=[place], place=fact.name, what=what)
    return Verdict.APPLIED


def _edit_place(change: Change, fact: EditPlace) -> Verdict:
    place = change.children["places"][fact.number]
    told = asdict(fact)
    del told["number"]
    new = edited.changed(place, told)
    if not new:
        return Verdict.REDUNDANT
    change.record(
        "site.place_edited", places=[{"number": fact.number, **new}], place=place.name, what=edited.words(place, new)
    )
    return Verdict.APPLIED


def _remove_place(change: Change, fact: RemovePlace) -> Verdict:
    place = change.children["places"][fact.number]
    change.record("site.place_removed", places=[{"number": fact.number, "gone": True}], place=place.name)
    return Verdict.APPLIED


def _set_map(change: Change, fact: SetMap) -> Verdict:
    if not edited.changed(change.row, asdict(fact)):
        return Verdict.REDUNDANT
    change.record("site.map_set", **asdict(fact))
    return Verdict.APPLIED


def _place_map(change: Change, fact: PlaceMap) -> Verdict:
    new = edited.changed(change.row, asdict(fact))
    if not new:
        return Verdict.REDUNDANT
    change.record("site.map_placed", **new, what=edited.words(change.row, new))
    return Verdict.APPLIED


def _remove_map(change: Change, fact: RemoveMap) -> Verdict:
    if not change.row.map_sha256:
        return Verdict.REDUNDANT
    change.record("site.map_removed", map_sha256="", map_width=None, map_height=None)
    return Verdict.APPLIED


_RULES: dict[type, Callable[[Change, Any], Verdict]] = {
    NameSite: _name_site,
    AddPlace: _add_place,
    EditPlace: _edit_place,
    RemovePlace: _remove_place,
    SetMap: _set_map,
    PlaceMap: _place_map,
    RemoveMap: _remove_map,
}
