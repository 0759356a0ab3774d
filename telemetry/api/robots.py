"""Robots, places, and stopping: for one robot or a whole site."""

from collections.abc import Iterable
from typing import Annotated, Any

from django.db.models import Prefetch
from ninja import Query, Router

from fleet.models import Hold, Place, Robot, Site
from fleet.people.access import at_sites
from fleet.people.tokens import by_token
from fleet.ports import live
from fleet.robots import abilities, stopping
from missions.models import RUNNING, Mission
from telemetry.api import schemas
from telemetry.api.bearer import found, known, need
from telemetry.api.paging import LIMIT, MAX_LIMIT, page

router = Router(tags=["robots"])
VIEW, STOP, RELEASE = "fleet.view_robot", "fleet.stop_robot", "fleet.release_robot"


def rows() -> Any:
    return Robot.objects.select_related("brand").prefetch_related(
        Prefetch("holds", Hold.objects.filter(released_at=None), to_attr="open_holds")
    )


def shown(robots: Iterable[Any]) -> list[dict[str, Any]]:
    """Robots as the API says them. As many queries for two hundred as for one."""
    found = list(robots)
    facts = live.facts([r.pk for r in found])
    running = Mission.objects.filter(RUNNING, robot__in=found)
    missions = dict(running.values_list("robot_id", "pk"))
    return [
        {
            "id": r.pk, "name": r.name, "site": r.site_id, "brand": r.brand.name, "mode": r.mode, "presence": r.presence,
            "presence_since": r.presence_since, "fault": r.fault, "faults": [
                {"code": f["code"], "text": f["text"], "kind": f["kind"], "danger": f["danger"], "since": f["since"]}
                for f in r.faults
            ],
            "address": r.address, "can": sorted(abilities.of(r)), "retired": r.retired_at is not None,
            "mission": missions.get(r.pk),
            "holds": [
                {
                    "number": h.number, "kind": h.kind, "why": h.why, "by": h.by, "since": h.since, "until": h.until,
                    "confirmed_at": h.confirmed_at,
                }
                for h in r.open_holds
            ],
            "live": facts[r.pk]._asdict() if r.pk in facts else None,
        }
        for r in found
    ]  # fmt: skip


@router.get("/sites", response=list[schemas.SiteOut], summary="Your sites")
def list_sites(request: Any) -> Any:
    need(request, "fleet.view_site")
    return list(at_sites(request.user, Site.objects.values("id", "name")))


@router.get("/sites/{int:site_id}/places", response=list[schemas.PlaceOut], summary="Named places of a site")
def list_places(request: Any, site_id: int) -> Any:
    need(request, "fleet.view_place")
    site = found(request, Site.objects.all(), site_id, "site")
    return list(Place.objects.filter(site=site).values("name", "x", "y", "theta"))


@router.get("/robots", response=schemas.RobotPage, summary="Robots by id")
def list_robots(
    request: Any,
    cursor: str = "",
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = LIMIT,
    site: int | None = None,
    retired: bool = False,
) -> Any:
    need(request, VIEW)
    if site is not None:
        known(request, Site.objects.all(), site, "site")
    narrowed = at_sites(request.user, rows()).filter(retired_at__isnull=not retired)
    items, more = page(narrowed.filter(site=site) if site is not None else narrowed, ("id",), cursor, limit)
    return {"items": shown(items), "next": more}


@router.get("/robots/{robot_id}", response=schemas.RobotOut, summary="One robot")
def get_robot(request: Any, robot_id: str) -> Any:
    need(request, VIEW)
    return shown([found(request, rows(), robot_id, "robot")])[0]


@router.post("/robots/{robot_id}/stop", response=schemas.Stopped, summary="Stop now, and hold; idempotent")
def stop(request: Any, robot_id: str, body: schemas.Reason | None = None) -> Any:
    """It halts and stays until it is released. This is no safety function: the emergency stop is hardware."""
    need(request, STOP)
    found(request, Robot.objects.all(), robot_id, "robot")
    return {"robots": stopping.stop_robots([robot_id], by=by_token(request.auth), why=body.reason if body else "")}


@router.post("/robots/{robot_id}/release", response=schemas.Stopped, summary="Release a stopped robot")
def release(request: Any, robot_id: str) -> Any:
    need(request, RELEASE)
    found(request, Robot.objects.all(), robot_id, "robot")
    return {"robots": stopping.release_robots([robot_id], by=by_token(request.auth))}


@router.post("/sites/{int:site_id}/stop", response=schemas.Stopped, summary="Stop all robots of a site; idempotent")
def stop_all(request: Any, site_id: int, body: schemas.Reason | None = None) -> Any:
    need(request, STOP)
    found(request, Site.objects.all(), site_id, "site")
    return {"robots": stopping.stop_site(site_id, by=by_token(request.auth), why=body.reason if body else "")}
