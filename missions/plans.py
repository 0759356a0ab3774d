"""What a request to draw up a mission may say: checked here once, for people, programs, templates and reruns."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Required, TypedDict
from uuid import UUID

from django.db import connection
from django.utils import timezone

from fleet.columns import kept_time, storable
from fleet.models import ROBOT_ID, Brand, OfflinePolicy, Place, Robot, Site
from fleet.refusals import Refused
from fleet.robots import abilities
from missions import command_types, step_policy
from missions.command_types import MAX_TIMEOUT_S, Invalid
from missions.models import Importance, Mission, State
from missions.wording import ending

MAX_STEPS = 60  # and 60 rows fit into one form
MAX_AFTER = 20
LEAST_PRIORITY, MOST_PRIORITY = -100, 100
DEPENDENCIES_LOCK = 7_301_114  # held while dependencies are checked and written: two edits must not close a circle


class Plan(TypedDict, total=False):
    """All that may be said about a mission to be. What each is by default: see `checked`."""

    title: Required[str]
    site: Required[Site | int]
    steps: Required[list[dict[str, Any]]]
    robot: Robot | str | None
    priority: int
    timeout_s: int | None
    importance: str
    not_before: datetime | None
    expires_at: datetime | None
    needs_approval: bool
    offline_policy: str


def checked(
    *,
    title: str,
    site: Site | int,
    steps: list[dict[str, Any]],
    robot: Robot | str | None = None,
    priority: int = 0,
    timeout_s: int | None = None,
    importance: str = Importance.NORMAL,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    needs_approval: bool = False,
    offline_policy: str = "",
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Columns and steps as they are stored. Raises `Refused` naming step and field.

    Times that are not said are those of the robot's brand; without a robot, the longest of the brands that could.
    """
    title = checked_title(title)
    if not 1 <= len(steps) <= MAX_STEPS:
        raise Refused(f"steps: A mission has 1 to {MAX_STEPS} steps.")
    if timeout_s is not None and not 1 <= timeout_s <= MAX_TIMEOUT_S:
        raise Refused(f"timeout_s: From 1 to {MAX_TIMEOUT_S} seconds.")
    if offline_policy not in ("", *OfflinePolicy.values):
        raise Refused(f"offline_policy: Choose one of {', '.join(OfflinePolicy.values)}, or leave it to the brand.")
    if importance not in Importance.values:
        raise Refused(f"importance: Choose one of {', '.join(Importance.values)}.")
    _checked_times(not_before, expires_at)
    site_id = site.pk if isinstance(site, Site) else site
    chosen = _checked_robot(robot, site_id)
    places = set(Place.objects.filter(site=site_id).values_list("name", flat=True))
    who = _candidates(chosen, site_id)
    done = [_checked_step(number, step, places, who) for number, step in enumerate(steps, 1)]
    brands = [candidate.brand for candidate in who]
    fields = {
        "title": title, "site_id": site_id, "robot_id": chosen.pk if chosen else None,
        "priority": checked_priority(priority), "timeout_s": timeout_s or _mission_timeout_s(brands), "importance": str(importance),
        "not_before": not_before, "expires_at": expires_at, "needs_approval": bool(needs_approval),
        "charger": charger(done), "offline_policy": str(offline_policy),
    }  # fmt: skip
    return fields, done


def checked_title(title: str) -> str:
    title = title.strip()
    if "\x00" in title:
        raise Refused("title: Text must not contain the NUL character.")
    if not storable(title):
        raise Refused("title: Text must be valid Unicode.")
    if not 1 <= len(title) <= 200:
        raise Refused("title: Give it a title of at most 200 characters.")
    return title


def checked_priority(priority: int) -> int:
    if not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise Refused(f"priority: From {LEAST_PRIORITY} to {MOST_PRIORITY}; higher goes first.")
    return priority


def charger(steps: Iterable[dict[str, Any]]) -> str:
    """The place where a mission charges, if its steps name one: the last counts."""
    places = [s["params"].get("place", "") for s in steps if s["command"] == "charge"]
    return next((place for place in reversed(places) if place), "")


