"""What makes a mission stand still and go on: the robot's word that it is paused, and people's stop of the robot."""

from datetime import datetime

from fleet.history import Change
from fleet.verdict import Verdict
from missions import facts, timings
from missions.decide import clocks
from missions.decide.moving import advance


def paused(change: Change, fact: facts.Paused, now: datetime) -> Verdict:
    mission = change.row
    if (fact.session, fact.seq) <= (mission.word_session, mission.word_seq):
        return Verdict.STALE
    word = {"word_session": fact.session, "word_seq": fact.seq}
    if isinstance(fact, facts.Resumed):
        runs = clocks.thaw(change, now, but="paused") if mission.paused_at else {}
        change.record("mission.resumed", **word, **runs, **clocks.clear(mission, "paused_at", "paused_due_at"))
        advance(change, now)
    elif mission.paused_at:
        change.record("mission.paused", **word)
    else:
        due = clocks.after(now, timings.get(mission, "paused_long_s"))
        change.record("mission.paused", **word, **clocks.freeze(change, now), paused_at=now, paused_due_at=due)
    return Verdict.APPLIED


def paused_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    due = clocks.after(now, timings.get(change.row, "paused_long_s"))
    change.record("mission.paused_long", paused_due_at=due)


def held(change: Change, fact: facts.RobotHeld, now: datetime) -> Verdict:
    """Clocks stop from when people stopped the robot, also if that is heard of later."""
    mission = change.row
    if not mission.dispatched_at or mission.held_at:
        return Verdict.REDUNDANT
    since = min(max(fact.since, mission.dispatched_at), now)
    due = clocks.after(now, timings.get(mission, "paused_long_s"))
    change.record("mission.held", **clocks.freeze(change, since), held_at=since, held_due_at=due)
    return Verdict.APPLIED


def released(change: Change, fact: facts.RobotReleased, now: datetime) -> Verdict:
    mission = change.row
    if not mission.held_at:
        return Verdict.REDUNDANT
    runs = clocks.thaw(change, now, but="held")
    change.record("mission.released", **runs, **clocks.clear(mission, "held_at", "held_due_at"))
    advance(change, now)
    return Verdict.APPLIED


def held_passed(change: Change, fact: facts.Due, now: datetime) -> None:
    due = clocks.after(now, timings.get(change.row, "paused_long_s"))
    change.record("mission.held_long", held_due_at=due)
