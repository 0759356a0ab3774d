"""Missions: draw up, list, follow, steer."""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import AwareDatetime

from fleet.history import sentence
from fleet.models import Event, Robot, Site
from fleet.people.access import at_sites
from fleet.people.tokens import by_token
from fleet.refusals import Refused, named
from missions import actions, drawing_up, step_policy
from missions.models import Mission, Outcome, State
from missions.queue.waiting import why_waiting_all
from missions.wording import mission_said
from telemetry.api import schemas
from telemetry.api.bearer import found, known, need
from telemetry.api.following import MAX_WAIT_S, followers
from telemetry.api.once import once
from telemetry.api.paging import LIMIT, MAX_LIMIT, page
from telemetry.api.problems import Wrong

router = Router(tags=["missions"])
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
VIEW, ADD, CHANGE = "missions.view_mission", "missions.add_mission", "missions.change_mission"


def rows() -> QuerySet[Mission]:
    return Mission.objects.select_related("robot").annotate(
        done=Count("steps", filter=Q(steps__outcome=Outcome.COMPLETED)), total=Count("steps")
    )


def shown(missions: Iterable[Any]) -> list[dict[str, Any]]:
    """Missions as the API says them, with why each waits. As many queries for two hundred as for one."""
    found = list(missions)
    reasons = why_waiting_all(found)
    return [
        {
            "id": m.pk, "version": m.version, "title": m.title, "site": m.site_id, "robot": m.robot_id, "state": m.state,
            "says": mission_said(m).word, "priority": m.priority, "importance": m.importance, "waits_for": reasons.get(m.pk, ""),
            "steps_done": m.done, "steps_total": m.total, "current_step": m.current_step,
            "created_at": m.created_at, "created_by": m.created_by, "not_before": m.not_before,
            "expires_at": m.expires_at, "needs_approval": m.needs_approval, "approved_by": m.approved_by,
            "queued_at": m.queued_at, "dispatched_at": m.dispatched_at, "started_at": m.started_at,
            "paused_at": m.paused_at, "held_at": m.held_at, "retry_at": m.retry_due_at,
            "offline_policy": m.offline_policy, "ended_at": m.ended_at, "abort_reason": m.abort_reason,
            "abort_detail": m.abort_detail, "stopping": bool(m.stop_requested_at and not m.ended_at),
            "stop_confirmed": m.stop_confirmed, "origin": m.origin, "origin_kind": m.origin_kind,
        }
        for m in found
    ]  # fmt: skip


def detail(mission_id: UUID) -> dict[str, Any]:
    mission = rows().get(pk=mission_id)
    steps = [
        {
            "number": s.number, "command": s.command, "params": s.params, "timeout_s": s.timeout_s,
            **step_policy.of(s), "attempt": s.attempt, "outcome": s.outcome, "inferred": s.inferred, "result": s.result,
            "started_at": s.started_at, "ended_at": s.ended_at,
        }
        for s in mission.steps.all()
    ]  # fmt: skip
    after = list(mission.dependencies.values_list("on_id", flat=True))
    return {**shown([mission])[0], "steps": steps, "after": after}


@router.get("/missions", response=schemas.MissionPage, summary="Missions, newest first")
def list_missions(
    request: Any,
    cursor: str = "",
    limit: Limit = LIMIT,
    site: int | None = None,
    robot: str | None = None,
    state: Annotated[list[State] | None, Query()] = None,
    created_after: AwareDatetime | None = None,
    created_before: AwareDatetime | None = None,
) -> dict[str, Any]:
    need(request, VIEW)
    wanted = {
        "site": site, "robot": robot, "state__in": state, "created_at__gte": created_after,
        "created_at__lt": created_before,
    }  # fmt: skip
    if site is not None:
        known(request, Site.objects.all(), site, "site")
    narrowed = at_sites(request.user, rows()).filter(**{name: v for name, v in wanted.items() if v is not None})
    items, more = page(narrowed, ("-created_at", "-id"), cursor, limit)
    if robot is not None and not items:  # else it has been here, wherever it is now
        known(request, Robot.objects.all(), robot, "robot")
    return {"items": shown(items), "next": more}


@router.post("/missions", response={201: schemas.MissionDetail}, summary="Draw up a mission, and run it")
def create_mission(request: Any, body: schemas.MissionIn) -> HttpResponse:
    """With an `Idempotency-Key`, the same request again makes no second mission and gets the same answer."""
    need(request, ADD)
    if body.run:
        need(request, "missions.dispatch_mission")
    found(request, Site.objects.all(), body.site, "site")
    return once(request, lambda: (201, _drawn_up(request, body)))


def _path(column: str) -> str:
    """The way in the body to what people's forms call `Step 1, place`."""
    found = re.fullmatch(r"Step (\d+), (\w+)", column)
    if found is None:
        return column
    number, name = int(found[1]) - 1, found[2]
    return f"steps.{number}.{name}" if name in schemas.StepIn.model_fields else f"steps.{number}.params.{name}"


