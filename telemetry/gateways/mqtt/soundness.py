"""What can be kept of what a driver reads off a robot's message: texts of a length, times and figures that are some."""

from datetime import datetime
from typing import Any

import msgspec

from telemetry import protocol
from telemetry.drivers.contract import Say

LONGEST = 2000  # characters of a text that a driver read off a message and says for its robot


def kept(word: Say, at: datetime) -> Say:
    """A word that a driver read off a robot's message, as it can be stored: neither a clock that says year 1 nor a report of
    pages costs a receipt.
    """
    if not protocol.can_be_kept(word.occurred_at):
        word = msgspec.structs.replace(word, occurred_at=at)
    if any(isinstance(text, str) and len(text) > LONGEST for text in word.data.values()):
        data = {name: _cut(value) if isinstance(value, str) else value for name, value in word.data.items()}
        word = msgspec.structs.replace(word, data=data)
    return word


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def sound(facts: dict[str, Any]) -> dict[str, Any]:
    """Of telemetry that a driver read off a robot's message: what can be kept and shown."""
    kept: dict[str, Any] = {}
    for name, (low, high) in _BOUNDS.items():
        value = facts.get(name)
        if isinstance(value, int | float) and low <= value <= high:  # neither NaN nor infinite
            kept[name] = float(value)
    for name in ("place", "carries"):
        text = facts.get(name)
        if isinstance(text, str) and len(text) <= 200 and "\0" not in text:
            kept[name] = text
    return kept


_BOUNDS = {
    "x": (-1e7, 1e7), "y": (-1e7, 1e7), "theta": (-1e7, 1e7), "speed": (-1e7, 1e7), "battery": (0, 100),
    "skew_s": (-1e10, 1e10),
}  # fmt: skip
