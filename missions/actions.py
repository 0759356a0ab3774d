"""What people and programs can do with missions. Each verb is one transaction; a refusal is a sentence for people.

Stop and cancel are never version-checked and never refused for a known mission (I13). Drawing up is in drawing_up.py.
"""

from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q

from fleet.columns import accepted_text
from fleet.commit import Conflict
from fleet.history import Change, Origin
from fleet.models import Event, Hold, Robot
from fleet.refusals import Refused
from fleet.verdict import Verdict
from missions import facts, handing_over, locked, plans
from missions.ledger import Ledger
from missions.models import FINAL, Mission
from missions.queue import waiting
from missions.queue.dispatching import LOST_RACES, carry_out, decisions, frames, places_of
from missions.queue.reasons import obstacle
from missions.queue.standing import standing


def queue_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> str:
    """Run it: “dispatched to …” when a robot can take it at once, else “waits: …”, and the queue goes on from there."""

    def queue(ledger: Ledger, change: Change) -> None:
        locked.seen(change, version)
        locked.not_begun(change)
        if change.row.needs_approval and not change.row.approved_at:
            raise Refused("It needs approval before it can run. Ask somebody who may approve missions.")
        robot = ledger.robots.get(change.row.robot_id)
        if robot is not None and robot.row.retired_at:
            raise Refused(f"{robot.row.name} is retired. Edit it and choose another robot, or none.")
        ledger.tell_mission(mission_id, facts.Queue(), by)

    locked.on(mission_id, queue)
    _dispatch_if_its_turn(mission_id, by)
    mission = Mission.objects.select_related("robot").get(pk=mission_id)
    if mission.dispatched_at:
        return f"dispatched to {mission.robot}"
    return f"waits: {waiting.why_waiting(mission)}"


def withdraw_mission(mission_id: UUID, *, by: Origin) -> None:
    """Take it back out of the queue; it stays as it was drawn up."""

    def withdraw(ledger: Ledger, change: Change) -> None:
        locked.not_begun(change)
        if ledger.tell_mission(mission_id, facts.Withdraw(), by) is Verdict.REDUNDANT:
            raise Refused("It is not in the queue.")

    locked.on(mission_id, withdraw)


def approve_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Let it run. Whoever drew it up or edited it may not, unless they are a superuser."""

    def approve(ledger: Ledger, change: Change) -> None:
        locked.seen(change, version)
        locked.not_begun(change)
        if not change.row.needs_approval:
            raise Refused("It needs no approval. Run it.")
        if change.row.approved_at:
            raise Refused(f"It is approved already, by {change.row.approved_by}.")
        if _wrote(change, by) and not _is_superuser(by):
            raise Refused("Nobody approves what they drew up or edited themselves. Ask somebody else.")
        ledger.tell_mission(mission_id, facts.Approve(by.actor_name), by)

    locked.on(mission_id, approve)


def set_priority(mission_id: UUID, *, priority: int, by: Origin) -> None:
    """Move it in the queue: higher goes first."""
    wanted = plans.checked_priority(priority)

    def set_it(ledger: Ledger, change: Change) -> None:
        locked.not_begun(change)
        ledger.tell_mission(mission_id, facts.SetPriority(wanted), by)

    locked.on(mission_id, set_it)


def dispatch_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Hand the mission to the robot it names, past the queue. Refused with a reason when it cannot take it now."""

    def dispatch(ledger: Ledger, change: Change) -> None:
        locked.seen(change, version)
        locked.not_begun(change)
        mission = change.row
        if mission.robot_id is None:
            raise Refused("It has no robot yet. Choose one, or run it and the best that can is chosen.")
        found = standing([mission]).missions[mission_id]
        if reason := obstacle(found, ledger.now, insist=True):
            raise Refused(str(reason))
        places = places_of([mission.site_id])[mission.site_id]
        dispatch = facts.Dispatch(
            mission.robot.name, frames(change, places, ledger.brand(mission.robot_id)), ledger.timings(mission.robot_id)
        )
        ledger.tell_mission(mission_id, dispatch, by)

    try:
        locked.on(mission_id, dispatch)
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

    locked.on(mission_id, cancel)
    return said[0]


def pause_mission(mission_id: UUID, *, by: Origin) -> None:
    """Ask the robot to pause it. It is paused when the robot says so."""

    def pause(ledger: Ledger, change: Change) -> None:
        locked.running(change)
        ledger.tell_mission(mission_id, facts.Pause(by.actor_name), by)

    locked.on(mission_id, pause)


def resume_mission(mission_id: UUID, *, by: Origin, version: int | None = None) -> None:
    """Ask the robot to go on. Refused while the robot is held."""

    def resume(ledger: Ledger, change: Change) -> None:
        locked.seen(change, version)
        locked.running(change)
        if reason := _held(change.row.robot):
            raise Refused(reason)
        ledger.tell_mission(mission_id, facts.Resume(by.actor_name), by)

    locked.on(mission_id, resume)


def hand_over_mission(mission_id: UUID, *, by: Origin) -> UUID | None:
    """Take it from its robot; what is left of it becomes a new mission for another. That one, if it could be made at once.

    The robot is told to stop first, as when it is cancelled; the new mission follows when the old one has ended.
    """

    def hand_over(ledger: Ledger, change: Change) -> None:
        locked.running(change)
        ledger.tell_mission(mission_id, facts.HandOver(by.actor_name), by)

    locked.on(mission_id, hand_over)
    with transaction.atomic():
        made = handing_over.carry_out([mission_id], locked.now(), by=by)
    return made[0] if made else None


def _dispatch_if_its_turn(mission_id: UUID, by: Origin) -> None:
    """Now, if a robot can take it and nobody is before it. When somebody is faster the worker looks again."""
    site = Mission.objects.values_list("site", flat=True).get(pk=mission_id)
    now = locked.now()
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
