"""What people and programs can do with missions. Each verb is one transaction; a refusal is a sentence for people.

Stop and cancel are never version-checked and never refused for a known mission (I13).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from fleet.columns import accepted_text
from fleet.commit import Conflict, commit, new
from fleet.history import AGGREGATES, Change, Origin
from fleet.models import Event, Hold, Robot, Site
from fleet.refusals import Refused
from fleet.verdict import Verdict
from missions import facts, handing_over, plans, step_policy
from missions.decide import decide
from missions.ledger import Ledger
from missions.models import FINAL, Importance, Mission, OriginKind, Outcome, Step
from missions.queue import waiting
from missions.queue.dispatching import LOST_RACES, carry_out, decisions, frames, places_of
from missions.queue.reasons import obstacle
from missions.queue.standing import standing
from missions.wording import ending

TRIES = 5  # of a transaction that met another one
_NAMESPACE = UUID("7c2f3a1e-51d5-4f0b-9c53-2f5e6d1a8b47")


class DrawnUp(Exception):
    """The same request has drawn up a mission already: this one."""

    def __init__(self, mission_id: UUID) -> None:
        super().__init__(f"mission {mission_id} is drawn up already")
        self.mission_id = mission_id


def draft_mission(
    *,
    title: str,
    site: Site | int,
    steps: list[dict[str, Any]],
    by: Origin,
    robot: Robot | str | None = None,
    priority: int = 0,
    timeout_s: int | None = None,
    importance: str = Importance.NORMAL,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    needs_approval: bool = False,
    offline_policy: str = "",
    after: Sequence[UUID] = (),
    origin: UUID | None = None,
    origin_kind: str = "",
    template_id: UUID | None = None,
    key: str = "",
) -> UUID:
    """Draw up a mission. `steps`: dicts with `command`, `params` and, if not the type's default, `timeout_s` and the
    columns of missions/step_policy.py. `timeout_s` and `offline_policy` are the brand's when they are not said.

    `key` names one wish of this actor: with it the mission is drawn up once, and whoever repeats it gets `DrawnUp`.
    Without a robot the queue chooses one. `after`: missions that must succeed first. It moves nothing until it is run.
    """
    fields, checked = plans.checked(
        title=title, site=site, robot=robot, steps=steps, priority=priority, timeout_s=timeout_s,
        importance=importance, not_before=not_before, expires_at=expires_at, needs_approval=needs_approval,
        offline_policy=offline_policy,
    )  # fmt: skip
    made_from = {"origin": origin, "origin_kind": str(origin_kind), "template_id": template_id}
    now = _now()
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
    mission_id: UUID,
    *,
    title: str,
    site: Site | int,
    steps: list[dict[str, Any]],
    by: Origin,
    version: int,
    robot: Robot | str | None = None,
    priority: int = 0,
    timeout_s: int | None = None,
    importance: str = Importance.NORMAL,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    needs_approval: bool = False,
    offline_policy: str = "",
    after: Sequence[UUID] = (),
) -> None:
    """Change a mission that is not dispatched yet; all of it is said anew. `version` is the one the editor saw.

    What was approved needs approval anew, and leaves the queue.
    """
    fields, checked = plans.checked(
        title=title, site=site, robot=robot, steps=steps, priority=priority, timeout_s=timeout_s,
        importance=importance, not_before=not_before, expires_at=expires_at, needs_approval=needs_approval,
        offline_policy=offline_policy,
    )  # fmt: skip

    def edit(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        if change.row.dispatched_at or change.row.state in FINAL:
            raise Refused("It is dispatched already and cannot be edited. Cancel it and draw up a new one.")
        if change.row.site_id != fields["site_id"] and Mission(pk=mission_id).dependants.exists():
            raise Refused("site: Another mission comes after this one and stays at its site. Clone this one instead.")
        before = plans.checked_after(after, fields["site_id"], mission_id)
        ledger.tell_mission(mission_id, facts.Edit(fields, checked, before), by)

    _on(mission_id, edit)


def queue_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> str:
    """Run it: “dispatched to …” when a robot can take it at once, else “waits: …”, and the queue goes on from there."""

    def queue(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        _not_begun(change)
        if change.row.needs_approval and not change.row.approved_at:
            raise Refused("It needs approval before it can run. Ask somebody who may approve missions.")
        ledger.tell_mission(mission_id, facts.Queue(), by)

    _on(mission_id, queue)
    _dispatch_if_its_turn(mission_id, by)
    mission = Mission.objects.select_related("robot").get(pk=mission_id)
    if mission.dispatched_at:
        return f"dispatched to {mission.robot}"
    return f"waits: {waiting.why_waiting(mission)}"


def withdraw_mission(mission_id: UUID, *, by: Origin) -> None:
    """Take it back out of the queue; it stays as it was drawn up."""

    def withdraw(ledger: Ledger, change: Change) -> None:
        _not_begun(change)
        if ledger.tell_mission(mission_id, facts.Withdraw(), by) is Verdict.REDUNDANT:
            raise Refused("It is not in the queue.")

    _on(mission_id, withdraw)


def approve_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Let it run. Whoever drew it up or edited it may not, unless they are a superuser."""

    def approve(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        _not_begun(change)
        if not change.row.needs_approval:
            raise Refused("It needs no approval. Run it.")
        if change.row.approved_at:
            raise Refused(f"It is approved already, by {change.row.approved_by}.")
        if _wrote(change, by) and not _is_superuser(by):
            raise Refused("Nobody approves what they drew up or edited themselves. Ask somebody else.")
        ledger.tell_mission(mission_id, facts.Approve(by.actor_name), by)

    _on(mission_id, approve)


def set_priority(mission_id: UUID, *, priority: int, by: Origin) -> None:
    """Move it in the queue: higher goes first."""
    wanted = plans.checked_priority(priority)

    def set_it(ledger: Ledger, change: Change) -> None:
        _not_begun(change)
        ledger.tell_mission(mission_id, facts.SetPriority(wanted), by)

    _on(mission_id, set_it)


def rerun_mission(mission_id: UUID, *, by: Origin, unfinished: bool = False, key: str = "") -> UUID:
    """A new mission like one that has ended, with all of its steps or only those that were not completed. Run it."""
    mission = _known(mission_id)
    if mission.state not in FINAL:
        raise Refused("It has not ended yet. Cancel it first, or clone it.")
    return _made_from(mission, OriginKind.RERUN, by, unfinished=unfinished, key=key)


def clone_mission(mission_id: UUID, *, by: Origin, key: str = "") -> UUID:
    """A new mission like this one, whatever became of it, to be edited and run."""
    return _made_from(_known(mission_id), OriginKind.CLONE, by, key=key)


def dispatch_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Hand the mission to the robot it names, past the queue. Refused with a reason when it cannot take it now."""

    def dispatch(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        _not_begun(change)
        mission = change.row
        if mission.robot_id is None:
            raise Refused("It has no robot yet. Choose one, or run it and the best that can is chosen.")
        found = standing([mission]).missions[mission_id]
        if reason := obstacle(found, ledger.now, insist=True):
            raise Refused(str(reason))
        places = places_of([mission.site_id])[mission.site_id]
        dispatch = facts.Dispatch(mission.robot.name, frames(change, places), ledger.timings(mission.robot_id))
        ledger.tell_mission(mission_id, dispatch, by)

    try:
        _on(mission_id, dispatch)
    except IntegrityError as error:
        if not _lost_race(error):
            raise
        raise Refused("Somebody was faster. Try again when the other mission has ended.") from error


def cancel_mission(mission_id: UUID, *, by: Origin, reason: str = "") -> str:
    """End it: `aborted`, `stopping` (the robot was asked), `already stopping` or `already ended`."""
    said: list[str] = []

    def cancel(ledger: Ledger, change: Change) -> None:
        said.clear()
        if change.row.state in FINAL:
            said.append("already ended")  # and nobody goes on with it, if somebody was to
            ledger.tell_mission(mission_id, facts.HandedOver(None, why=f"{by.actor_name} cancelled it"), by)
            return
        told = ledger.tell_mission(mission_id, facts.Cancel(by.actor_name, accepted_text(reason)), by)
        if told is Verdict.REDUNDANT:
            said.append("already stopping")
        else:
            said.append("aborted" if change.row.state in FINAL else "stopping")

    _on(mission_id, cancel)
    return said[0]


def pause_mission(mission_id: UUID, *, by: Origin) -> None:
    """Ask the robot to pause it. It is paused when the robot says so."""

    def pause(ledger: Ledger, change: Change) -> None:
        _running(change)
        ledger.tell_mission(mission_id, facts.Pause(by.actor_name), by)

    _on(mission_id, pause)


def resume_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Ask the robot to go on. Refused while the robot is held."""

    def resume(ledger: Ledger, change: Change) -> None:
        _seen(change, version)
        _running(change)
        if reason := _held(change.row.robot):
            raise Refused(reason)
        ledger.tell_mission(mission_id, facts.Resume(by.actor_name), by)

    _on(mission_id, resume)


def hand_over_mission(mission_id: UUID, *, by: Origin) -> UUID | None:
    """Take it from its robot; what is left of it becomes a new mission for another. That one, if it could be made at once.

    The robot is told to stop first, as when it is cancelled; the new mission follows when the old one has ended.
    """

    def hand_over(ledger: Ledger, change: Change) -> None:
        _running(change)
        ledger.tell_mission(mission_id, facts.HandOver(by.actor_name), by)

    _on(mission_id, hand_over)
    with transaction.atomic():
        made = handing_over.carry_out([mission_id], _now(), by=by)
    return made[0] if made else None


# --- rules they share


def _not_drawn_up(mission_id: UUID) -> None:
    if Mission.objects.filter(pk=mission_id).exists():
        raise DrawnUp(mission_id)


def _dispatch_if_its_turn(mission_id: UUID, by: Origin) -> None:
    """Now, if a robot can take it and nobody is before it. When somebody is faster the worker looks again."""
    site = Mission.objects.values_list("site", flat=True).get(pk=mission_id)
    now = _now()
    mine = [d for d in decisions(now, site=site) if d.mission.id == str(mission_id)]
    if not mine:
        return
    policy = Origin("policy", "queue", "queue", by.cause or "queue:asked to run", by.trace_id, by.span_id)
    try:
        with transaction.atomic():
            carry_out(mine, now, by=policy)
    except Conflict:
        return
    except IntegrityError as error:
        if not _lost_race(error):
            raise


def _lost_race(error: IntegrityError) -> bool:
    return any(name in str(error) for name in LOST_RACES)


def _made_from(mission: Mission, kind: OriginKind, by: Origin, *, unfinished: bool = False, key: str = "") -> UUID:
    steps = Step.objects.filter(mission=mission.pk).order_by("number")
    if unfinished:
        steps = steps.exclude(outcome=Outcome.COMPLETED)
    rows = [{"command": s.command, "params": s.params, "timeout_s": s.timeout_s, **step_policy.of(s)} for s in steps]
    if not rows:
        raise Refused("Every step was completed. Rerun all of it instead.")
    chosen = Event.objects.filter(aggregate=f"mission:{mission.pk}", kind="mission.robot_chosen").exists()
    return draft_mission(
        title=mission.title, site=mission.site_id, robot=None if chosen else mission.robot_id, steps=rows, by=by,
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


def _wrote(change: Change, by: Origin) -> bool:
    """Whether this actor drew it up or edited it, themselves or by an API token of theirs."""
    written = Event.objects.filter(aggregate=change.name, kind__in=("mission.drafted", "mission.edited"))
    person = by.actor_id.partition("/")[0]  # a token is `<person>/<number>`
    if by.actor_kind not in ("user", "api"):
        return written.filter(actor_kind=by.actor_kind, actor_id=by.actor_id).exists()
    mine = Q(actor_kind="user", actor_id=person) | Q(actor_kind="api", actor_id__startswith=f"{person}/")
    return written.filter(mine).exists()


def _is_superuser(by: Origin) -> bool:
    return by.actor_kind == "user" and User.objects.filter(pk=by.actor_id, is_superuser=True).exists()


def _held(robot: Robot) -> str:
    return waiting.held(robot, list(Hold.objects.filter(robot=robot.pk, released_at=None).order_by("since")))


def _not_begun(change: Change) -> None:
    mission = change.row
    if mission.state in FINAL:
        raise Refused(f"It has ended ({ending(mission).lower()}). Draw up a new one.")
    if mission.dispatched_at:
        raise Refused("It is dispatched already.")


def _running(change: Change) -> None:
    mission = change.row
    if mission.state in FINAL:
        raise Refused(f"It has ended ({ending(mission).lower()}).")
    if not mission.dispatched_at:
        raise Refused("It is not dispatched yet.")
    if mission.stop_requested_at:
        raise Refused("It is being stopped.")


def _seen(change: Change, version: int | None) -> None:
    if version is not None and version != change.row.version:
        raise Refused("It has changed since you looked. Read it again and decide anew.")


def _on(mission_id: UUID, verb: Callable[[Ledger, Change], None]) -> None:
    """Run a verb on a locked mission; when another transaction came first, on a fresh one."""
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic():
                ledger = Ledger.open(mission_ids=[mission_id], now=_now())
                if mission_id not in ledger.missions:
                    if Mission.objects.filter(pk=mission_id).exists():
                        raise Conflict("it was given to another robot meanwhile")
                    raise Refused(f"There is no mission {mission_id}.")
                verb(ledger, ledger.missions[mission_id])
                ledger.commit()
            return
        except Conflict:
            if not left:
                raise


def _now() -> datetime:
    return timezone.now()
