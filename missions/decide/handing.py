"""Handing a mission to its robot: dispatched, delivered, and what is done while it is not taken."""

from datetime import datetime
from typing import Any

from fleet.history import Change
from fleet.models import CommandState
from fleet.robots.commands import command
from fleet.verdict import Verdict
from missions import facts, timings
from missions.decide import clocks
from missions.decide.ending import stop
from missions.decide.questions import ask
from missions.models import AbortReason, State


def dispatch(change: Change, fact: facts.Dispatch, now: datetime) -> Verdict:
    mission = change.row
    undelivered_s = fact.timings.get("undelivered_s", timings.DEFAULTS["undelivered_s"])
    change.record(
        "mission.dispatched",
        dispatch_no=mission.dispatch_no + 1,
        dispatched_at=now,
        accept_tries=1,
        timings=fact.timings,
        undelivered_due_at=clocks.after(now, undelivered_s),
        robot=fact.robot,
        **clocks.clear(mission, "queued_due_at"),
    )
    order = {"title": mission.title, "timeout_s": mission.timeout_s, "steps": fact.steps}
    change.commands.append(
        command(change, "mission.assign", mission.robot_id, dispatch_no=mission.dispatch_no, data=order)
    )
    return Verdict.APPLIED


def delivered(change: Change, fact: facts.Delivered, now: datetime) -> Verdict:
    mission = change.row
    if mission.state != State.PENDING or not mission.dispatched_at or mission.stop_requested_at:
        return Verdict.REDUNDANT
    change.record(
        "mission.delivered",
        delivered_at=now,
        accepted_due_at=clocks.after(now, timings.get(mission, "accept_s")),
        **clocks.clear(mission, "undelivered_due_at"),
    )
    return Verdict.APPLIED


def undelivered_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    """Looks count only while the link is up and the robot is free to take anything."""
    mission = change.row
    due = clocks.after(now, timings.get(mission, "undelivered_s"))
    if _is_at_it(change):
        ask(change, "mission.undelivered", "accepted", now, undelivered_due_at=None)
        return
    looks = {"untaken_looks": mission.untaken_looks + 1} if fact.online and not clocks.suspended(mission) else {}
    change.record("mission.undelivered", undelivered_due_at=due, **looks)
    if mission.untaken_looks >= timings.UNTAKEN_LOOKS:
        _undeliverable(change, now, "the robot is online but does not take the assignment")


def accepted_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    """Tries count only while the link is up and the robot is free to take anything."""
    mission = change.row
    if not fact.online or clocks.suspended(mission):
        change.record("mission.accept_waits", accepted_due_at=clocks.after(now, timings.ACCEPT_WAITS_S))
        return
    if mission.accept_tries >= timings.get(mission, "accept_tries"):
        _undeliverable(change, now, f"no answer to the assignment after {mission.accept_tries} tries")
        return
    tries = mission.accept_tries + 1
    if _is_at_it(change):
        ask(change, "mission.accept_timeout", "accepted", now, accept_tries=tries, accepted_due_at=None)
        return
    due = clocks.after(now, timings.get(mission, "accept_s"))
    change.record("mission.accept_timeout", accept_tries=tries, accepted_due_at=due)
    change.move_commands(("mission.assign",), CommandState.DELIVERED, CommandState.OPEN)


def _is_at_it(change: Change) -> bool:
    """It spoke of a step, or of the end: it has taken the assignment, and only its word of that is missing."""
    steps: Any = change.children["steps"].values()
    return change.row.finish_claimed_at is not None or any(step.claimed for step in steps)


def _undeliverable(change: Change, now: datetime, detail: str) -> None:
    for state in (CommandState.OPEN, CommandState.DELIVERED):
        change.command_moves.append((("mission.assign",), state, CommandState.DEAD))
    stop(change, now, AbortReason.UNDELIVERABLE, detail, by="deadline")
