"""What a robot can do: what it says itself, else what its brand can. One rule, for rows and for SQL, and its words.

An ability is a command type, or `custom:<name>`: where any of these is named, only those custom commands; else `custom`
alone stands for all of them.
"""

from collections.abc import Collection, Iterable
from typing import Any

CUSTOM = "custom"
ABLE_SQL = "coalesce(r.capabilities, b.capabilities)"  # of fleet_robot r and its fleet_brand b, as jsonb


def of(robot: Any) -> frozenset[str]:
    """Of a robot; its brand is read only if it has said nothing itself."""
    return frozenset(robot.brand.capabilities if robot.capabilities is None else robot.capabilities)


def needed(command: str, params: Any) -> str:
    """What a step needs."""
    name = params.get("name", "") if isinstance(params, dict) else ""
    return f"{CUSTOM}:{name}" if command == CUSTOM and name else command


def can(need: str, able: Collection[str]) -> bool:
    """Whether what is needed is among what it can."""
    if need in able:
        return True
    kind, _, name = need.partition(":")
    named = any(a.startswith(f"{CUSTOM}:") for a in able)
    if kind != CUSTOM:
        return False
    return CUSTOM in able and not named if name else named


def missing(needs: Iterable[str], able: Collection[str]) -> list[str]:
    """What it cannot, of all that is needed."""
    return sorted({need for need in needs if not can(need, able)})


def words(able: Iterable[str]) -> str:
    """For people: navigate, pick, custom beep."""
    return ", ".join(a.replace(f"{CUSTOM}:", f"{CUSTOM} ") for a in sorted(able) if a) or "nothing yet"
