"""What people and programs can do with sites, their places and maps. Each verb is one transaction."""

import math
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.columns import checked_name, number, storable
from fleet.commit import commit, new, next_pk
from fleet.history import AGGREGATES, Change, Origin
from fleet.locked import one
from fleet.models import MapImage, Place, Site
from fleet.refusals import Refused
from fleet.sites import rules
from fleet.sites.maps import Picture

FAR_M = 1e6
MAX_NODE = 200  # characters of a node id


def create_site(name: str, *, by: Origin) -> Site:
    """A new site, without places or map."""
    name = checked_name("name", name)
    change = new(AGGREGATES["site"], next_pk(Site))
    with transaction.atomic():
        _tell(change, rules.NameSite(name), by)
    return change.row  # type: ignore[no-any-return]


def rename_site(site_id: int, *, name: str, by: Origin) -> None:
    _change(site_id, rules.NameSite(checked_name("name", name)), by)


def add_place(
    site: Site | int, *, name: str, x: float, y: float, theta: float = 0.0, is_charger: bool = False,
    nodes: dict[str, str] | None = None, by: Origin,
) -> Place:  # fmt: skip
    """A named pose: metres, radians. `nodes`: brand id → node id of brands that need one."""
    fact = rules.AddPlace(*checked_place(name, x, y, theta, is_charger, nodes))
    change = _change(_pk(site), fact, by)
    return next(p for p in change.children["places"].values() if p.name == fact.name)  # type: ignore[no-any-return]


def edit_place(place_id: int, *, by: Origin, **columns: Any) -> None:
    """Change what is given of name, x, y, theta, is_charger and nodes."""
    place = _place(place_id)
    all_of_it = {c: getattr(place, c) for c in ("name", "x", "y", "theta", "is_charger", "nodes")} | columns
    _change(place.site_id, rules.EditPlace(*checked_place(**all_of_it), place.number), by)


def remove_place(place_id: int, *, by: Origin) -> None:
    """Take a place off the map. Refused while an open mission names it."""
    place = _place(place_id)
    with transaction.atomic():
        _change(place.site_id, rules.RemovePlace(place.number), by)
        missions = Site(pk=place.site_id).missions.filter(ended_at=None, steps__params__place=place.name)  # type: ignore[attr-defined]
        if titles := list(missions.order_by("created_at").values_list("title", flat=True).distinct()[:3]):
            raise Refused(f"{place.name} is named by the open mission “{titles[0]}”. End or edit that first.")


def set_map(
    site_id: int, picture: Picture, *, x: float, y: float, m_per_px: float, rotation: float, by: Origin
) -> None:
    """A new picture for the site's map, and where it lies."""
    at = _placed(x, y, m_per_px, rotation)
    with transaction.atomic():
        _change(site_id, rules.SetMap(*at, picture.sha256, picture.width, picture.height), by)
        MapImage.objects.get_or_create(
            site_id=site_id, sha256=picture.sha256, defaults={"png": picture.png, "added_at": timezone.now()}
        )


def place_map(site_id: int, *, x: float, y: float, m_per_px: float, rotation: float, by: Origin) -> None:
    """The same picture lies elsewhere."""
    _change(site_id, rules.PlaceMap(*_placed(x, y, m_per_px, rotation)), by)


def remove_map(site_id: int, *, by: Origin) -> None:
    """No map any more; the picture is kept with the history that names it."""
    _change(site_id, rules.RemoveMap(), by)


def checked_place(
    name: str, x: float, y: float, theta: float, is_charger: bool, nodes: dict[str, str] | None
) -> tuple[str, float, float, float, bool, dict[str, str]]:
    """What is stored of a place. Raises `Refused` that begins with the column."""
    known = {str(brand): text for brand, node in (nodes or {}).items() if (text := str(node).strip())}
    for text in known.values():
        if len(text) > MAX_NODE or "\x00" in text or not storable(text):
            raise Refused(f"nodes: A node id has at most {MAX_NODE} characters of valid Unicode, and no NUL.")
    return (
        checked_name("name", name),
        number("x", x, -FAR_M, FAR_M, "metres"),
        number("y", y, -FAR_M, FAR_M, "metres"),
        number("theta", theta, -2 * math.pi, 2 * math.pi, "radians (a quarter turn is 1.5708)"),
        bool(is_charger),
        known,
    )


def _placed(x: float, y: float, m_per_px: float, rotation: float) -> tuple[float, float, float, float]:
    return (
        number("x", x, -FAR_M, FAR_M, "metres"),
        number("y", y, -FAR_M, FAR_M, "metres"),
        number("m_per_px", m_per_px, 0.0001, 100.0, "metres per pixel"),
        number("rotation", rotation, -2 * math.pi, 2 * math.pi, "radians (a quarter turn is 1.5708)"),
    )


def _place(place_id: int) -> Place:
    place = Place.objects.filter(pk=place_id).first()
    if place is None:
        raise Refused("This place is gone: somebody removed it.")
    return place


def _change(site_id: int, fact: Any, by: Origin) -> Change:
    with transaction.atomic():
        change = one("site", site_id)
        if getattr(fact, "number", 0) and fact.number not in change.children["places"]:
            raise Refused("This place is gone: somebody removed it.")
        _unique(change, fact)
        return _tell(change, fact, by)


def _unique(change: Change, fact: Any) -> None:
    """Names of places and node ids of one brand are there once per site (the row is locked)."""
    if not isinstance(fact, rules.AddPlace):
        return
    for other in change.children["places"].values():
        if other.number == getattr(fact, "number", 0):
            continue
        if other.name == fact.name:
            raise Refused(f"name: {change.row} has a place {fact.name} already. Choose another name.")
        for brand, node in fact.nodes.items():
            if other.nodes.get(brand) == node:
                raise Refused(f"nodes: {node} is the node of {other.name} already.")


def _tell(change: Change, fact: Any, by: Origin) -> Change:
    now = timezone.now()
    change.origin = by
    rules.decide(change, fact, now)
    try:
        with transaction.atomic():
            commit([change], now=now)
    except IntegrityError as error:
        if isinstance(fact, rules.NameSite) and "unique" in str(error).lower():
            raise Refused(f"name: There is a site {fact.name} already. Choose another name.") from error
        raise
    return change


def _pk(thing: Any) -> int:
    return int(getattr(thing, "pk", thing))
