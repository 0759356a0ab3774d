"""How things are said in admin and on the live page: a shape, a word and a token (never colour alone), and moments."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.utils.timesince import timesince


def clock(at: datetime) -> str:
    """A moment as sentences of today say it: 29 Nov 14:05 UTC."""
    return f"{at.astimezone(UTC):%d %b %H:%M} UTC"


def minute(at: datetime) -> str:
    """A moment as history keeps it in words, with its year: 2026-11-29 14:05 UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def ago(at: datetime, now: datetime) -> str:
    """4 minutes ago, in one unit."""
    if now - at < timedelta(minutes=1):
        return f"{max(0, int((now - at).total_seconds()))} s ago"
    return f"{timesince(at, now, depth=1)} ago"


GLYPHS = {  # name of the icon → the same shape as a character
    "idle": "○", "running": "▶", "charging": "⚡", "paused": "❚❚", "manual": "△", "done": "✓", "bad": "◆", "warn": "△",
    "off": "╳", "ring": "◌", "unknown": "○", "online": "●",
}  # fmt: skip


class Said(NamedTuple):
    """`shape` is a glyph, `token` one of ok, info, warn, bad, off; `icon` is the shape's name in `GLYPHS`."""

    shape: str
    word: str
    token: str
    icon: str = ""


def said(icon: str, word: str, token: str) -> Said:
    """By the name of its icon."""
    return Said(GLYPHS[icon], word, token, icon)


STOPPING = said("ring", "Stopping…", "info")
DISPATCHING = said("ring", "Dispatching…", "info")
