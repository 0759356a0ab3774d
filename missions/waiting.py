"""Why a mission does not run, in words (I5): for one, or for a page full of them with as many queries."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from fleet.models import Hold, Presence, Robot
from missions.models import FINAL, OPEN, Mission, State


def why_waiting(mission: Mission) -> str:
    """Why it does not run; empty when it runs or has ended."""
    return why_waiting_all([mission])[mission.pk]


def why_waiting_all(missions: Iterable[Mission]) -> dict[UUID, str]:
    """The same for many (give them with `select_related("robot")`). Two queries, however many they are."""
    rows = list(missions)
    robots = {m.robot_id for m in rows if m.state == State.PENDING and not m.dispatched_at and m.robot_id}
    holds = open_holds(robots) if robots else {}
    running = running_missions(robots) if robots else {}
    return {m.pk: _why(m, holds.get(m.robot_id or "", []), running.get(m.robot_id or "")) for m in rows}


def open_holds(robot_ids: Iterable[str]) -> dict[str, list[Hold]]:
    found: dict[str, list[Hold]] = {}
    for hold in Hold.objects.filter(robot__in=robot_ids, released_at=None).order_by("since"):
        found.setdefault(hold.robot_id, []).append(hold)
    return found


def running_missions(robot_ids: Iterable[str]) -> dict[str, tuple[UUID, str]]:
    """Robot id → id and title of the open mission that it has."""
    rows = Mission.objects.filter(robot__in=robot_ids, dispatched_at__isnull=False, state__in=OPEN)
    return {robot: (pk, title) for robot, pk, title in rows.values_list("robot_id", "pk", "title")}


def obstacle(mission: Mission, holds: list[Hold], running: tuple[UUID, str] | None) -> str:
    """What keeps the robot from taking the mission now; empty when nothing does."""
    robot: Robot | None = mission.robot
    if robot is None:
        return "It has no robot yet. Choose one."
    if robot.retired_at:
        return f"{robot} is retired. Choose another robot."
    if reason := held(robot, holds):
        return reason
    if running and running[0] != mission.pk:
        return f"{robot} is busy with “{running[1]}”. Dispatch this one when that has ended."
    if robot.presence in (Presence.OFFLINE, Presence.UNKNOWN):
        since = f" since {robot.presence_since:%d %b %H:%M} UTC" if robot.presence_since else ""
        return f"{robot} is {robot.get_presence_display().lower()}{since}. Dispatch when it is back."
    return ""


def held(robot: Any, holds: list[Hold]) -> str:
    return f"{robot} is on hold. {'; '.join(map(str, holds))}. Release the hold first." if holds else ""


def _why(mission: Mission, holds: list[Hold], running: tuple[UUID, str] | None) -> str:
    if mission.state in FINAL or mission.state != State.PENDING:
        return ""
    if not mission.dispatched_at:
        return obstacle(mission, holds, running) or "Ready: it waits to be dispatched."
    robot = mission.robot
    if mission.stop_requested_at:
        return f"Stopping: waiting for {robot}'s word."
    if mission.delivered_at:
        return f"{robot} has it and has not said yet that it accepts."
    link = "" if robot is None or robot.presence == Presence.ONLINE else f" ({robot.get_presence_display().lower()})"
    return f"Waiting for {robot} to take it{link}."
