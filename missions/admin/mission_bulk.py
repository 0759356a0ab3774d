"""What can be done to many missions at once: a table, each line of which calls one action."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.refusals import Refused
from missions import actions, drawing_up
from missions.admin.bulk import MOST, Asked, Bulk, Chosen, Flow
from missions.admin.mission_buttons import RANGE, number_of
from missions.drawing_up import DrawnUp
from missions.models import Mission
from missions.wording import ending


def _run(mission: Mission, asked: Asked) -> str:
    said = actions.queue_mission(mission.pk, by=asked.by, version=asked.version)
    return "waiting" if said.startswith("waits") else "dispatched"


def _approve(mission: Mission, asked: Asked) -> str:
    actions.approve_mission(mission.pk, by=asked.by, version=asked.version)
    return "approved"


def _withdraw(mission: Mission, asked: Asked) -> str:
    actions.withdraw_mission(mission.pk, by=asked.by)
    return "out of the queue"


def _pause(mission: Mission, asked: Asked) -> str:
    actions.pause_mission(mission.pk, by=asked.by)
    return "asked to pause"


def _resume(mission: Mission, asked: Asked) -> str:
    actions.resume_mission(mission.pk, by=asked.by, version=asked.version)
    return "asked to resume"


def _priority(mission: Mission, asked: Asked) -> str:
    actions.set_priority(mission.pk, priority=number_of(asked.text), by=asked.by)
    return "moved in the queue"


def _rerun(mission: Mission, asked: Asked) -> str:
    try:
        drawing_up.rerun_mission(mission.pk, by=asked.by, key=asked.key)
    except DrawnUp:
        return "drawn up again already"
    return "drawn up again"


def _cancel(mission: Mission, asked: Asked) -> str:
    said = actions.cancel_mission(mission.pk, by=asked.by, reason=asked.text)
    return {"aborted": "cancelled", "already ended": f"had ended ({ending(mission).lower()})"}.get(said, said)


BULKS = (
    Bulk("run", "Run", "missions.dispatch_mission", _run,
         "Each is given to its robot, or to the best that can, as soon as one is free.", versioned=True),
    Bulk("approve", "Approve", "missions.approve_mission", _approve, "Each may be run then. It moves nothing yet.",
         versioned=True),
    Bulk("withdraw", "Take out of the queue", "missions.dispatch_mission", _withdraw,
         "Each stays as it was drawn up and can be run again later."),
    Bulk("pause", "Pause", "missions.pause_mission", _pause, "Each robot is asked to pause, and says when it has."),
    Bulk("resume", "Resume", "missions.resume_mission", _resume, "Each robot is asked to go on.", versioned=True),
    Bulk("priority", "Set priority", "missions.change_mission", _priority, "The higher goes first; of equals, the older.",
         asks=f"Priority, {RANGE}", needed=True),
    Bulk("rerun", "Rerun all steps", "missions.add_mission", _rerun,
         "For each that has ended a new mission with all of its steps is drawn up. It moves nothing until it is run."),
    Bulk("cancel", "Cancel", "missions.cancel_mission", _cancel,
         "The robots that have them are stopped first; then they end for good and cannot be revived.",
         asks="Reason", danger=True),
)  # fmt: skip


def _choose(page: Any, request: HttpRequest, queryset: Any) -> Chosen:
    rows = list(queryset.select_related("robot")[: MOST + 1])
    if len(rows) > MOST:
        raise Refused(f"At most {MOST} missions at once. Choose fewer.")
    return Chosen(rows)


def _line(mission: Mission) -> SafeString:
    url = reverse("admin:missions_mission_change", args=[mission.pk])
    return format_html('“<a href="{}" dir="auto">{}</a>”', url, mission.title)


MISSIONS = Flow(
    "mission", "Missions", BULKS, "admin:missions_mission_changelist", "admin/drover/_bulk_mission.html", _choose,
    lambda rows: {m.pk: m.site_id for m in rows}, _line,
)  # fmt: skip
