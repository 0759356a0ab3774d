"""What people and programs can do with missions. Each verb is one transaction; a refusal is a sentence for people.

Stop and cancel are never version-checked and never refused for a known mission (I13).
"""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.actions import Refused, accepted_text
from fleet.commit import Conflict, commit, new
from fleet.decide import Verdict
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Brand, Place, Robot, Site
from missions import command_types, facts, waiting
from missions.command_types import Invalid
from missions.decide import decide
from missions.ledger import Ledger
from missions.models import FINAL, Mission
from missions.waiting import why_waiting as why_waiting  # part of what this module offers

MAX_STEPS = 60  # and 60 rows fit into one form
TRIES = 5  # of a transaction that met another one


def draft_mission(
    *,
    title: str,
    site: Site | int,
    steps: list[dict[str, Any]],
    by: Origin,
    robot: Robot | str | None = None,
    priority: int = 0,
    timeout_s: int = 600,
) -> UUID:
    """Draw up a mission. `steps`: dicts with `command`, `params` and, if not the type's default, `timeout_s`."""
    now = timezone.now()
    change = new(AGGREGATES["mission"], uuid4())
    change.origin = by
    decide(change, facts.DrawUp(*_checked(title, site, robot, steps, priority, timeout_s)), now)
    with transaction.atomic():
        commit([change], now=now)
    return change.row.pk  # type: ignore[no-any-return]


