"""Drawing missions up: anew, again, like another one, and anew before they are dispatched. Each is one transaction."""

from collections.abc import Sequence
from typing import Unpack
from uuid import UUID, uuid4, uuid5

from django.db import IntegrityError, transaction

from fleet.commit import commit, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Event
from fleet.refusals import Refused
from missions import facts, locked, plans, step_policy
from missions.decide import decide
from missions.ledger import Ledger
from missions.models import FINAL, Mission, OriginKind, Outcome, Step
from missions.plans import Plan

_NAMESPACE = UUID("7c2f3a1e-51d5-4f0b-9c53-2f5e6d1a8b47")


class DrawnUp(Exception):
    """The same request has drawn up a mission already: this one."""

    def __init__(self, mission_id: UUID) -> None:
        super().__init__(f"mission {mission_id} is drawn up already")
        self.mission_id = mission_id


def draft_mission(
    *,
    by: Origin,
    after: Sequence[UUID] = (),
    origin: UUID | None = None,
    origin_kind: str = "",
    template_id: UUID | None = None,
    key: str = "",
    **said: Unpack[Plan],
) -> UUID:
    """Draw up a mission. `steps`: dicts with `command`, `params` and, if not the type's default, `timeout_s` and the
    columns of missions/step_policy.py. `timeout_s` and `offline_policy` are the brand's when they are not said.

    `key` names one wish of this actor: with it the mission is drawn up once, and whoever repeats it gets `DrawnUp`.
    Without a robot the queue chooses one. `after`: missions that must succeed first. It moves nothing until it is run.
    """
    fields, checked = plans.checked(**said)
    made_from = {"origin": origin, "origin_kind": str(origin_kind), "template_id": template_id}
    now = locked.now()
    mission_id = uuid5(_NAMESPACE, f"{by.actor_kind} {by.actor_id} {key}") if key else uuid4()
    change = new(AGGREGATES["mission"], mission_id)
    change.origin = by
    try:
        with transaction.atomic():
            _not_drawn_up(mission_id)
            before = plans.checked_after(after, fields["site_id"])
            decide(change, facts.DrawUp(fields | {k: v for k, v in made_from.items() if v}, checked, before), now)
            commit([change], now=now)
    except IntegrityError:
        if key:
            _not_drawn_up(mission_id)  # the same request, at the same moment, was faster
        raise
    return mission_id


def edit_mission(
    mission_id: UUID, *, by: Origin, version: int, after: Sequence[UUID] = (), **said: Unpack[Plan]
) -> None:
    """Change a mission that is not dispatched yet; all of it is said anew. `version` is the one the editor saw.

    What was approved needs approval anew, and leaves the queue.
    """
    fields, checked = plans.checked(**said)

    def edit(ledger: Ledger, change: Change) -> None:
        locked.seen(change, version)
        if change.row.dispatched_at or change.row.state in FINAL:
            raise Refused("It is dispatched already and cannot be edited. Cancel it and draw up a new one.")
        if change.row.site_id != fields["site_id"] and Mission(pk=mission_id).dependants.exists():
            raise Refused("site: Another mission comes after this one and stays at its site. Clone this one instead.")
        before = plans.checked_after(after, fields["site_id"], mission_id)
        ledger.tell_mission(mission_id, facts.Edit(fields, checked, before), by)

    locked.on(mission_id, edit)


def rerun_mission(mission_id: UUID, *, by: Origin, unfinished: bool = False, key: str = "") -> UUID:
    """A new mission like one that has ended, with all of its steps or only those that were not completed. Run it."""
    mission = _known(mission_id)
    if mission.state not in FINAL:
        raise Refused("It has not ended yet. Cancel it first, or clone it.")
    return _made_from(mission, OriginKind.RERUN, by, unfinished=unfinished, key=key)


def clone_mission(mission_id: UUID, *, by: Origin, key: str = "") -> UUID:
    """A new mission like this one, whatever became of it, to be edited and run."""
    return _made_from(_known(mission_id), OriginKind.CLONE, by, key=key)


def _not_drawn_up(mission_id: UUID) -> None:
    if Mission.objects.filter(pk=mission_id).exists():
        raise DrawnUp(mission_id)


def _made_from(mission: Mission, kind: OriginKind, by: Origin, *, unfinished: bool = False, key: str = "") -> UUID:
    steps = Step.objects.filter(mission=mission.pk).order_by("number")
    if unfinished:
        steps = steps.exclude(outcome=Outcome.COMPLETED)
    rows = [{"command": s.command, "params": s.params, "timeout_s": s.timeout_s, **step_policy.of(s)} for s in steps]
    if not rows:
        raise Refused("Every step was completed. Rerun all of it instead.")
    chosen = Event.objects.filter(aggregate=f"mission:{mission.pk}", kind="mission.robot_chosen").exists()
    robot = None if chosen else mission.robot
    if robot is not None and robot.retired_at:
        if kind is not OriginKind.CLONE:
            raise Refused(f"{robot.name or robot.pk} is retired. Clone it instead, and choose another robot.")
        robot = None
    return draft_mission(
        title=mission.title, site=mission.site_id, robot=robot, steps=rows, by=by,
        priority=mission.priority, timeout_s=mission.timeout_s, importance=mission.importance,
        needs_approval=mission.needs_approval, offline_policy=mission.offline_policy, origin=mission.pk,
        origin_kind=kind,
        key=f"{key} {kind} {mission.pk} {unfinished}" if key else "",
    )  # fmt: skip


def _known(mission_id: UUID) -> Mission:
    mission = Mission.objects.filter(pk=mission_id).first()
    if mission is None:
        raise Refused(f"There is no mission {mission_id}.")
    return mission
