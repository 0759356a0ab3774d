"""Text can be read: every colour of text on every ground keeps a contrast of 4.5 to 1 (WCAG AA), light and dark."""

import re

import pytest
from django.conf import settings

CSS = settings.BASE_DIR / "static/css"
TEXTS = ("ink", "ink-quiet", "accent", "info", "warn", "bad", "off")
GROUNDS = ("ground", "surface", "raised")
PAIRS = [(text, ground) for text in TEXTS for ground in GROUNDS] + [
    ("warn", "warn-wash"), ("bad", "bad-wash"), ("ink", "warn-wash"), ("ink", "bad-wash"), ("ink", "info-wash"),
    ("ink-quiet", "info-wash"), ("raised", "info"), ("raised", "ink"), ("ground", "ink"), ("raised", "bad"),
]  # fmt: skip


def colours(scheme: str) -> dict[str, str]:
    light, _, dark = (CSS / "tokens.css").read_text().partition("prefers-color-scheme: dark")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_on_every_ground(scheme):
    known = colours(scheme)
    found = {}
    for text, ground in PAIRS:
        high, low = sorted((luminance(known[text]), luminance(known[ground])), reverse=True)
        found[text, ground] = round((high + 0.05) / (low + 0.05), 2)
    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


def test_nothing_with_words_is_made_fainter():
    """Half transparent text has no contrast of its own. Shapes may fade, and what cannot be pressed just now."""
    fading = re.findall(r"^\s*([^{}@/]+?) \{[^}]*\bopacity: (?:0?\.\d+)", (CSS / "fleet.css").read_text(), re.M)
    assert sorted(set(fading)) == [".stale .act.starts", ".stale :is(.shape, progress, .bar, .battery svg)"]