def edit_mission(
    mission_id: UUID,
    *,
    title: str,
    site: Site | int,
    steps: list[dict[str, Any]],
    by: Origin,
    version: int,
    robot: Robot | str | None = None,
    priority: int = 0,
    timeout_s: int = 600,
) -> None:
    """Change a mission that is not dispatched yet. `version` is the one the editor saw."""
    checked = facts.Edit(*_checked(title, site, robot, steps, priority, timeout_s))

    def edit(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        if change.row.dispatched_at or change.row.state in FINAL:
            raise Refused("It is dispatched already and cannot be edited. Cancel it and draw up a new one.")
        ledger.tell_mission(mission_id, checked, by)

    _on(mission_id, edit)


def dispatch_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Hand the mission to its robot. Refused with a reason when the robot cannot take it now."""

    def dispatch(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        mission = change.row
        if mission.state in FINAL:
            raise Refused(f"It has ended ({mission.get_state_display().lower()}). Draw up a new one.")
        if mission.dispatched_at:
            raise Refused("It is dispatched already.")
        if reason := _obstacle(mission, ledger.running.get(mission.robot_id)):
            raise Refused(reason)
        ledger.tell_mission(mission_id, facts.Dispatch(mission.robot.name, _frames(change)), by)

    try:
        _on(mission_id, dispatch)
    except IntegrityError as error:
        if "one_dispatched_per_robot" not in str(error):
            raise
        raise Refused("The robot has just been given another mission. Try again when it has ended.") from error


def cancel_mission(mission_id: UUID, *, by: Origin, reason: str = "") -> str:
    """End it: `aborted`, `stopping` (the robot was asked), `already stopping` or `already ended`."""
    said: list[str] = []

    def cancel(ledger: Ledger, change: Change) -> None:
        said.clear()
        if change.row.state in FINAL:
            said.append("already ended")
            return
        told = ledger.tell_mission(mission_id, facts.Cancel(by.actor_name, accepted_text(reason)), by)
        if told is Verdict.REDUNDANT:
            said.append("already stopping")
        else:
            said.append("aborted" if change.row.state in FINAL else "stopping")

    _on(mission_id, cancel)
    return said[0]


def pause_mission(mission_id: UUID, *, by: Origin) -> None:
    """Ask the robot to pause it. It is paused when the robot says so."""

    def pause(ledger: Ledger, change: Change) -> None:
        _running(change)
        ledger.tell_mission(mission_id, facts.Pause(by.actor_name), by)

    _on(mission_id, pause)


def resume_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Ask the robot to go on. Refused while the robot is held."""

    def resume(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        _running(change)
        if reason := _held(change.row.robot):
            raise Refused(reason)
        ledger.tell_mission(mission_id, facts.Resume(by.actor_name), by)

    _on(mission_id, resume)


# --- rules they share


def _obstacle(mission: Mission, running: UUID | None) -> str:
    """What keeps the robot from taking the mission now."""
    title = Mission.objects.filter(pk=running).values_list("title", flat=True).first() if running else None
    holds = waiting.open_holds([mission.robot_id]) if mission.robot_id else {}
    return waiting.obstacle(mission, holds.get(mission.robot_id or "", []), (running, title or "") if running else None)


def _held(robot: Robot) -> str:
    return waiting.held(robot, waiting.open_holds([robot.pk]).get(robot.pk, []))


def _running(change: Change) -> None:
    mission = change.row
    if mission.state in FINAL:
        raise Refused(f"It has ended ({mission.get_state_display().lower()}).")
    if not mission.dispatched_at:
        raise Refused("It is not dispatched yet.")
    if mission.stop_requested_at:
        raise Refused("It is being stopped.")


def _seen(change: Change, version: int | None) -> None:
    if version is not None and version != change.row.version:
        raise Refused("It has changed since you looked. Read it again and decide anew.")


def _frames(change: Change) -> list[dict[str, Any]]:
    """Steps as the robot gets them: places by name and by pose."""
    places = {p.name: p for p in Place.objects.filter(site=change.row.site_id)}
    frames = []
    for number, step in sorted(change.children["steps"].items()):
        params = dict(step.params)
        if place := places.get(params.get("place", "")):
            params.update(x=place.x, y=place.y, theta=place.theta)
        frames.append(
            {"number": number, "command": step.command, "params": params, "timeout_s": step.timeout_s, "attempt": 1}
        )
    return frames


def _checked(
    title: str, site: Site | int, robot: Robot | str | None, steps: list[dict[str, Any]], priority: int, timeout_s: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is stored of a request. Raises `Refused` naming step and field."""
    title = title.strip()
    if "\x00" in title:
        raise Refused("title: Text must not contain the NUL character.")
    if not 1 <= len(title) <= 200:
        raise Refused("title: Give it a title of at most 200 characters.")
    if not 1 <= len(steps) <= MAX_STEPS:
        raise Refused(f"steps: A mission has 1 to {MAX_STEPS} steps.")
    if not 1 <= timeout_s <= 86400:
        raise Refused("timeout_s: From 1 to 86400 seconds.")
    if not -32768 <= priority <= 32767:
        raise Refused("priority: From -32768 to 32767.")
    site_id = site.pk if isinstance(site, Site) else site
    chosen = Robot.objects.select_related("brand").filter(pk=getattr(robot, "pk", robot)).first() if robot else None
    if robot and chosen is None:
        raise Refused(f"robot: There is no robot {robot}.")
    if chosen and chosen.site_id != site_id:
        raise Refused(f"robot: {chosen} works at {chosen.site}. Choose a robot of the mission's site.")
    places = set(Place.objects.filter(site=site_id).values_list("name", flat=True))
    if chosen:
        capabilities = chosen.brand.capabilities
    else:
        brands = Brand.objects.filter(robots__site=site_id, robots__retired_at=None)
        capabilities = sorted({c for capable in brands.values_list("capabilities", flat=True) for c in capable})
    fields = {
        "title": title, "site_id": site_id, "robot_id": chosen.pk if chosen else None, "priority": priority,
        "timeout_s": timeout_s,
    }  # fmt: skip
    return fields, [_checked_step(number, step, places, capabilities) for number, step in enumerate(steps, 1)]


def _checked_step(number: int, step: dict[str, Any], places: set[str], capabilities: list[str]) -> dict[str, Any]:
    try:
        name = step.get("command", "")
        params = command_types.validate(name, step.get("params", {}), places=places, capabilities=capabilities)
    except Invalid as error:
        raise Refused(f"Step {number}, {error.field}: {error.reason}") from error
    timeout_s = step.get("timeout_s") or command_types.default_timeout_s(name, params)
    if not isinstance(timeout_s, int) or not 1 <= timeout_s <= 86400:
        raise Refused(f"Step {number}, timeout_s: From 1 to 86400 seconds.")
    return {"command": name, "params": params, "timeout_s": timeout_s}


def _on(mission_id: UUID, verb: Any) -> None:
    """Run a verb on a locked mission; when another transaction came first, on a fresh one."""
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic():
                ledger = Ledger.open(mission_ids=[mission_id], now=_now())
                if mission_id not in ledger.missions:
                    if Mission.objects.filter(pk=mission_id).exists():
                        raise Conflict("it was given to another robot meanwhile")
                    raise Refused(f"There is no mission {mission_id}.")
                verb(ledger, ledger.missions[mission_id])
                ledger.commit()
            return
        except Conflict:
            if not left:
                raise


def _now() -> datetime:
    return timezone.now()
