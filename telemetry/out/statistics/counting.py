"""What is counted of missions: one table from event kind to what it counts as, per hour, site, brand and command type.

Everything that a count depends on is in the history and fixed by the time of the event, so counting the history anew
gives the same numbers. Hours are those of Drover's own clock (`recorded_at`), whatever a robot's clock says.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import connection, transaction

from telemetry.out.group import Group, Told, read
from telemetry.out.models import Follower, Tally

NAME = "statistics"
log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


class Rule(NamedTuple):
    """`detail` of the count, from the event's data, with the mission's `abort_reason`. `of_step`: by the command type of its step as well."""

    what: str
    detail: Callable[[dict[str, Any]], str]
    of_step: bool = False


def _is(detail: str) -> Callable[[dict[str, Any]], str]:
    return lambda data: detail


def _why(data: dict[str, Any]) -> str:
    """The reason; never without saying so where the robot may still be moving."""
    return str(data.get("abort_reason") or "") + (UNCONFIRMED if data.get("stop_confirmed") is False else "")


UNCONFIRMED = "/unconfirmed"
ENDED, TIMEOUT, RETRY, STEP = "ended", "timeout", "retry", "step"

RULES: dict[str, Rule] = {
    "mission.succeeded": Rule(ENDED, _is("success")),
    "mission.aborted": Rule(ENDED, _why),
    "mission.accept_timeout": Rule(TIMEOUT, _is("accept")),
    "mission.step_timeout": Rule(TIMEOUT, _is("step"), of_step=True),
    "mission.finish_timeout": Rule(TIMEOUT, _is("finish")),
    "mission.timeout": Rule(TIMEOUT, _is("mission")),
    "mission.undelivered": Rule(TIMEOUT, _is("undelivered")),
    "mission.robot_lost_timeout": Rule(TIMEOUT, _is("robot_lost")),
    "mission.expired": Rule(TIMEOUT, _is("expired")),
    "mission.stop_resent": Rule(RETRY, _is("stop")),
    "mission.handed_over": Rule(RETRY, _is("hand_over")),
    "mission.step_retried": Rule(RETRY, _is("step"), of_step=True),
    "mission.step_completed": Rule(STEP, _is("completed"), of_step=True),
    "mission.step_failed": Rule(STEP, _is("failed"), of_step=True),
    "mission.step_skipped": Rule(STEP, _is("skipped"), of_step=True),
}

Key = tuple[datetime, int, int, str, str, str]


def count(events: list[Told]) -> Counter[Key]:
    """Counts of these events by (hour, site, brand, what, detail, command type)."""
    found = [(event, RULES[event.kind], _data(event)) for event in events if event.kind in RULES and event.site_id]
    if not found:
        return Counter()
    missions = _missions({event.aggregate.partition(":")[2] for event, _, _ in found})
    steps = _steps({event.aggregate.partition(":")[2] for event, rule, _ in found if rule.of_step})
    brands = Brands({robot for robot, _ in missions.values() if robot})
    counts: Counter[Key] = Counter()
    for event, rule, data in found:
        mission = event.aggregate.partition(":")[2]
        hour = event.recorded_at.replace(minute=0, second=0, microsecond=0)
        command = steps.get((mission, step_of(data)), "") if rule.of_step else ""
        robot, reason = missions.get(mission, (None, ""))
        brand = brands.at(robot or "", event.id)
        data.setdefault("abort_reason", reason)  # said when the stop was asked for, if it was
        assert event.site_id is not None
        counts[hour, event.site_id, brand, rule.what, rule.detail(data)[:60], command] += 1
    return counts


def _data(event: Told) -> dict[str, Any]:
    try:
        data = _decode(event.data)
    except msgspec.DecodeError:  # tampered with: it is counted, without what it says
        data = {}
    return data if isinstance(data, dict) else {}


def step_of(data: dict[str, Any]) -> int:
    """Number of the step that the event is about; 0: none."""
    number = data.get("step") or next((s.get("number") for s in data.get("steps") or () if isinstance(s, dict)), 0)
    return number if isinstance(number, int) else 0


def _missions(missions: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """Mission → its robot and why it was aborted: neither changes after what is counted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id::text, robot_id, abort_reason FROM missions_mission WHERE id = ANY(%s::uuid[])", [list(missions)]
        )
        return {mission: (robot, reason) for mission, robot, reason in cursor.fetchall()}


def _steps(missions: Iterable[str]) -> dict[tuple[str, int], str]:
    """Steps of a mission do not change any more once something happened to one of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT mission_id::text, number, command FROM missions_step WHERE mission_id = ANY(%s::uuid[])",
            [list(missions)],
        )
        return {(mission, number): command for mission, number, command in cursor.fetchall()}


class Brands:
    """Of which brand robots were when an event happened, by their own history: a robot may get another brand."""

    def __init__(self, robots: set[str]) -> None:
        self._known: dict[str, list[tuple[int, int]]] = {}
        if not robots:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id, substr(aggregate, 7), data FROM fleet_event WHERE kind IN ('robot.enrolled', 'robot.edited')"
                " AND aggregate = ANY(%s) ORDER BY id",
                [[f"robot:{robot}" for robot in robots]],
            )
            for event, robot, data in cursor.fetchall():
                brand = _decode(data).get("brand_id")
                if brand is not None:
                    self._known.setdefault(robot, []).append((event, brand))

    def at(self, robot: str, event: int) -> int:
        return next((brand for since, brand in reversed(self._known.get(robot, ())) if since < event), 0)


def add(counts: Counter[Key]) -> None:
    """Add to the table, inside the caller's transaction. In order of the keys, so that two never wait for each other."""
    if not counts:
        return
    keys = sorted(counts)
    columns = [list(column) for column in zip(*keys, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO telemetry_tally AS t (hour, site_id, brand_id, what, detail, command, n)"
            " SELECT * FROM unnest(%s::timestamptz[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[])"
            " ON CONFLICT (hour, site_id, brand_id, what, detail, command) DO UPDATE SET n = t.n + EXCLUDED.n",
            [*columns, [counts[key] for key in keys]],
        )


def _effect(events: list[Told], now: datetime) -> None:
    add(count(events))


GROUP = Group(NAME, lambda: RULES, _effect)


def rebuild() -> tuple[int, int]:
    """Count the history anew, up to where the group is. Returns (rows, counted events). One transaction; the group waits."""
    Follower.objects.get_or_create(name=NAME)
    with transaction.atomic():
        end = Follower.objects.select_for_update().get(name=NAME).position
        counts: Counter[Key] = Counter()
        position = 0
        with connection.cursor() as cursor:
            while position < end:
                events, position = read(cursor, position, end, list(RULES))
                counts += count(events)
        Tally.objects.all().delete()
        add(counts)
    return len(counts), sum(counts.values())