def checked_after(after: Sequence[UUID], site_id: int, mission_id: UUID | None = None) -> tuple[UUID, ...]:
    """Missions that must succeed first. Use in the transaction that writes them: it keeps others from closing a circle."""
    wanted = tuple(dict.fromkeys(after))
    if not wanted:
        return ()
    if len(wanted) > MAX_AFTER:
        raise Refused(f"after: At most {MAX_AFTER} missions.")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [DEPENDENCIES_LOCK])
    found = {m.pk: m for m in Mission.objects.filter(pk__in=wanted)}
    for pk in wanted:
        if pk not in found or found[pk].site_id != site_id:  # what is elsewhere is not told apart from what is not
            raise Refused(f"after: There is no mission {pk} at this site.")
        if found[pk].state == State.ABORTED:
            raise Refused(
                f"after: “{found[pk]}” was {ending(found[pk]).lower()} and will never succeed. Choose its rerun."
            )
    if mission_id is not None and mission_id in _all_before(wanted):
        raise Refused("after: It would wait for itself. Take the mission out that comes after this one.")
    return wanted


def _all_before(missions: Sequence[UUID]) -> set[UUID]:
    """These missions and everything that they depend on."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE before(id) AS (SELECT unnest(%s::uuid[])"
            " UNION SELECT d.on_id FROM missions_dependency d JOIN before b ON d.mission_id = b.id)"
            " SELECT id FROM before",
            [list(missions)],
        )
        return {pk for (pk,) in cursor.fetchall()}


def _checked_times(not_before: datetime | None, expires_at: datetime | None) -> None:
    for name, at in (("not_before", not_before), ("expires_at", expires_at)):
        if at is not None and timezone.is_naive(at):
            raise Refused(f"{name}: Say in which time zone.")
        if at is not None:
            kept_time(name, at)
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused("expires_at: That time has passed.")
    if not_before is not None and expires_at is not None and expires_at <= not_before:
        raise Refused("expires_at: It must be later than not_before.")


def _checked_robot(robot: Robot | str | None, site_id: int) -> Robot | None:
    if not robot:
        return None
    robot_id = str(getattr(robot, "pk", robot))
    known = Robot.objects.select_related("brand").filter(pk=robot_id, site=site_id)
    chosen = known.first() if re.fullmatch(ROBOT_ID, robot_id) else None
    if chosen is None:  # what is elsewhere is not told apart from what is not
        raise Refused(f"robot: There is no robot {robot_id[:64]} at this site. Choose one of the mission's site.")
    if chosen.retired_at:
        raise Refused(f"robot: {chosen.name or chosen.pk} is retired. Choose another one, or none.")
    return chosen


class Candidate(NamedTuple):
    """Robots that are alike. `whose`: name of the one that says itself what it can."""

    able: frozenset[str]
    brand: Brand
    whose: str = ""


def _candidates(chosen: Robot | None, site_id: int) -> list[Candidate]:
    """Who could get it: the robot that was chosen, else any of the site."""
    if chosen is not None:
        own = chosen.capabilities is not None
        return [Candidate(abilities.of(chosen), chosen.brand, (chosen.name or chosen.pk) if own else "")]
    alike = list(Robot.objects.filter(site=site_id, retired_at=None).values_list("brand", "capabilities").distinct())
    brands = Brand.objects.in_bulk({brand for brand, _ in alike})
    return [Candidate(frozenset(brands[b].capabilities if can is None else can), brands[b]) for b, can in alike]


def _mission_timeout_s(brands: Iterable[Brand]) -> int:
    usual: int = Mission._meta.get_field("timeout_s").get_default()
    return max((brand.mission_timeout_s for brand in brands), default=usual)


def _checked_step(number: int, step: dict[str, Any], places: set[str], who: list[Candidate]) -> dict[str, Any]:
    able, whose = abilities.together(c.able for c in who), who[0].whose if len(who) == 1 else ""
    try:
        name = step.get("command", "")
        params = command_types.validate(name, step.get("params", {}), places=places, capabilities=able, whose=whose)
    except Invalid as error:
        raise Refused(f"Step {number}, {error.field}: {error.reason}") from error
    timeout_s = step.get("timeout_s") or max(
        command_types.default_timeout_s(name, params, candidate.brand.step_timeouts)
        for candidate in who
        if abilities.can(abilities.needed(name, params), candidate.able)
    )
    if not isinstance(timeout_s, int) or not 1 <= timeout_s <= MAX_TIMEOUT_S:
        raise Refused(f"Step {number}, timeout_s: From 1 to {MAX_TIMEOUT_S} seconds.")
    return {"command": name, "params": params, "timeout_s": timeout_s, **step_policy.checked(number, step)}
