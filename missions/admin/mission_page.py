"""What a mission's page says: how it stands, why it waits, what will happen if nothing is heard, and how it came about.

Each part has a key that changes when what it says changes, so that a page that is open exchanges only that.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from fleet.admin.timeline import timeline
from fleet.models import Command, OfflinePolicy
from fleet.people.access import at_sites
from fleet.robots import sending
from missions import timings
from missions.admin.due_rows import due_rows
from missions.admin.step_rows import standing_still, step_rows
from missions.models import FINAL, Mission, OriginKind, State
from missions.queue.waiting import why_waiting
from missions.wording import mission_said

EVERY_S = 3  # how often an open page asks
EVERY_S_UNCONFIRMED = 15  # it has ended, but the robot may say that it stands after all
SETTLES_S = 10  # so long after its end others may still write what belongs to it: tries, a mission that follows

LATE = ("mission.late_receipt", "mission.stop_confirmed_late")  # what robots say of missions that have ended


class Related(NamedTuple):
    """Another mission and what it is to this one."""

    how: str
    mission: Any
    said: Any


MADE = {
    OriginKind.RERUN: ("Rerun of", "Rerun as"),
    OriginKind.CLONE: ("Cloned from", "Cloned as"),
    OriginKind.TEMPLATE: ("Made from", "Made into"),
    OriginKind.HAND_OVER: ("Goes on with", "Handed over to"),
}


def page_context(request: HttpRequest, row: Any) -> dict[str, Any]:
    """For a row annotated with `steps_n` and `done_n`."""
    waits, related = why_waiting(row), _related(request, row)
    history = timeline(f"mission:{row.pk}", request.user)
    newest = history["entries"][-1].event.seq if history["entries"] else 0
    sent = sending.newest(Command.objects.filter(mission=row.pk))
    now, steps = timezone.now(), list(row.steps.all())
    every_s = _every_s(row, now)
    parts = {
        "head": _key(row.version, waits, str(row.robot)),
        "buttons": _key(row.version),
        "rows": _key(row.version),
        "sent": _key(*sending.key(sent)),
        "related": _key(*((r.how, r.mission.pk, r.said.word, r.mission.title) for r in related)),
        "history": _key(newest),
    }
    return {
        "s": mission_said(row),
        "robot_url": reverse("admin:fleet_robot_change", args=[quote(row.robot_id)]) if row.robot_id else "",
        "waits_for": waits,
        "steps": step_rows(row, steps),
        "still": standing_still(row),
        "left": _left(row),
        "late": _late(history["entries"]),
        "offline": _offline(row),
        "proposed": _proposed(row, history["entries"]),
        "deadlines": due_rows(row, steps, now),
        "waiting_since": row.queued_at if row.state == State.PENDING and not row.dispatched_at else None,
        "sent": sent,
        "related": related,
        "parts": parts,
        "stamp": _key(*parts.values(), every_s),
        "every_s": every_s,
        "now": now.isoformat(),
        **history,
    }


def _every_s(row: Any, now: datetime) -> int:
    if row.state not in FINAL or now < row.ended_at + timedelta(seconds=SETTLES_S):
        return EVERY_S
    return EVERY_S_UNCONFIRMED if row.stop_confirmed is False else 0


def _related(request: HttpRequest, row: Any) -> list[Related]:
    """What it was made from and into, and what waits for what. Of other sites only what the person may see."""
    found: list[tuple[str, Any]] = []
    seen = at_sites(request.user, Mission.objects.all())
    if row.origin and (origin := seen.filter(pk=row.origin).first()):
        found.append((MADE[row.origin_kind][0] if row.origin_kind else "Made from", origin))
    found += [(MADE[m.origin_kind][1], m) for m in seen.filter(origin=row.pk).order_by("created_at")[:20]]
    found += [("Comes after", m) for m in seen.filter(dependants__mission=row.pk).order_by("dependants__number")]
    found += [("Comes before", m) for m in seen.filter(dependencies__on=row.pk).order_by("created_at")[:20]]
    return [Related(how, mission, mission_said(mission)) for how, mission in found]


def _late(entries: list[Any]) -> list[tuple[str, Any]]:
    """What the robot said when it had ended already: its words and when, the oldest first."""
    return [
        (msgspec.json.decode(e.event.data).get("says", ""), e.event.occurred_at)
        for e in entries
        if e.event.kind in LATE
    ]


def _proposed(row: Any, entries: list[Any]) -> str:
    """Why a person is asked whether another robot shall go on with it; empty when nobody is asked."""
    if row.state in FINAL or row.hand_over_at or not row.robot_lost_at or row.stop_requested_at:
        return ""
    found = [e.event for e in entries if e.event.kind == "mission.hand_over_proposed"]
    newest = [event for event in found if event.occurred_at >= row.robot_lost_at]
    return str(msgspec.json.decode(newest[-1].data).get("why", "")) if newest else ""


def _left(row: Any) -> str:
    """How much of its times is left while they stand still."""
    parts = [
        f"{left:.0f} s of the {what}'s"
        for what, left in (("step", row.step_left_s), ("mission", row.mission_left_s))
        if left is not None
    ]
    return f"{' and '.join(parts)} time are left." if parts else ""


def _offline(row: Any) -> str:
    """What becomes of it when its robot stays offline: as it says itself, or as its robot's brand does or did."""
    policies = dict(OfflinePolicy.choices)
    if row.offline_policy:
        return str(policies[row.offline_policy]).lower()
    if row.robot is None:
        return "as its robot's brand says"
    of_brand = timings.offline_policy(row) if row.timings else row.robot.brand.offline_policy
    return f"{str(policies[of_brand]).lower()}, as its brand says"


def _key(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
