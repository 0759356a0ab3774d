"""How a mission ends without success: the robot is told to stop and its word is awaited (stop before final)."""

from datetime import datetime, timedelta
from typing import Any

from fleet.history import Change
from fleet.models import CommandState, HoldKind
from fleet.robots import facts as robot_facts
from fleet.robots.commands import command
from missions import facts, timings
from missions.decide import clocks

# what is no longer sent once a mission is to end; its cancel is
OPEN_COMMANDS = (
    "mission.assign", "mission.pause", "mission.resume", "mission.retry_step", "mission.skip_step", "robot.query_state",
)  # fmt: skip


def stop(change: Change, now: datetime, reason: str, detail: str, *, by: str) -> None:
    """Ask the robot to end the dispatch and wait for its word; at once final when it cannot have begun."""
    mission = change.row
    if mission.stop_requested_at:
        return
    if not mission.dispatched_at or not mission.assign_sent:
        abort(change, now, reason, detail)
        return
    end = after_stop(mission, now)
    ask_first = not timings.get(mission, "idle_cancel")
    asked = {"asked_at": now, "asked_for": "stop", "answer_due_at": clocks.after(now, timings.get(mission, "answer_s"))}
    change.record(
        "mission.stop_requested",
        abort_reason=reason,
        abort_detail=detail,
        stop_requested_at=now,
        stop_requested_by=by,
        stop_due_at=min(clocks.after(now, timings.STOP_RESEND_S), end),
        **clocks.clear(mission, "expires_due_at", "undelivered_due_at", "accepted_due_at", "step_due_at",
                       "mission_due_at", "finished_due_at", "robot_lost_due_at", "gap_due_at"),
        **clocks.no_retry(mission),
        **(asked if ask_first else clocks.unasked(mission)),
    )  # fmt: skip
    change.move_commands(OPEN_COMMANDS, CommandState.OPEN, CommandState.WITHDRAWN)
    if ask_first:  # these robots may not be sent a cancel while they are idle
        change.commands.append(command(change, "robot.query_state", mission.robot_id, dispatch_no=mission.dispatch_no))
    else:
        send_cancel(change)


def send_cancel(change: Change) -> None:
    mission = change.row
    change.commands.append(command(change, "mission.cancel", mission.robot_id, dispatch_no=mission.dispatch_no))


def after_stop(mission: Any, asked_at: datetime) -> datetime:
    """Until then the robot's word is awaited."""
    return clocks.after(asked_at, timings.get(mission, "stop_s"))


def stop_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    """No word yet: told again, after pauses that double; at the end the mission is final and its robot is held."""
    mission = change.row
    asked_at = mission.stop_requested_at
    end = after_stop(mission, asked_at)
    # also at the end: should the robot come back, it is told to stop
    change.move_commands(("mission.cancel",), CommandState.DELIVERED, CommandState.OPEN)
    if asked_at <= now < end:  # with the clock put back nobody knows how long ago that was: long enough
        pause = max(now - asked_at, timedelta(seconds=timings.STOP_RESEND_S))
        change.record("mission.stop_resent", stop_due_at=min(now + pause, end))
        return
    if mission.finish_claimed_at:  # it says itself that it has ended the dispatch
        abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=True)
        return
    if mission.asked_for == "stop":
        send_cancel(change)
    abort(change, now, mission.abort_reason, mission.abort_detail, stop_confirmed=False)
    change.follow.append(
        robot_facts.HoldBack(
            kind=HoldKind.UNCONFIRMED,
            by="policy",
            why=f"it never confirmed that it stopped “{mission.title}”; it may still be moving",
            mission=mission.pk,
            dispatch_no=mission.dispatch_no,
        )
    )


def abort(change: Change, now: datetime, reason: str, detail: str, *, stop_confirmed: bool | None = None) -> None:
    """Final. A stop that was asked for keeps its reason; the event says it again, for whoever hears of nothing else."""
    mission = change.row
    if mission.stop_requested_at:
        reason, detail = mission.abort_reason, mission.abort_detail
    because = {"abort_reason": reason, "abort_detail": detail}
    confirmed = {} if stop_confirmed is None else {"stop_confirmed": stop_confirmed}
    change.record("mission.aborted", ended_at=now, **because, **confirmed, **clocks.ended(mission))
    kinds = OPEN_COMMANDS if stop_confirmed is False else ()
    change.move_commands(kinds, CommandState.OPEN, CommandState.WITHDRAWN)
