"""Handing over: what is left of a mission that ended for it becomes a new one, once, for another robot.

The old mission ends like every other (stop before final); this is done afterwards, by the worker that owns its robot's
partition or by the action that asked for it. The new mission's id follows from the old one's, so nobody can make it twice.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from fleet.commit import commit, new
from fleet.history import AGGREGATES, Change, Origin
from missions import facts, plans, step_policy
from missions.decide import decide
from missions.ledger import Ledger
from missions.models import Mission, OriginKind, Outcome, State

NAMESPACE = uuid.UUID("0b6c9a6e-5d0e-4a53-9b0b-6f4f7d1c2a11")
DONE = (Outcome.COMPLETED, Outcome.SKIPPED)
WAITING = Q(hand_over_at__isnull=False, handed_over_to=None, state=State.ABORTED)
POLICY = Origin("policy", "hand_over", "hand-over", "hand-over")


def waiting() -> list[tuple[UUID, str]]:
    """Missions that have ended and are still to be handed over, with their robots."""
    return list(Mission.objects.filter(WAITING).values_list("pk", "robot_id"))


def carry_out(mission_ids: Iterable[UUID], now: datetime, *, by: Origin = POLICY) -> list[UUID]:
    """Make the missions that go on with these, inside the caller's transaction; returns them. Nothing is made twice."""
    ledger = Ledger.open(mission_ids=mission_ids, now=now)
    made = []
    for mission_id, change in sorted(ledger.missions.items()):
        row = change.row
        if row.state != State.ABORTED or not row.hand_over_at or row.handed_over_to:
            continue
        left = [step for _, step in sorted(change.children["steps"].items()) if step.outcome not in DONE]
        if not left:
            ledger.tell_mission(mission_id, facts.HandedOver(None, why="every step was done"), by)
            continue
        successor = _successor(change, left, now, by)
        ledger.tell_mission(mission_id, facts.HandedOver(successor.row.pk, tuple(s.number for s in left)), by)
        made.append(successor)
    commit(made, now=now)
    ledger.commit()
    return [change.row.pk for change in made]


def _successor(change: Change, left: list, now: datetime, by: Origin) -> Change:
    """Drawn up, approved as far as the old one was, and in the queue for any robot but that one."""
    row = change.row
    steps = [{"command": s.command, "params": s.params, "timeout_s": s.timeout_s, **step_policy.of(s)} for s in left]
    fields = {
        "title": row.title, "site_id": row.site_id, "priority": row.priority, "importance": row.importance,
        "timeout_s": row.timeout_s, "needs_approval": row.needs_approval, "offline_policy": row.offline_policy,
        "charger": plans.charger(steps), "origin": row.pk, "origin_kind": OriginKind.HAND_OVER.value,
    }  # fmt: skip
    made = new(AGGREGATES["mission"], uuid.uuid5(NAMESPACE, f"{row.pk} {row.dispatch_no}"))
    made.origin = by
    decide(made, facts.DrawUp(fields, steps), now)
    if row.approved_at:  # what was approved is done by another, and less of it
        decide(made, facts.Approve(row.approved_by), now)
    decide(made, facts.Queue(), now)
    return made
