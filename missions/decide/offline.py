"""A robot that is offline with a mission: wait for it, give the mission up, or let another robot go on with it."""

from datetime import datetime, timedelta
from typing import Any

from fleet.history import Change
from fleet.models import OfflinePolicy
from fleet.verdict import Verdict
from missions import facts, timings
from missions.decide import clocks
from missions.decide.ending import stop
from missions.models import AbortReason, Outcome, State


def robot_lost(change: Change, fact: facts.RobotLost, now: datetime) -> Verdict:
    mission = change.row
    if mission.robot_lost_at or not mission.dispatched_at:
        return Verdict.REDUNDANT
    waits = timings.offline_policy(mission) != OfflinePolicy.ABORT
    still = clocks.freeze(change, now) if waits else {}
    due = {} if mission.stop_requested_at else {"robot_lost_due_at": clocks.after(now, fact.abandon_after_s)}
    change.record("mission.robot_lost", robot_lost_at=now, **due, **still)
    return Verdict.APPLIED


def robot_back(change: Change, fact: facts.RobotBack, now: datetime) -> Verdict:
    mission = change.row
    if not mission.robot_lost_at:
        return Verdict.REDUNDANT
    waited = timings.offline_policy(mission) != OfflinePolicy.ABORT
    runs = clocks.thaw(change, now, but="lost") if waited else {}
    change.record("mission.robot_back", robot_lost_at=None, **runs, **clocks.clear(mission, "robot_lost_due_at"))
    return Verdict.APPLIED


def robot_lost_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    _POLICIES[OfflinePolicy(timings.offline_policy(change.row))](change, now)


def _abort(change: Change, now: datetime) -> None:
    change.record("mission.robot_lost_timeout", robot_lost_due_at=None, then="the mission is given up")
    stop(change, now, AbortReason.ROBOT_FAULT, _offline_words(change.row), by="deadline")


def _wait(change: Change, now: datetime) -> None:
    again = clocks.after(now, timings.get(change.row, "paused_long_s"))
    change.record("mission.robot_lost_timeout", robot_lost_due_at=again, then="the mission waits for it")


def _hand_over(change: Change, now: datetime) -> None:
    """By itself only where nothing can be done twice; else a person decides (DESIGN section 4)."""
    mission = change.row
    doubt, clears_at = _doubt(change, now)
    if not doubt:
        change.record("mission.robot_lost_timeout", robot_lost_due_at=None, then="the mission is handed over")
        _give_away(change, now, by="policy")
        return
    again = clocks.after(now, timings.get(mission, "paused_long_s"))
    change.record(
        "mission.robot_lost_timeout", robot_lost_due_at=min(again, clears_at or again), then="a person decides"
    )
    change.record("mission.hand_over_proposed", why=doubt)


_POLICIES = {OfflinePolicy.ABORT: _abort, OfflinePolicy.WAIT: _wait, OfflinePolicy.HAND_OVER: _hand_over}


def hand_over(change: Change, fact: facts.HandOver, now: datetime) -> Verdict:
    """A person takes it upon themselves that the robot does not go on."""
    if change.row.hand_over_at or change.row.stop_requested_at:
        return Verdict.REDUNDANT
    _give_away(change, now, by=fact.by)
    return Verdict.APPLIED


def handed_over(change: Change, fact: facts.HandedOver, now: datetime) -> Verdict:
    """It has ended, and another mission goes on with what was left of it; or nothing was."""
    mission = change.row
    if mission.state != State.ABORTED or not mission.hand_over_at or mission.handed_over_to:
        return Verdict.REDUNDANT
    if fact.to is None:
        change.record("mission.hand_over_dropped", hand_over_at=None, why=fact.why)
    else:
        change.record("mission.handed_over", handed_over_to=fact.to, steps_left=fact.steps)
    return Verdict.APPLIED


def _give_away(change: Change, now: datetime, *, by: str) -> None:
    """This mission ends as every other; when it has, its unfinished steps become a new one (missions/handing_over.py)."""
    mission = change.row
    change.record("mission.hand_over_decided", hand_over_at=now, by=by)
    lost = mission.robot_lost_at is not None
    reason = AbortReason.ROBOT_FAULT if lost else AbortReason.OPERATOR
    detail = "handed over to another robot" + (f": {_offline_words(mission)}" if lost else "")
    stop(change, now, reason, detail, by=by)


def _doubt(change: Change, now: datetime) -> tuple[str, datetime | None]:
    """Why it may not be handed over without a person, empty when it may; and when time alone will end the doubt."""
    mission = change.row
    if not mission.assign_sent:
        return "", None
    if load := carried(change):
        return load, None
    silence_s = timings.get(mission, "stops_after_silence_s")
    if silence_s is None:
        return "robots of its brand go on when they hear nothing", None
    stands_at = mission.robot_lost_at + timedelta(seconds=silence_s)
    if now < stands_at:
        return f"it stands for certain only after {silence_s} s of silence", stands_at
    return "", None


def carried(change: Change) -> str:
    """What the robot may have on board, in words; empty when it carries nothing."""
    load = ""
    for number, step in sorted(change.children["steps"].items()):
        done = step.outcome == Outcome.COMPLETED or step.claimed == Outcome.COMPLETED
        if step.command == "pick" and (done or step.attempt):
            load = f"it {'carries' if done else 'may carry'} what it took up in step {number}"
        elif step.command == "drop" and done:
            load = ""
    return load


def _offline_words(mission: Any) -> str:
    return f"the robot has been offline since {mission.robot_lost_at:%H:%M:%S} UTC"
