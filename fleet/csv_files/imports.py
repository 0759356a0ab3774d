"""What a CSV file of robots or places would do, row by row, and doing it: each row by the actions that people use."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import QuerySet

from fleet.commit import Conflict
from fleet.csv_files.table import Row
from fleet.history import Origin
from fleet.models import Brand, Place, Robot, Site
from fleet.people.access import at_sites
from fleet.refusals import Refused
from fleet.robots import actions, addresses
from fleet.sites import actions as site_actions

ADD, CHANGE, SAME, ERROR = "add", "change", "same", "error"
YES, NO = ("yes", "true", "1"), ("no", "false", "0", "")


class Planned(NamedTuple):
    """One row: what will happen (or did), in words, and how."""

    number: int
    what: str
    words: str
    run: Callable[[Origin], Any] = lambda by: None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One kind of file. `plan` is asked for each row, with what the person may see."""

    name: str
    columns: tuple[str, ...]
    required: tuple[str, ...]
    key: tuple[str, ...]
    known: Callable[[Any], Any]
    plan: Callable[[Row, Any], Planned]
    rows: Callable[[QuerySet[Any]], Iterable[list[str | float]]]


def planned(sheet: Sheet, rows: list[Row], user: Any) -> list[Planned]:
    """What each row would do now. Reads only."""
    known, seen, found = sheet.known(user), dict[tuple[str, ...], int](), []
    for row in rows:
        key = tuple(row.cells[column].strip() for column in sheet.key)
        if key in seen:
            found.append(_error(row, sheet.key[-1], f"the same as row {seen[key]}"))
            continue
        seen[key] = row.number
        try:
            found.append(sheet.plan(row, known))
        except Refused as refused:
            found.append(Planned(row.number, ERROR, f"Row {row.number}, {refused}"))
    return found


def applied(plan: list[Planned], by: Origin) -> list[Planned]:
    """Do it, each row by itself; a row that cannot be done says why and leaves the others alone."""
    done = []
    for row in plan:
        try:
            row.run(by)
        except (Refused, Conflict) as error:
            why = "somebody changed it at the same moment" if isinstance(error, Conflict) else str(error)
            done.append(Planned(row.number, ERROR, f"Row {row.number}, {why}"))
        else:
            done.append(row)
    return done


def _error(row: Row, column: str, why: str) -> Planned:
    return Planned(row.number, ERROR, f"Row {row.number}, {column}: {why}")


# robots


@dataclass(frozen=True, slots=True)
class KnownRobots:
    robots: dict[str, Robot]
    sites: dict[str, Site]
    brands: dict[str, Brand]


def _known_robots(user: Any) -> KnownRobots:
    robots = at_sites(user, Robot.objects.select_related("site", "brand"))
    return KnownRobots({r.pk: r for r in robots}, _sites(user), {b.name: b for b in Brand.objects.all()})


def _sites(user: Any) -> dict[str, Site]:
    return {site.name: site for site in at_sites(user, Site.objects.all())}


def _plan_robot(row: Row, known: KnownRobots) -> Planned:
    cells = {column: value.strip() for column, value in row.cells.items()}
    pk = cells["id"]
    robot = known.robots.get(pk)
    name = cells.get("name") or (robot.name if robot else pk)
    if not actions.is_robot_id(pk):
        raise Refused(
            f"id: “{pk[:70]}” is none. Use 1 to 64 letters, digits, dots, dashes or underscores, and not dots alone."
        )
    if len(name) > 200:
        raise Refused("name: at most 200 characters.")
    site = _chosen(cells, "site", known.sites, robot.site if robot else None)
    brand = _chosen(cells, "brand", known.brands, robot.brand if robot else None)
    retired = _yes(cells, "retired", bool(robot and robot.retired_at))
    address = cells.get("address", robot.address if robot and addresses.has_any(brand) else "")
    told = {"name": name, "site": site.pk, "brand": brand.pk, "address": address}
    if robot is None:
        return _new_robot(row, pk, told, brand, retired)
    steps: list[Callable[[Origin], Any]] = []
    changes = [
        (column, before, after)
        for column, before, after in (
            ("name", robot.name, name), ("site", robot.site, site), ("brand", robot.brand, brand),
            ("address", robot.address, address),
        )
        if before != after
    ]  # fmt: skip
    words = [f"{column} {before or 'none'} → {after or 'none'}" for column, before, after in changes]
    if changes:
        addresses.checked(pk, brand, address, robot.profile if brand == robot.brand else {})
        new = {column: told[column] for column, _, _ in changes}  # what somebody else changes meanwhile stays
        steps.append(lambda by: actions.edit_robot(pk, **new, by=by))
    if retired != bool(robot.retired_at):
        words.append("retired" if retired else "back in service")
        verb = actions.retire_robot if retired else actions.reinstate_robot
        steps.append(lambda by: verb(pk, by=by))
    if not steps:
        return Planned(row.number, SAME, f"{pk} is like this already.")
    return Planned(row.number, CHANGE, f"{pk}: {'; '.join(words)}.", lambda by: [step(by) for step in steps])


