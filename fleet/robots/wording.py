"""How a robot's condition is said, in admin and on the live page."""

from collections.abc import Iterable
from typing import Any

from fleet.models import HoldKind, Mode, Presence
from fleet.robots.faults import FAULT, WARNING, is_safety
from fleet.robots.faults import SAFETY as SAFETY_FAULT
from fleet.wording import STOPPING, Said, said

MODES: dict[str, Said] = {
    Mode.UNKNOWN: said("unknown", "Has not said yet what it does", "off"),
    Mode.IDLE: said("idle", "Idle", "ok"),
    Mode.RUNNING: said("running", "Running", "ok"),
    Mode.CHARGING: said("charging", "Charging", "ok"),
    Mode.PAUSED: said("paused", "Paused", "ok"),
    Mode.FAULT: said("bad", "Fault", "bad"),
    Mode.MANUAL: said("manual", "Driven by hand", "warn"),
}
PRESENCES: dict[str, Said] = {
    Presence.UNKNOWN: said("unknown", "No verdict on its link yet", "off"),
    Presence.ONLINE: said("online", "Online", "ok"),
    Presence.SUSPECT: said("warn", "Not heard of lately", "warn"),
    Presence.OFFLINE: said("off", "Offline", "off"),
}
NEVER_HEARD = said("off", "Never heard from", "off")
RETIRED = said("off", "Retired", "off")
SAFETY = said("bad", "Safety stop", "bad")
FAULTS: dict[str, Said] = {FAULT: MODES[Mode.FAULT], SAFETY_FAULT: SAFETY, WARNING: said("warn", "Warning", "warn")}
STOPPED = said("bad", "Stopped", "bad")
MAINTENANCE = said("warn", "Maintenance", "warn")
STOP_UNCONFIRMED = said("bad", "Stop not confirmed: it may still be moving", "bad")
ABORT_UNCONFIRMED = said("bad", "Aborted, stop not confirmed: it may still be moving", "bad")


def hold_said(hold: Any) -> Said:
    """An open hold; a stop counts as under way until the robot says that it stands, or has not said so in time."""
    if hold.kind == HoldKind.UNCONFIRMED:
        return ABORT_UNCONFIRMED if hold.mission else STOP_UNCONFIRMED
    if hold.kind == HoldKind.MAINTENANCE:
        return MAINTENANCE
    if hold.confirmed_at is not None:
        return STOPPED
    return STOP_UNCONFIRMED if hold.unconfirmed_at else STOPPING


def fault_said(safety: bool) -> Said:
    """A fault, or that its own safety system holds it."""
    return SAFETY if safety else MODES[Mode.FAULT]


def presence_said(robot: Any) -> Said:
    """One that has never been heard from is not one that nobody is sure about."""
    if robot.presence == Presence.UNKNOWN and robot.presence_since is None:
        return NEVER_HEARD
    return PRESENCES[robot.presence]


def robot_said(robot: Any, open_holds: Iterable[Any]) -> list[Said]:
    """Everything there is to say at a glance, the worst first."""
    if robot.retired_at:
        return [RETIRED]
    found = [hold_said(h) for h in open_holds]
    if robot.fault:
        found.append(fault_said(is_safety(robot.faults)))
    elif robot.presence != Presence.OFFLINE:  # what it did when it was last heard is not what it does
        found.append(MODES[robot.mode])
    found.append(presence_said(robot))
    return sorted(found, key=lambda s: ("bad", "info", "warn", "ok", "off").index(s.token))
