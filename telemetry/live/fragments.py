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

from missions.queue.reasons import RobotFacts
from telemetry.live import alarms, cards
from telemetry.live.alarms import AlertRow
from telemetry.live.loading import MissionRow, RobotRow
from telemetry.snapshots import Snapshot

View = frozenset[int] | None  # the sites that a viewer looks at
EVERYWHERE: View = None  # all of them, those to come as well
TEMPLATES = {
    "counts": "fleet/_counts.html",
    "robots": "fleet/_robot.html",
    "missions": "missions/_row.html",
    "vitals": "fleet/_vitals.html",
    "bell": "fleet/_bell.html",
    "alerts": "fleet/_alerts.html",
}
VITALS = "<!--vitals-->"  # their place in a card
SWAP = ' hx-swap-oob="outerMorph"'  # on the root of everything that is pushed


class Fragment(NamedTuple):
    """`dom_id` names its root. `site` is where it belongs; counters belong to one `view` instead.

    `rank` sorts the worst first, within one kind of fragment: counts, robots, missions.
    """

    kind: str
    dom_id: str
    site: int | None
    rank: tuple[Any, ...]
    html: str
    json: str  # the HTML as inside of a JSON string
    view: View = EVERYWHERE

    def shown_in(self, view: View) -> bool:
        if self.site is None:
            return view == self.view
        return view is EVERYWHERE or self.site in view


@cache
def _template(name: str) -> Template:
    return Engine.get_default().get_template(name)


@cache
def _admin() -> str:
    return reverse("admin:index")


def _fragment(kind: str, dom_id: str, site: int | None, rank: tuple[Any, ...], **context: Any) -> Fragment:
    html = _render(kind, **context)
    return Fragment(kind, dom_id, site, rank, html, _in_json(html))


def _render(kind: str, **context: Any) -> str:
    return str(_template(TEMPLATES[kind]).render(Context({"admin": _admin(), **context}))).strip()


def robot_id(robot: str) -> str:
    return f"robot-{robot}"


def vitals_id(robot: str) -> str:
    return f"vitals-{robot}"


def mission_id(mission: str) -> str:
    return f"mission-{mission}"


def _in_json(html: str) -> str:
    return msgspec.json.encode(html).decode()[1:-1]


_SWAP_IN_JSON = _in_json(SWAP)


class Shell(NamedTuple):
    """A card without its vitals, which change far more often: two halves to put them between."""

    row: RobotRow
    low: bool
    bucket: str
    rank: tuple[Any, ...]
    html: list[str]
    json: list[str]


def shell(row: RobotRow, low: bool) -> Shell:
    """Render what follows from the row. `low`: the battery is."""
    card = cards.robot_card(row, low)
    html = _render("robots", r=card).split(VITALS)  # no text of others can hold it: they are escaped
    return Shell(row, low, card["bucket"], card["order"], html, [*map(_in_json, html)])


def vitals(row: RobotRow, snapshot: Snapshot | None) -> Fragment:
    return _fragment("vitals", vitals_id(row.id), row.site, (), v=cards.vitals(row.id, snapshot, row.suspect_after_s))


def robot(shell: Shell, vitals: Fragment) -> Fragment:
    """The whole card."""
    # inside the card they are no target of their own
    html = vitals.html.replace(SWAP, "", 1).join(shell.html)
    text = vitals.json.replace(_SWAP_IN_JSON, "", 1).join(shell.json)
    return Fragment("robots", robot_id(shell.row.id), vitals.site, shell.rank, html, text)


def mission(row: MissionRow, robot: RobotFacts | None = None, candidates: Iterable[RobotFacts] = ()) -> Fragment:
    """A row of the strip. What robots are at says why it waits."""
    line = cards.mission_line(row, robot, candidates)
    return _fragment("missions", mission_id(row.id), row.site, line["order"], m=line)


def alerts(view: View, rows: list[AlertRow]) -> tuple[Fragment, Fragment]:
    """The bell and the panel under it. Only their own view shows them."""
    mine = [row for row in rows if row.seen_in(view)]
    panel = {"alerts": alarms.lines(mine), "more": max(0, len(mine) - alarms.SHOWN)}
    return (
        _fragment("bell", "bell", None, (), b=alarms.bell(mine))._replace(view=view),
        _fragment("alerts", "alerts", None, (), **panel)._replace(view=view),
    )


def counts(view: View, buckets: Counter[str], missions: Counter[str]) -> Fragment:
    """Robots by what they need, missions by state. Only its own view shows it."""
    total = sum(buckets.values()) or 1
    bar, x = [], 0.0
    for name, _word in cards.BUCKETS:
        width = 1000 * buckets[name] / total
        if width:
            bar.append({"name": name, "x": f"{x:.1f}", "width": f"{width:.1f}"})
        x += width
    where = f"&site__id__exact={min(view)}" if view is not EVERYWHERE and len(view) == 1 else ""
    context = {
        "bar": bar,
        "parts": [{"name": n, "word": w, "count": buckets[n]} for n, w in cards.BUCKETS],
        "missions": [
            {"name": n, "word": w, "count": missions[n], "list": f"missions/mission/?shown={shown}{where}"}
            for n, w, shown in cards.MISSION_COUNTS
            if missions[n] or n not in cards.ONLY_IF_ANY
        ],
    }
    return _fragment("counts", "counts", None, (), c=context)._replace(view=view)