def _drawn_up(request: Any, body: schemas.MissionIn) -> dict[str, Any]:
    said = body.model_dump(exclude={"run", "steps"})
    steps = [step.model_dump(exclude_none=True) for step in body.steps]
    try:
        pk = drawing_up.draft_mission(**said, steps=steps, by=by_token(request.auth))
    except Refused as refused:
        field, reason = named(refused)
        raise Wrong(_path(field) or "body", reason) from refused
    if body.run and not body.needs_approval:
        actions.queue_mission(pk, by=by_token(request.auth))
    return detail(pk)


@router.get("/missions/{uuid:mission_id}", response=schemas.MissionDetail, summary="One mission; follow it")
async def get_mission(
    request: Any, mission_id: UUID, after: int | None = None, wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0
) -> dict[str, Any]:
    """With `after=<version>&wait=<seconds>` it answers as soon as the mission has changed since that version."""

    def look() -> dict[str, Any]:
        need(request, VIEW)
        found(request, Mission.objects.all(), mission_id, "mission")
        return detail(mission_id)

    seen = await sync_to_async(look)()
    if after is None or seen["version"] > after or not wait:
        return seen
    await followers().wait(mission_id, after, wait)
    return await sync_to_async(look)()


@router.get("/missions/{uuid:mission_id}/events", response=schemas.EventPage, summary="Its history, oldest first")
def mission_events(request: Any, mission_id: UUID, cursor: str = "", limit: Limit = LIMIT) -> dict[str, Any]:
    need(request, VIEW)
    found(request, Mission.objects.all(), mission_id, "mission")
    items, more = page(Event.objects.filter(aggregate=f"mission:{mission_id}"), ("seq",), cursor, limit)
    return {
        "items": [
            {
                "seq": e.seq, "kind": e.kind, "text": sentence(e), "actor": e.actor_name or e.actor_kind,
                "occurred_at": e.occurred_at, "recorded_at": e.recorded_at, "trace_id": e.trace_id,
            }
            for e in items
        ],
        "next": more,
    }  # fmt: skip


def _steer(request: Any, mission_id: UUID, permission: str, verb: Callable[[], Any]) -> dict[str, Any]:
    need(request, permission)
    found(request, Mission.objects.all(), mission_id, "mission")
    verb()
    return detail(mission_id)


@router.post("/missions/{uuid:mission_id}/run", response=schemas.MissionDetail, summary="Run a draft")
def run(request: Any, mission_id: UUID, body: schemas.Seen | None = None) -> dict[str, Any]:
    version = body.version if body else None
    return _steer(
        request, mission_id, "missions.dispatch_mission",
        lambda: actions.queue_mission(mission_id, by=by_token(request.auth), version=version),
    )  # fmt: skip


@router.post("/missions/{uuid:mission_id}/cancel", response=schemas.MissionDetail, summary="Cancel; idempotent")
def cancel(request: Any, mission_id: UUID, body: schemas.Reason | None = None) -> dict[str, Any]:
    """The robot that has it is stopped first: `stopping` is true until it says so."""
    reason = body.reason if body else ""
    return _steer(
        request, mission_id, "missions.cancel_mission",
        lambda: actions.cancel_mission(mission_id, by=by_token(request.auth), reason=reason),
    )  # fmt: skip


@router.post("/missions/{uuid:mission_id}/pause", response=schemas.MissionDetail, summary="Ask the robot to pause it")
def pause(request: Any, mission_id: UUID) -> dict[str, Any]:
    return _steer(
        request,
        mission_id,
        "missions.pause_mission",
        lambda: actions.pause_mission(mission_id, by=by_token(request.auth)),
    )


@router.post("/missions/{uuid:mission_id}/resume", response=schemas.MissionDetail, summary="Ask the robot to go on")
def resume(request: Any, mission_id: UUID, body: schemas.Seen | None = None) -> dict[str, Any]:
    version = body.version if body else None
    return _steer(
        request, mission_id, "missions.resume_mission",
        lambda: actions.resume_mission(mission_id, by=by_token(request.auth), version=version),
    )  # fmt: skip


@router.post(
    "/missions/{uuid:mission_id}/rerun", response={201: schemas.MissionDetail}, summary="The same as a new one"
)
def rerun(request: Any, mission_id: UUID, body: schemas.Rerun | None = None) -> HttpResponse:
    asked = body or schemas.Rerun()
    need(request, ADD)
    if asked.run:
        need(request, "missions.dispatch_mission")
    found(request, Mission.objects.all(), mission_id, "mission")

    def make() -> tuple[int, dict[str, Any]]:
        pk = drawing_up.rerun_mission(mission_id, by=by_token(request.auth), unfinished=asked.unfinished)
        if asked.run:
            actions.queue_mission(pk, by=by_token(request.auth))
        return 201, detail(pk)

    return once(request, make)
