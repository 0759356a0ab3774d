"""How a site's map is drawn: places and the picture in one frame, as attributes of an SVG. Metres, y upwards."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fleet.models import Place, Site

MARGIN = 0.08  # of the longer side
AT_THE_EDGE = 0.2  # of the width: there a name leans inwards


class Mark(NamedTuple):
    """One place. Numbers as text for SVG attributes."""

    place: Place
    x: str
    y: str
    nose_x: str
    nose_y: str
    text_y: str
    anchor: str
    chosen: bool


class Drawing(NamedTuple):
    """`view` is the viewBox; `picture` the attributes of the image, or empty."""

    view: str
    picture: dict[str, str]
    marks: list[Mark]
    dot: str
    font: str
    line: str


def drawing(site: Site, places: Sequence[Place], chosen: int | None = None) -> Drawing | None:
    """Everything on one sheet; None when there is nothing to draw."""
    points = [(p.x, p.y) for p in places] + (corners(site) if site.map_sha256 else [])
    if not points:
        return None
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points), max(y for _, y in points)
    side = max(high_x - low_x, high_y - low_y, 1.0)
    margin = side * MARGIN
    unit = side / 100
    view = (low_x - margin, -high_y - margin, high_x - low_x + 2 * margin, high_y - low_y + 2 * margin)
    marks = [
        Mark(
            p, _n(p.x), _n(-p.y), _n(p.x + 3 * unit * math.cos(p.theta)), _n(-p.y - 3 * unit * math.sin(p.theta)),
            _n(-p.y - 2 * unit), _anchor((p.x - view[0]) / view[2]), p.pk == chosen,
        )
        for p in places
    ]  # fmt: skip
    return Drawing(" ".join(map(_n, view)), picture(site), marks, _n(1.1 * unit), _n(2.6 * unit), _n(0.4 * unit))


def _anchor(along: float) -> str:
    """Of the name of a place that lies so far along the width, 0 to 1."""
    return "start" if along < AT_THE_EDGE else "end" if along > 1 - AT_THE_EDGE else "middle"


def corners(site: Site) -> list[tuple[float, float]]:
    """The four corners of the picture on the ground."""
    assert site.map_width is not None and site.map_height is not None
    w, h = site.map_width * site.map_m_per_px, site.map_height * site.map_m_per_px
    cos, sin = math.cos(site.map_rotation), math.sin(site.map_rotation)
    return [
        (site.map_x + x * cos - y * sin, site.map_y + x * sin + y * cos) for x, y in ((0, 0), (w, 0), (w, h), (0, h))
    ]


def picture(site: Site) -> dict[str, str]:
    """Attributes that lay the picture on the ground: its lower left corner at the origin, turned about it."""
    if not site.map_sha256 or site.map_width is None or site.map_height is None:
        return {}
    height = site.map_height * site.map_m_per_px
    turn = f"translate({_n(site.map_x)} {_n(-site.map_y)}) rotate({_n(-math.degrees(site.map_rotation))})"
    return {
        "width": _n(site.map_width * site.map_m_per_px), "height": _n(height), "y": _n(-height), "transform": turn,
    }  # fmt: skip


def _n(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")
