"""What is asked of a site, its places and a brand: pure rules from a fact to recorded events."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.robots.decide import Verdict


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


@dataclass(frozen=True, slots=True)
class SetBrand:
    """Columns of the brand; the first one makes it."""

    columns: dict[str, Any]


def decide(change: Change, fact: Any, now: datetime) -> Verdict:
    """Record what the fact means for the site or brand. No I/O, no clock."""
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
    new = asdict(fact)
    del new["number"]
    changed = _changed(place, new)
    if not changed:
        return Verdict.REDUNDANT
    change.record(
        "site.place_edited", places=[{"number": fact.number, **changed}], place=place.name, what=_words(place, changed)
    )
    return Verdict.APPLIED


def _remove_place(change: Change, fact: RemovePlace) -> Verdict:
    place = change.children["places"][fact.number]
    change.record("site.place_removed", places=[{"number": fact.number, "gone": True}], place=place.name)
    return Verdict.APPLIED


def _set_map(change: Change, fact: SetMap) -> Verdict:
    if not _changed(change.row, asdict(fact)):
        return Verdict.REDUNDANT
    change.record("site.map_set", **asdict(fact))
    return Verdict.APPLIED


def _place_map(change: Change, fact: PlaceMap) -> Verdict:
    changed = _changed(change.row, asdict(fact))
    if not changed:
        return Verdict.REDUNDANT
    change.record("site.map_placed", **changed, what=_words(change.row, changed))
    return Verdict.APPLIED


def _remove_map(change: Change, fact: RemoveMap) -> Verdict:
    if not change.row.map_sha256:
        return Verdict.REDUNDANT
    change.record("site.map_removed", map_sha256="", map_width=None, map_height=None)
    return Verdict.APPLIED


def _set_brand(change: Change, fact: SetBrand) -> Verdict:
    if not change.row.version:
        change.record("brand.created", **fact.columns)
        return Verdict.APPLIED
    changed = _changed(change.row, fact.columns)
    if not changed:
        return Verdict.REDUNDANT
    change.record("brand.edited", **changed, what=_words(change.row, changed))
    return Verdict.APPLIED


_RULES: dict[type, Callable[[Change, Any], Verdict]] = {
    NameSite: _name_site,
    AddPlace: _add_place,
    EditPlace: _edit_place,
    RemovePlace: _remove_place,
    SetMap: _set_map,
    PlaceMap: _place_map,
    RemoveMap: _remove_map,
    SetBrand: _set_brand,
}


def _changed(row: Any, new: dict[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in new.items() if getattr(row, column) != value}


def _words(row: Any, changed: dict[str, Any]) -> str:
    """`suspect after (s) 9 → 7; can do navigate, wait`, for the timeline."""
    return "; ".join(_change_words(row, column, value) for column, value in changed.items())


def _change_words(row: Any, column: str, value: Any) -> str:
    label = str(row._meta.get_field(column).verbose_name)
    if isinstance(value, bool):
        return label if value else f"no {label}"
    if isinstance(value, list):
        return f"{label} {', '.join(map(str, value)) or 'none'}"
    if isinstance(value, dict):
        return label
    return f"{label} {_short(getattr(row, column))} → {_short(value)}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) if value not in ("", None) else "none"
