"""What people may do to one mission: a table of buttons, each of which calls one action and reports in one sentence."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from fleet.admin.buttons import Button
from fleet.admin.once import key_of, say_again
from fleet.admin.seen import seen_version
from fleet.commit import Conflict
from fleet.history import Origin, by_user
from fleet.refusals import Refused, in_words
from missions import actions, drawing_up
from missions.drawing_up import DrawnUp
from missions.models import FINAL, Mission, State
from missions.plans import LEAST_PRIORITY, MOST_PRIORITY
from missions.wording import ending, is_open

RANGE = f"from {LEAST_PRIORITY} to {MOST_PRIORITY}"  # of priorities


def _run(request: HttpRequest, mission: Mission) -> str:
    said = actions.queue_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"“{mission.title}” {said}."


def run_now(request: HttpRequest, mission_id: UUID) -> str:
    """Run one that was just stored, and say so. It is stored either way; a refusal is a message of its own."""
    try:
        said = actions.queue_mission(mission_id, by=by_user(request.user))
    except (Refused, Conflict) as error:
        messages.warning(request, f"Not run: {in_words(error)}")
        return ""
    return f"{said[:1].upper()}{said[1:].rstrip('.')}."


def again(request: HttpRequest, mission_id: UUID, run: bool) -> str:
    """An earlier click has drawn it up. Should this one want it run and that one not, it is run now."""
    waits = Mission.objects.filter(pk=mission_id, queued_at=None, dispatched_at=None, state=State.PENDING).exists()
    return f"Your first click has drawn it up already: this is it. {run_now(request, mission_id) if run and waits else ''}".strip()


def _approve(request: HttpRequest, mission: Mission) -> str:
    actions.approve_mission(mission.pk, by=by_user(request.user), version=seen_version(request))
    return f"“{mission.title}” is approved. It moves nothing until it is run."


def _withdraw(request: HttpRequest, mission: Mission) -> str:
    actions.withdraw_mission(mission.pk, by=by_user(request.user))
    return f"“{mission.title}” is out of the queue. It stays as it was drawn up."


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
    "already ended": "“{0.title}” had already ended ({1}).",
}


def _cancel(request: HttpRequest, mission: Mission) -> str:
    reason = request.POST.get("reason", "")
    said = actions.cancel_mission(mission.pk, by=by_user(request.user), reason=reason)
    return CANCELLED[said].format(mission, ending(mission).lower())


def number_of(text: str) -> int:
    """A priority that somebody typed."""
    try:
        return int(text)
    except ValueError:
        raise Refused(f"priority: A whole number {RANGE}; higher goes first.") from None


def _priority(request: HttpRequest, mission: Mission) -> str:
    wanted = number_of(request.POST.get("reason", ""))
    actions.set_priority(mission.pk, priority=wanted, by=by_user(request.user))
    return f"“{mission.title}” has priority {wanted} now."


def _rerun(request: HttpRequest, mission: Mission) -> HttpResponse:
    return _made(request, lambda by, key: drawing_up.rerun_mission(mission.pk, by=by, key=key), "change")


def _rerun_unfinished(request: HttpRequest, mission: Mission) -> HttpResponse:
    def make(by: Origin, key: str) -> UUID:
        return drawing_up.rerun_mission(mission.pk, by=by, unfinished=True, key=key)

    return _made(request, make, "change")


def _clone(request: HttpRequest, mission: Mission) -> HttpResponse:
    return _made(request, lambda by, key: drawing_up.clone_mission(mission.pk, by=by, key=key), "edit")


def _hand_over(request: HttpRequest, mission: Mission) -> HttpResponse | str:
    try:
        made = actions.hand_over_mission(mission.pk, by=by_user(request.user))
    except Refused:
        made = Mission.objects.values_list("handed_over_to", flat=True).get(pk=mission.pk)
        if made is None:
            raise
        messages.info(request, "It is handed over already. This is the mission that goes on with it.")
        return redirect("admin:missions_mission_change", made)
    if made is None:
        return f"Handing “{mission.title}” over… {mission.robot} is told to stop; then another robot goes on with the rest."
    messages.success(request, "This is the mission that goes on with it. It is in the queue.")
    return redirect("admin:missions_mission_change", made)


def _made(request: HttpRequest, make: Callable[[Origin, str], UUID], page: str) -> HttpResponse:
    """To the new mission, or straight to its form. Made once, however often it was clicked."""
    try:
        pk = make(by_user(request.user), key_of(request))
        messages.success(request, "This is the new mission. It moves nothing until it is run.")
    except DrawnUp as known:
        pk = known.mission_id
        say_again(request)
    return redirect(f"admin:missions_mission_{page}", pk)


def _not_begun(mission: Mission) -> bool:
    return mission.state == State.PENDING and not mission.dispatched_at and not mission.stop_requested_at


def _may_run(mission: Mission) -> bool:
    return _not_begun(mission) and (not mission.needs_approval or mission.approved_at is not None)


def _partly_done(mission: Any) -> bool:
    return mission.state in FINAL and 0 < mission.done_n < mission.steps_n


BUTTONS = (
    Button(
        "approve", "Approve", "missions.approve_mission", _approve, versioned=True, look="primary",
        shown=lambda m: _not_begun(m) and m.needs_approval and not m.approved_at,
    ),
    Button(
        "run", "Run", "missions.dispatch_mission", _run, versioned=True, look="primary",
        shown=lambda m: _may_run(m) and not m.queued_at,
    ),
    Button(
        "withdraw", "Take out of the queue", "missions.dispatch_mission", _withdraw,
        shown=lambda m: _not_begun(m) and bool(m.queued_at),
    ),
    Button(
        "dispatch", "Dispatch now…", "missions.dispatch_mission", _dispatch, versioned=True,
        shown=lambda m: _may_run(m) and bool(m.robot_id),
        confirm="{row.robot} gets it at once, before those that wait for it.", yes="Dispatch now",
    ),
    Button(
        "priority", "Priority…", "missions.change_mission", _priority, shown=_not_begun,
        asks=f"{RANGE.capitalize()} (now {{row.priority}})", confirm="The higher goes first; of equals, the older.",
        yes="Set the priority",
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
        "hand_over", "Hand over…", "missions.cancel_mission", _hand_over,
        shown=lambda m: is_open(m) and bool(m.dispatched_at) and not m.stop_requested_at,
        confirm="{row.robot} is told to stop and loses it; what is left of it becomes a new mission for another robot. "
        "If {row.robot} carries something, somebody has to see to that.",
        yes="Hand it over",
    ),
    Button(
        "rerun", "Rerun…", "missions.add_mission", _rerun, shown=lambda m: m.state in FINAL, yes="Make the new mission",
        confirm="Makes a new mission with all of its steps. This one stays as it ended.", once=True,
    ),
    Button(
        "rerun_unfinished", "Rerun unfinished…", "missions.add_mission", _rerun_unfinished, shown=_partly_done,
        confirm="Makes a new mission with what was not completed: {left} of {row.steps_n} steps. This one stays as it ended.",
        yes="Make the new mission", once=True,
    ),
    Button(
        "clone", "Clone…", "missions.add_mission", _clone, yes="Make the new mission",
        confirm="Makes a new mission with the same steps, to be edited and run. This one stays as it is.", once=True,
    ),
    Button(
        "cancel", "Cancel…", "missions.cancel_mission", _cancel, shown=is_open, look="danger", asks="Reason",
        confirm="The robot that has it is stopped first; then the mission ends for good. It cannot be revived.",
        yes="Cancel this mission",
    ),
)  # fmt: skip
