"""What robots are at, for the port `fleet.ports.work`."""

from django.db.models import Count
from django.urls import reverse

from fleet.ports.work import Work
from missions.models import RUNNING, Mission, State


def current(robot_ids: list[str]) -> dict[str, Work]:
    """The dispatched open mission of each robot. One query."""
    if not robot_ids:
        return {}
    rows = Mission.objects.filter(RUNNING, robot__in=robot_ids)
    return {
        str(m.robot_id): Work(m.title, _says(m), reverse("admin:missions_mission_change", args=[m.pk]))
        for m in rows.annotate(steps_n=Count("steps"))
    }


def _says(mission: Mission) -> str:
    if mission.stop_requested_at:
        return "stopping…"
    if mission.paused_at:
        return "paused"
    if mission.state == State.PENDING:
        return "dispatching…"
    return f"step {mission.current_step} of {mission.steps_n}"  # type: ignore[attr-defined]
