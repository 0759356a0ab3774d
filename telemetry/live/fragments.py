"""Fragments: the HTML of one card, row or counter strip, rendered once for all who see it; page and push share it."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec
from django.template.base import Template
from django.template.context import Context
from django.template.engine import Engine
from django.urls import reverse

from telemetry.live import cards
from telemetry.live.loading import MissionRow, RobotRow
from telemetry.snapshots import Snapshot

EVERYWHERE = None  # the view of all sites
TEMPLATES = {"counts": "fleet/_counts.html", "robots": "fleet/_robot.html", "missions": "missions/_row.html"}


class Fragment(NamedTuple):
    """`dom_id` names its root. `views` are those that show it: sites by number, and `EVERYWHERE`.

    `rank` sorts the worst first, within one kind of fragment: counts, robots, missions.
    """

    kind: str
    dom_id: str
    views: frozenset[int | None]
    rank: tuple[Any, ...]
    html: str
    json: str  # the HTML as inside of a JSON string

    def shown_in(self, view: int | None) -> bool:
        return view in self.views


@cache
def _template(name: str) -> Template:
    return Engine.get_default().get_template(name)


@cache
def _admin() -> str:
    return reverse("admin:index")


def _fragment(kind: str, dom_id: str, views: Iterable[int | None], rank: tuple[Any, ...], **context: Any) -> Fragment:
    html = _template(TEMPLATES[kind]).render(Context({"admin": _admin(), **context})).strip()
    return Fragment(kind, dom_id, frozenset(views), rank, html, msgspec.json.encode(html).decode()[1:-1])


def robot_id(robot: str) -> str:
    return f"robot-{robot}"


def mission_id(mission: str) -> str:
    return f"mission-{mission}"


def robot(row: RobotRow, snapshot: Snapshot | None) -> tuple[Fragment, str]:
    """The card, and the part of the bar that it counts in."""
    card = cards.robot_card(row, snapshot)
    rank = (card["rank"], row.name.casefold(), row.id)
    return _fragment("robots", robot_id(row.id), (EVERYWHERE, row.site), rank, r=card), card["bucket"]


def mission(row: MissionRow) -> Fragment:
    line = cards.mission_line(row)
    rank = (line["rank"], -row.created_at.timestamp())
    return _fragment("missions", mission_id(row.id), (EVERYWHERE, row.site), rank, m=line)


def counts(view: int | None, buckets: Counter[str], missions: Counter[str]) -> Fragment:
    """Robots by what they need, missions by state. Only its own view shows it."""
    total = sum(buckets.values()) or 1
    bar, x = [], 0.0
    for name, _word in cards.BUCKETS:
        width = 1000 * buckets[name] / total
        if width:
            bar.append({"name": name, "x": f"{x:.1f}", "width": f"{width:.1f}"})
        x += width
    context = {
        "bar": bar,
        "parts": [{"name": n, "word": w, "count": buckets[n]} for n, w in cards.BUCKETS],
        "missions": [{"name": n, "word": w, "count": missions[n]} for n, w in cards.MISSION_COUNTS],
    }
    return _fragment("counts", "counts", (view,), (), c=context)
