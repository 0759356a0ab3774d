"""What a robot can do: what it says itself, else what its brand can. One rule, for rows and for SQL, and its words.

An ability is a command type, or `custom:<name>`: where any of these is named, only those custom commands; else `custom`
alone stands for all of them.
"""

from collections.abc import Collection, Iterable
from typing import Any

CUSTOM = "custom"
ABLE_SQL = "coalesce(r.capabilities, b.capabilities)"  # of fleet_robot r and its fleet_brand b, as jsonb

NEEDED_SQL = f"n.command || CASE WHEN n.command = '{CUSTOM}' THEN coalesce(':' || (n.params->>'name'), '') ELSE '' END"  # of a step n


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
    kind, colon, _ = need.partition(":")
    named = any(a.startswith(f"{CUSTOM}:") for a in able)
    if kind != CUSTOM:
        return False
    return CUSTOM in able and not named if colon else named


def together(several: Iterable[Collection[str]]) -> frozenset[str]:
    """What any of these can: where one can every custom command, all can be asked for."""
    found, every = set[str](), False
    for able in several:
        found |= set(able)
        every = every or can(f"{CUSTOM}:", able)
    return frozenset(a for a in found if not (every and a.startswith(f"{CUSTOM}:")))


def types(able: Iterable[str]) -> list[str]:
    """The command types among them."""
    return sorted({a.partition(":")[0] for a in able})


def missing(needs: Iterable[str], able: Collection[str]) -> list[str]:
    """What it cannot, of all that is needed."""
    return sorted({need for need in needs if not can(need, able)})


def cannot_words(needs: Iterable[str], able: Collection[str], own_word: bool) -> str:
    """After a robot's name: cannot charge: it says that it can navigate, pick."""
    lacks = " and ".join(a.replace(f"{CUSTOM}:", f"{CUSTOM} ") for a in missing(needs, able))
    return f"cannot {lacks}" + (f": it says that it can {words(able)}" if own_word else "")


def words(able: Iterable[str]) -> str:
    """For people: navigate, pick, custom beep."""
    return ", ".join(a.replace(f"{CUSTOM}:", f"{CUSTOM} ") for a in sorted(able) if a) or "nothing"
