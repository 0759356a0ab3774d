"""From robots' messages to facts: what each type says about the robot and about its mission."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from fleet.deadlines import Deadline
from fleet.deadlines import deadlines as robot_deadlines
from fleet.history import Origin
from fleet.models import Command, CommandState, HoldKind
from fleet.robots import facts as robot_facts
from fleet.verdict import Verdict
from missions import facts
from missions.deadlines import deadlines
from missions.ledger import Ledger
from missions.queue.waiting import why_waiting
from telemetry.protocol import Up

_RECEIPTS: dict[str, Callable[[Up], facts.Receipt]] = {
    "mission.accepted": lambda up: facts.Accepted(up.dispatch_no),
    "mission.rejected": lambda up: facts.Rejected(up.dispatch_no, up.data["why"]),
    "mission.step_started": lambda up: facts.StepStarted(up.dispatch_no, up.step or 0, up.attempt or 0),
    "mission.step_completed": lambda up: facts.StepCompleted(
        up.dispatch_no, up.step or 0, up.attempt or 0, up.data["result"]
    ),
    "mission.step_failed": lambda up: facts.StepFailed(up.dispatch_no, up.step or 0, up.attempt or 0, up.data["why"]),
    "mission.paused": lambda up: facts.Paused(up.dispatch_no, up.session, up.seq),
    "mission.resumed": lambda up: facts.Resumed(up.dispatch_no, up.session, up.seq),
    "mission.cancelled": lambda up: facts.Cancelled(up.dispatch_no, up.data["why"]),
    "mission.finished": lambda up: facts.Finished(up.dispatch_no),
}

_WORDS: dict[str, Callable[[Up], robot_facts.Word]] = {
    "robot.state": lambda up: robot_facts.Reported(
        up.session,
        up.seq,
        up.data["mode"],
        _uuid(up.data["mission"]),
        up.data["dispatch_no"],
        up.data["ended"],
        _uuid(up.data["reply_to"]),
    ),
    "robot.fault": lambda up: robot_facts.Faulted(
        up.session, up.seq, up.data["text"], up.data["code"], up.data["danger"], up.data["kind"]
    ),
    "robot.fault_cleared": lambda up: robot_facts.FaultCleared(up.session, up.seq, up.data["code"]),
    "robot.stopped": lambda up: robot_facts.StoodStill(up.session, up.seq, _asked_at(up)),
}


_INTERNAL: dict[str, Callable[[Up], Any]] = {
    "robot.capabilities": lambda up: robot_facts.Offers(sorted(set(up.data["capabilities"]))),
}

ABOUT_STOPS = Origin("policy", "stops", "stop of the robot", "stop of the robot")


Passed = Callable[[Deadline], bool]


def missions_named(up: Up) -> set[UUID]:
    """Missions whose rows the message may change."""
    return {up.mission} if up.mission else set()


def tell(ledger: Ledger, up: Up, received_at: datetime) -> Verdict:
    """Hand one valid critical message to the ledger, which holds its robot and the missions it names."""
    origin = _origin(ledger, up)
    if up.type == "command.delivered":
        return _delivered(ledger, up, origin, received_at)
    if up.type in _INTERNAL:
        return ledger.tell_robot(up.robot, _INTERNAL[up.type](up), origin, received_at)
    if up.type in _RECEIPTS:
        change = ledger.missions.get(up.mission) if up.mission else None
        if change is None or change.row.robot_id != up.robot:
            return Verdict.STALE  # another robot's, or of nobody
        return ledger.tell_mission(change.row.pk, _RECEIPTS[up.type](up), origin, received_at)
    verdict = ledger.tell_robot(up.robot, _WORDS[up.type](up), origin, received_at)
    if up.type == "robot.state" and verdict is not Verdict.STALE:
        if up.data["reply_to"]:
            _answer(ledger, up, origin, received_at)
        elif up.data["mode"] == "idle" and not _names_its_mission(ledger, up):
            ledger.tell_running(up.robot, facts.SaysIdle(), origin, received_at)  # after a reboot: ask at once
    return verdict


def _asked_at(up: Up) -> datetime | None:
    """When the stop was asked for that the robot answers; long ago when we know no such stop, None when it names none."""
    stop = up.data["reply_to"]
    if stop is None:
        return None
    asked = Command.objects.filter(pk=stop, robot=up.robot, kind="robot.stop")
    return asked.values_list("created_at", flat=True).first() or datetime.min.replace(tzinfo=UTC)


def _names_its_mission(ledger: Ledger, up: Up) -> bool:
    """Whether robot.state names the dispatch that the robot has, as far as we know."""
    running = ledger.running.get(up.robot)
    mission = ledger.missions[running].row if running is not None else None
    return (
        mission is not None
        and _uuid(up.data["mission"]) == mission.pk
        and up.data["dispatch_no"] == mission.dispatch_no
    )


def _answer(ledger: Ledger, up: Up, origin: Origin, received_at: datetime) -> None:
    running = ledger.running.get(up.robot)
    if running is not None:
        named = _names_its_mission(ledger, up)
        ended, completed = (up.data["ended"], tuple(up.data["completed"])) if named else ("", ())
        dispatch_no = ledger.missions[running].row.dispatch_no
        questions = Command.objects.filter(pk=up.data["reply_to"], robot=up.robot, kind="robot.query_state")
        asked = questions.filter(mission=running, dispatch_no=dispatch_no).exists()
        answer = facts.Answered(up.data["mode"], named, ended, completed, asked)
        ledger.tell_mission(running, answer, origin, received_at)


def _delivered(ledger: Ledger, up: Up, origin: Origin, received_at: datetime) -> Verdict:
    command = Command.objects.filter(pk=up.data["command"], robot=up.robot).first()
    if command is None:
        return Verdict.STALE
    was_open = Command.objects.filter(pk=command.pk, state=CommandState.OPEN).update(
        state=CommandState.DELIVERED, delivered_at=received_at
    )
    if command.asker and was_open:
        _see_that_it_is_held(ledger, command, received_at)
    if command.kind == "mission.assign" and command.mission in ledger.missions:
        mission = ledger.missions[command.mission].row
        if command.dispatch_no == mission.dispatch_no:
            return ledger.tell_mission(command.mission, facts.Delivered(), origin, received_at)
    return Verdict.APPLIED


def _see_that_it_is_held(ledger: Ledger, stop: Command, received_at: datetime) -> None:
    """A stop that was sent ahead of its hold, which is not written yet, or never was as that process ended."""
    holds = ledger.robots[stop.robot_id].children["holds"].values()
    if not any(h.kind == HoldKind.STOPPED and h.released_at is None for h in holds):
        asker = Origin(**json.loads(stop.asker))
        why = json.loads(stop.body)["data"]["why"]
        ledger.tell_robot(
            stop.robot_id, robot_facts.HoldBack(HoldKind.STOPPED, asker.actor_name, why), asker, received_at
        )


def due(
    ledger: Ledger, mission_id: UUID, now: datetime, until: datetime | None = None, passed: Passed | None = None
) -> None:
    """Fire the deadlines of one mission that passed before `until` (default: now), the earliest first.

    `passed` says which those are, where it is not simply the time that they were set for.
    """
    mission = ledger.missions[mission_id].row
    robot = ledger.robots.get(mission.robot_id)
    if robot is not None:  # a stop that it has not heard of yet may have stopped its clocks
        ledger.hear_of_stop(mission.robot_id, ABOUT_STOPS, now)
    online = robot is not None and robot.row.presence == "online"
    for deadline in deadlines(mission):
        if _has_passed(deadline, until or now, passed):
            origin = Origin("deadline", deadline.kind, f"deadline {deadline.kind}", f"deadline:{deadline.kind}")
            why = why_waiting(mission) if deadline.kind == "queued" else ""
            ledger.tell_mission(mission_id, facts.Due(deadline.kind, online, why, deadline.due_at), origin, now)


def robot_due(
    ledger: Ledger, robot_id: str, now: datetime, until: datetime | None = None, passed: Passed | None = None
) -> None:
    """Fire the deadlines of one robot that passed before `until` (default: now)."""
    for deadline in robot_deadlines(ledger.robots[robot_id].row):
        if _has_passed(deadline, until or now, passed):
            origin = Origin("deadline", deadline.kind, f"deadline {deadline.kind}", f"deadline:{deadline.kind}")
            ledger.tell_robot(robot_id, robot_facts.Due(deadline.kind), origin, now)


def _has_passed(deadline: Deadline, until: datetime, passed: Passed | None) -> bool:
    return passed(deadline) if passed is not None else deadline.due_at <= until


def presence(ledger: Ledger, robot_id: str, presence: str, last_received_at: datetime | None, now: datetime) -> Verdict:
    """What the sweep found out about a robot's link."""
    origin = Origin("policy", "presence", "presence sweep", "sweep:presence")
    return ledger.tell_robot(robot_id, robot_facts.Seen(presence, last_received_at), origin, now)


def _origin(ledger: Ledger, up: Up) -> Origin:
    name = ledger.robots[up.robot].row.name
    trace, span = trace_of(up)
    return Origin("robot", up.robot, name, f"message:{up.msg_id}", trace, span, up.occurred_at)


def trace_of(up: Up) -> tuple[str, str]:
    """(trace id, span id): the robot's, or the message is a trace of its own."""
    parts = up.traceparent.split("-")
    return (parts[1], parts[2]) if len(parts) == 4 else (up.msg_id.hex, "")


def _uuid(text: str | UUID | None) -> UUID | None:
    return UUID(str(text)) if text else None
