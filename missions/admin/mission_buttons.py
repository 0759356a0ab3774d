"""What people may do to one mission: a table of buttons, each of which calls one action and reports in one sentence."""

from django.http import HttpRequest

from fleet.admin.pages import Button, seen_version
from fleet.history import by_user
from missions import actions
from missions.models import Mission, State
from missions.wording import is_open


def _dispatch(request: HttpRequest, mission: Mission) -> str:
    actions.dispatch_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"Dispatching “{mission.title}” to {mission.robot}…"


def _pause(request: HttpRequest, mission: Mission) -> str:
    actions.pause_mission(mission.pk, by=by_user(request.user))
    return f"Pausing “{mission.title}”… {mission.robot} says when it has paused."


def _resume(request: HttpRequest, mission: Mission) -> str:
    actions.resume_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"Resuming “{mission.title}”…"


CANCELLED = {
    "stopping": "Stopping “{0.title}”… {0.robot} has to confirm that it has stopped.",
    "already stopping": "“{0.title}” is already stopping.",
    "aborted": "“{0.title}” is cancelled. No robot had it.",
    "already ended": "“{0.title}” had already ended.",
}


def _cancel(request: HttpRequest, mission: Mission) -> str:
    reason = request.POST.get("reason", "")
    return CANCELLED[actions.cancel_mission(mission.pk, by=by_user(request.user), reason=reason)].format(mission)


BUTTONS = (
    Button(
        "dispatch", "Dispatch", "missions.dispatch_mission", _dispatch, versioned=True, look="primary",
        shown=lambda m: m.state == State.PENDING and not m.dispatched_at and not m.stop_requested_at,
    ),
    Button(
        "resume", "Resume", "missions.resume_mission", _resume, versioned=True,
        shown=lambda m: is_open(m) and bool(m.paused_at) and not m.stop_requested_at,
    ),
    Button(
        "pause", "Pause", "missions.pause_mission", _pause,
        shown=lambda m: m.state in (State.EXECUTING, State.STEP_COMPLETED) and not m.paused_at
        and not m.stop_requested_at,
    ),
    Button(
        "cancel", "Cancel…", "missions.cancel_mission", _cancel, shown=is_open, look="danger", asks="Reason",
        confirm="The robot that has it is stopped first; then the mission ends for good. It cannot be revived.",
        yes="Cancel this mission",
    ),
)  # fmt: skip
