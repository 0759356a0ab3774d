"""How a robot's condition is said: a shape, a word and a token of the palette (never colour alone)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fleet.models import HoldKind, Mode, Presence


def clock(at: datetime) -> str:
    """A moment as sentences of today say it: 29 Nov 14:05 UTC."""
    return f"{at.astimezone(UTC):%d %b %H:%M} UTC"


def minute(at: datetime) -> str:
    """A moment as history keeps it in words, with its year: 2026-11-29 14:05 UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


class Said(NamedTuple):
    """`shape` is a glyph, `token` one of ok, info, warn, bad, off."""

    shape: str
    word: str
    token: str


MODES: dict[str, Said] = {
    Mode.UNKNOWN: Said("○", "Mode unknown", "off"),
    Mode.IDLE: Said("○", "Idle", "ok"),
    Mode.RUNNING: Said("▶", "Running", "ok"),
    Mode.CHARGING: Said("⚡", "Charging", "ok"),
    Mode.PAUSED: Said("❚❚", "Paused", "ok"),
    Mode.FAULT: Said("◆", "Fault", "bad"),
    Mode.MANUAL: Said("△", "Driven by hand", "warn"),
}
PRESENCES: dict[str, Said] = {
    Presence.UNKNOWN: Said("○", "Link unknown", "off"),
    Presence.ONLINE: Said("●", "Online", "ok"),
    Presence.SUSPECT: Said("△", "Not heard of lately", "warn"),
    Presence.OFFLINE: Said("╳", "Offline", "off"),
}
RETIRED = Said("╳", "Retired", "off")


def hold_said(hold: Any) -> Said:
    """An open hold; a stop counts as under way until the robot says that it stands, or has not said so in time."""
    if hold.kind == HoldKind.STOPPED and hold.confirmed_at is None:
        if hold.unconfirmed_at:
            return Said("◆", "Stop not confirmed; it may still be moving", "bad")
        return Said("◌", "Stopping…", "info")
    if hold.kind == HoldKind.MAINTENANCE:
        return Said("△", "Maintenance", "warn")
    return Said("◆", HoldKind(hold.kind).label, "bad")


def robot_said(robot: Any, open_holds: Iterable[Any]) -> list[Said]:
    """Everything there is to say at a glance, the worst first."""
    if robot.retired_at:
        return [RETIRED]
    said = [hold_said(h) for h in open_holds]
    said.append(Said("◆", "Fault", "bad") if robot.fault else MODES[robot.mode])
    said.append(PRESENCES[robot.presence])
    return sorted(said, key=lambda s: ("bad", "info", "warn", "ok", "off").index(s.token))