def _new_robot(row: Row, pk: str, told: dict[str, Any], brand: Brand, retired: bool) -> Planned:
    if retired:
        raise Refused(f"retired: {pk} is not enrolled, so it cannot be retired.")
    addresses.checked(pk, brand, told["address"], {})
    return Planned(row.number, ADD, f"{pk} is enrolled.", lambda by: actions.enrol_robot(id=pk, **told, by=by))


def _chosen(cells: dict[str, str], column: str, known: dict[str, Any], present: Any) -> Any:
    text = cells.get(column, "")
    if not text and present is not None:
        return present
    if text not in known:
        raise Refused(f"{column}: there is no {column} “{text[:100]}”." if text else f"{column}: this is needed.")
    return known[text]


def _yes(cells: dict[str, str], column: str, present: bool) -> bool:
    if column not in cells:
        return present
    text = cells[column].lower()
    if text not in (*YES, *NO):
        raise Refused(f"{column}: yes or no, not “{text[:40]}”.")
    return text in YES


def _robot_rows(robots: QuerySet[Robot]) -> Iterable[list[str | float]]:
    for r in robots.select_related("site", "brand").order_by("pk"):
        yield [r.pk, r.name, r.site.name, r.brand.name, r.address, "yes" if r.retired_at else "no"]


# places


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    places: dict[tuple[str, str], Place]
    sites: dict[str, Site]
    brands: dict[str, Brand]


def _known_places(user: Any) -> KnownPlaces:
    places = at_sites(user, Place.objects.select_related("site"))
    return KnownPlaces(
        {(p.site.name, p.name): p for p in places}, _sites(user), {b.name: b for b in Brand.objects.all()}
    )


def _plan_place(row: Row, known: KnownPlaces) -> Planned:
    cells = {column: value.strip() for column, value in row.cells.items()}
    site = _chosen(cells, "site", known.sites, None)
    place = known.places.get((site.name, cells["name"]))
    told: dict[str, Any] = {"name": cells["name"]}
    for column in ("x", "y", "theta"):
        told[column] = _number(cells, column, getattr(place, column, 0.0 if column == "theta" else None))
    told["is_charger"] = _yes(cells, "charger", bool(place and place.is_charger))
    told["nodes"] = _nodes(cells, known.brands, place.nodes if place else {})
    site_actions.checked_place(**told)
    if place is None:
        words = f"{told['name']} is added at {site}: {told['x']:g}, {told['y']:g}."
        return Planned(row.number, ADD, words, lambda by: site_actions.add_place(site, **told, by=by))
    pk = place.pk
    new = {column: value for column, value in told.items() if getattr(place, column) != value}
    words = "; ".join(f"{column} {getattr(place, column)} → {value}" for column, value in new.items())
    if not words:
        return Planned(row.number, SAME, f"{place} at {site} is like this already.")
    return Planned(
        row.number, CHANGE, f"{place} at {site}: {words}.", lambda by: site_actions.edit_place(pk, **new, by=by)
    )


def _number(cells: dict[str, str], column: str, present: float | None) -> float:
    text = cells.get(column, "")
    if not text and present is not None:
        return present
    try:
        return float(text)
    except ValueError:
        raise Refused(f"{column}: “{text[:40]}” is no number. Write 1.5, with a point.") from None


def _nodes(cells: dict[str, str], brands: dict[str, Brand], present: dict[str, str]) -> dict[str, str]:
    if "nodes" not in cells:
        return present
    try:
        told = json.loads(cells["nodes"] or "{}")
        assert isinstance(told, dict) and all(isinstance(node, str) for node in told.values())
    except (ValueError, AssertionError, RecursionError):
        raise Refused('nodes: write {"Brand": "node", …}, or nothing.') from None
    if unknown := [name for name in told if name not in brands]:
        raise Refused(f"nodes: there is no brand “{unknown[0][:100]}”.")
    return {str(brands[name].pk): node for name, node in told.items()}


def _place_rows(places: QuerySet[Place]) -> Iterable[list[str | float]]:
    brands = {str(b.pk): b.name for b in Brand.objects.all()}
    for p in places.select_related("site").order_by("site__name", "name"):
        nodes = {brands[pk]: node for pk, node in sorted(p.nodes.items()) if pk in brands}
        told = json.dumps(nodes, ensure_ascii=False) if nodes else ""
        yield [p.site.name, p.name, p.x, p.y, p.theta, "yes" if p.is_charger else "no", told]


ROBOTS = Sheet(
    "robots",
    ("id", "name", "site", "brand", "address", "retired"),
    ("id",),
    ("id",),
    _known_robots,
    _plan_robot,
    _robot_rows,
)
PLACES = Sheet(
    "places", ("site", "name", "x", "y", "theta", "charger", "nodes"), ("site", "name"), ("site", "name"),
    _known_places, _plan_place, _place_rows,
)  # fmt: skip
