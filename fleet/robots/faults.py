"""What is wrong with a robot, fault by fault: raised and cleared by code, and said together in words. Pure.

An entry of `Robot.faults` is a dict of code, text, kind, danger, since (ISO 8601), and session and seq of the word that
raised it. Kinds: `fault` keeps work from it, `safety` is one of its own safety system (emergency stop, protective
field), with `warning` it goes on all the same.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

FAULT, SAFETY, WARNING = "fault", "safety", "warning"
MOST = 20  # of one robot; of more the oldest are let go
MAX_TEXT = 1000  # characters of one; robots may say 64 kB

Entry = dict[str, Any]


def raised(
    faults: Sequence[Entry], *, code: str, text: str, kind: str, danger: bool, at: datetime, word: tuple[int, int]
) -> list[Entry]:
    """With this one; the same code again takes the place of what was said before, and is as old."""
    since = next((f["since"] for f in faults if f["code"] == code and f["kind"] == kind), at.isoformat())
    new = {"code": code, "text": (text or code)[:MAX_TEXT], "kind": kind, "danger": danger, "since": since}
    rest = [f for f in faults if f["code"] != code]
    return [*rest, {**new, "session": word[0], "seq": word[1]}][-MOST:]


def cleared(faults: Sequence[Entry], code: str | None, word: tuple[int, int]) -> list[Entry]:
    """Without that of this code (None: without any), unless it was raised by a later word than this one."""
    return [f for f in faults if code not in (None, f["code"]) or (f["session"], f["seq"]) > word]


def same(one: Sequence[Entry], other: Sequence[Entry]) -> bool:
    """Whether both say the same, whichever word said it."""
    about = ("code", "text", "kind", "danger")
    return sorted([f[k] for k in about] for f in one) == sorted([f[k] for k in about] for f in other)


def blocking(faults: Sequence[Entry]) -> list[Entry]:
    """Those that keep work from it, the worst first."""
    found = [f for f in faults if f["kind"] != WARNING]
    return sorted(found, key=lambda f: (not f["danger"], f["kind"] != SAFETY))


def words(faults: Sequence[Entry]) -> str:
    """What `Robot.fault` says: nothing, the text of the one, or `2 faults: blocked; too hot`."""
    found = [f["text"] for f in blocking(faults)]
    return f"{len(found)} faults: {'; '.join(found)}" if len(found) > 1 else "".join(found)


def has_words(fault: str) -> str:
    """`Robot.fault` after a robot's name: has a fault: blocked, has 2 faults: blocked; too hot."""
    return f"has {fault}" if re.match(r"[1-9][0-9]* faults: ", fault) else f"has a fault: {fault}"


def is_safety(faults: Sequence[Entry]) -> bool:
    """Whether its own safety system holds it."""
    return any(f["kind"] == SAFETY for f in faults)
