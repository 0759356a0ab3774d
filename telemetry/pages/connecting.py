"""Has this robot connected? One look for the page that waits for it, and what to do next in words."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from fleet.models import Presence, Robot
from fleet.people.access import at_sites
from fleet.wording import ago
from telemetry import snapshots
from telemetry.models import Knock, Link

RECENT = timedelta(minutes=10)


class Standing(NamedTuple):
    """`token` of the palette, what is so, what to do."""

    token: str
    says: str
    next: str


def standing(robot: Robot, now: datetime) -> Standing:
    """Three queries and one look at the live Redis."""
    link = Link.objects.filter(pk=robot.pk).first()
    heard = snapshots.last_received([robot.pk])
    last = heard.at.get(robot.pk) if heard is not None else None
    lately = last is not None and now - last < timedelta(seconds=robot.brand.offline_after_s)
    if robot.presence == Presence.ONLINE and last is not None and lately:
        return Standing("ok", f"Connected. Last heard {ago(last, now)}.", "It can be given missions now.")
    if last is not None and lately:
        return Standing("info", f"It has spoken, {ago(last, now)}.", "In a moment it counts as online.")
    knock = Knock.objects.filter(robot=robot.pk, last_at__gte=now - RECENT).first()
    if knock is not None and (last is None or knock.last_at > last):
        says = f"It knocked {ago(knock.last_at, now)} with {knock.showed} and was turned away."
        return Standing("bad", says, _ADVICE.get(knock.why, _ADVICE["unknown"]))
    if last is not None or (link is not None and link.opened_at):
        at = last or (link.opened_at if link else None)
        says = f"It was here before; last heard {ago(at, now)}." if at else "It was here before."
        return Standing("warn", says, "Is it switched on, and on the network?")
    if heard is None:
        return Standing("warn", "The live Redis does not answer.", "What robots say is kept; this page cannot see it.")
    return Standing("info", "Waiting for its first message…", "This line changes by itself.")


_ADVICE = {
    "none": "It must send the header Authorization: Bearer and its token.",
    "unknown": "The token is wrong or cut off. Copy it whole, or issue another here.",
    "revoked": "Issue another token here, and give it to the robot.",
    "retired": "Put the robot back in service first, on its page.",
}


@require_safe
@login_required
@permission_required("fleet.view_robot", raise_exception=True)
def connection(request: HttpRequest, robot_id: str) -> HttpResponse:
    """JSON for static/live/connecting.js."""
    robot = at_sites(request.user, Robot.objects.select_related("brand").filter(pk=robot_id)).first()
    if robot is None:
        raise Http404
    found: dict[str, Any] = standing(robot, timezone.now())._asdict()
    answer = JsonResponse(found)
    answer["Cache-Control"] = "no-store"
    return answer
