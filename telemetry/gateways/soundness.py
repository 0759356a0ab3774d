"""What of a robot's message can be kept and shown: figures that are some, and no credentials."""

import re
from typing import Any


def without_tokens(payload: bytes) -> bytes:
    """For people: a credential that came in a message is nobody's to read."""
    return _TOKEN.sub(_HIDDEN, payload) if _PREFIX in payload else payload


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


_PREFIX = b"drover_"  # of each token that fleet.actions issues
_TOKEN = re.compile(re.escape(_PREFIX) + rb"[A-Za-z0-9_-]+")
_HIDDEN = _PREFIX + "…".encode()
_BOUNDS = {
    "x": (-1e7, 1e7), "y": (-1e7, 1e7), "theta": (-1e7, 1e7), "speed": (-1e7, 1e7), "battery": (0, 100),
    "skew_s": (-1e10, 1e10),
}  # fmt: skip
