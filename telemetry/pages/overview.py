"""What the start page of the admin says: counts, and what needs a decision. Only what the user may see."""

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, Q
from django.urls import reverse
from django.utils import timezone

from fleet.admin.alerts import SAID
from fleet.admin.daily import Questions, counted
from fleet.alerts.heard import open_alerts
from fleet.models import Hold, HoldKind, Presence, Robot
from fleet.people.access import at_sites
from fleet.robots.wording import PRESENCES
from fleet.wording import Said, ago
from missions.admin.mission_list import shown as asked
from missions.models import RUNNING, UNDECIDED, DeadLetter, Mission
from telemetry.partitions import somebody_works

ALERTS = 12  # on the start page


class Line(NamedTuple):
    """One thing that waits for a person, with the list that shows it."""

    said: Said
    words: str
    url: str


class Notice(NamedTuple):
    """An open alert. `by` has acknowledged it, if anybody."""

    said: Said
    words: str
    url: str
    since: str
    by: str


class Tile(NamedTuple):
    number: int
    label: str
    url: str
    said: Said


def overview(user: Any) -> dict[str, Any]:
    """Context of the start page. A fixed number of queries."""
    now = timezone.now()
    robots, missions, needs, shown, more = [], [], _worker(), [], 0
    if user.has_perm("fleet.view_robot"):
        robots = _robots(user)
        needs += _needs_of_robots(user)
    if user.has_perm("missions.view_deadletter"):
        needs += _dead_letters(user)
    if user.has_perm("missions.view_mission"):
        questions = asked(now)
        numbers = counted(at_sites(user, Mission.objects.all()), questions)
        missions = _missions(questions, numbers)
        needs += _approvals(numbers["approval"])
    if user.has_perm("fleet.view_alert"):
        alerts = open_alerts(user)
        shown = list(alerts[:ALERTS])
        more = alerts.count() - ALERTS if len(shown) == ALERTS else 0
    return {
        "robots": robots, "missions": missions, "needs": needs, "alerts": [_alert(a, now) for a in shown],
        "more_alerts": more,
    }  # fmt: skip


def _alert(alert: Any, now: datetime) -> Notice:
    times = f", {alert.count} times" if alert.count > 1 else ""
    url = reverse("admin:fleet_alert_change", args=[alert.pk])
    return Notice(SAID[alert.severity], alert.text, url, f"{ago(alert.opened_at, now)}{times}", alert.acknowledged_by)


def _worker() -> list[Line]:
    """Without a worker nobody opens an alert about it, so the page looks itself."""
    if somebody_works():
        return []
    words = "No worker runs: nothing that robots say is applied. Start `manage.py worker`"
    return [Line(Said("◆", "", "bad"), words, reverse("admin:index"))]


def _approvals(number: int) -> list[Line]:
    words = f"{number} mission{'' if number == 1 else 's'} to be approved"
    url = reverse("admin:missions_mission_changelist")
    return [Line(Said("△", "", "warn"), words, f"{url}?shown=approval")] if number else []


def _robots(user: Any) -> list[Tile]:
    url = reverse("admin:fleet_robot_changelist")
    here = at_sites(user, Robot.objects.filter(retired_at=None))
    counts = dict(here.order_by().values_list("presence").annotate(n=Count("pk")))
    return [Tile(counts.get(p, 0), said.word, f"{url}?presence__exact={p}", said) for p, said in PRESENCES.items()]


def _missions(questions: Questions, numbers: dict[str, int]) -> list[Tile]:
    """The daily filters of the list of missions, with the same numbers."""
    shapes = {
        "waiting": ("○", "ok"),
        "running": ("▶", "ok"),
        "stopping": ("◌", "info"),
        "wrong": ("╳", "ok"),
        "draft": ("○", "ok"),
    }
    url = reverse("admin:missions_mission_changelist")
    return [
        Tile(numbers[name], questions[name][0], f"{url}?shown={name}", Said(shape, "", token))
        for name, (shape, token) in shapes.items()
    ]


def _needs_of_robots(user: Any) -> list[Line]:
    url = reverse("admin:fleet_robot_changelist")
    holds = at_sites(user, Hold.objects.filter(released_at=None, robot__retired_at=None))
    kinds = dict(holds.order_by().values_list("kind").annotate(n=Count("robot", distinct=True)))
    busy = Mission.objects.filter(RUNNING, robot=OuterRef("pk"))
    found = at_sites(user, Robot.objects.filter(retired_at=None)).aggregate(
        faults=Count("pk", filter=~Q(fault="")),
        lost=Count("pk", filter=Q(Exists(busy), presence=Presence.OFFLINE)),
    )
    bad, warn = Said("◆", "", "bad"), Said("△", "", "warn")
    lines = [
        (
            kinds.get(HoldKind.UNCONFIRMED, 0),
            bad,
            "held because the stop was not confirmed: may still be moving",
            "held=yes",
        ),
        (found["faults"], bad, "with a fault", "held=fault"),
        (found["lost"], bad, "offline with a mission", f"presence__exact={Presence.OFFLINE}"),
        (kinds.get(HoldKind.STOPPED, 0), bad, "stopped by a person, until released", "held=yes"),
        (kinds.get(HoldKind.MAINTENANCE, 0), warn, "in maintenance", "held=maintenance"),
    ]
    return [Line(said, f"{n} {_robot(n)} {words}", f"{url}?{query}") for n, said, words, query in lines if n]


def _dead_letters(user: Any) -> list[Line]:
    number = at_sites(user, DeadLetter.objects.filter(state__in=UNDECIDED)).count()
    words = f"{number} dead letter{'' if number == 1 else 's'}: could not be applied or delivered"
    return [Line(Said("△", "", "warn"), words, reverse("admin:missions_deadletter_changelist"))] if number else []


def _robot(number: int) -> str:
    return "robot" if number == 1 else "robots"
