"""The one thing to know of a robot or of a mission now, in words: the first that holds, the worst first."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from fleet.models import HoldKind, Mode, Presence
from fleet.robots.wording import MODES, PRESENCES, fault_said, hold_said, presence_said
from fleet.wording import DISPATCHING, STOPPING
from missions.models import State
from missions.queue.reasons import RobotFacts, why
from missions.step_wording import tries_words
from missions.wording import mission_told
from telemetry.live.loading import Hold, MissionRow, RobotRow
from telemetry.live.queue_facts import mission_facts
from telemetry.live.words import short

BAD, WARN, INFO, OK, OFF = "bad", "warn", "info", "ok", "off"
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # a not_before that was loaded has not passed: see loading.py


class Look(NamedTuple):
    """How a state is shown. `word` says what, `since` since when, `said` adds why, in somebody's own words."""

    tone: str
    shape: str
    word: str
    since: datetime | None = None
    said: str = ""
    age: str = "since"  # how `since` is read: "since" 10:31, "for" 12 min, "at" 10:31, "in" 4 s


def _held(hold: Hold, offline: bool) -> Look:
    found, by, why = hold_said(hold), short(hold.by, 60), short(hold.why)
    if hold.kind == HoldKind.UNCONFIRMED:
        return Look(BAD, found.icon, found.word, hold.since)
    if hold.kind == HoldKind.MAINTENANCE:
        return Look(OFF, "off", f"{found.word} by {by}", hold.since, why, "at")
    if hold.confirmed_at is not None:
        return Look(BAD, found.icon, f"{found.word} by {by}", hold.since, why, "at")
    if offline:
        return Look(BAD, "bad", f"Offline: told to stop when it is back. Asked by {by}", hold.asked_at, why, "at")
    if hold.unconfirmed_at is not None:
        return Look(BAD, found.icon, f"{found.word}. Asked by {by}", hold.asked_at, why, "at")
    return Look(INFO, found.icon, f"{found.word} asked by {by}", hold.asked_at, why, "at")


_WORST_HOLD = {HoldKind.UNCONFIRMED: 0, HoldKind.STOPPED: 1, HoldKind.MAINTENANCE: 2}


def robot_look(row: RobotRow, low: bool) -> Look:
    """The one thing to know about a robot now: the first of these that holds."""
    hold = min(row.holds, key=lambda h: _WORST_HOLD.get(h.kind, 3), default=None)  # type: ignore[call-overload]
    if hold is not None and hold.kind != HoldKind.MAINTENANCE:
        return _held(hold, row.presence == Presence.OFFLINE)
    if row.presence == Presence.OFFLINE:
        if row.mission:
            return Look(BAD, "bad", f"{PRESENCES[Presence.OFFLINE].word} with a mission", row.presence_since)
        return Look(OFF, "off", PRESENCES[Presence.OFFLINE].word, row.presence_since)
    if row.fault or row.mode == Mode.FAULT:
        return Look(BAD, "bad", fault_said(row.safety).word, row.mode_since, short(row.fault))
    if hold is not None:
        return _held(hold, False)
    if row.presence == Presence.SUSPECT:
        return Look(WARN, "warn", PRESENCES[Presence.SUSPECT].word, row.presence_since)
    if row.mission_stop_requested_at:
        who = short(row.mission_stop_requested_by or "Drover", 60)
        return Look(INFO, STOPPING.icon, f"{STOPPING.word} asked by {who}", row.mission_stop_requested_at, "", "at")
    if row.mission and row.mission_state == State.PENDING:
        return Look(INFO, DISPATCHING.icon, DISPATCHING.word, row.mission_dispatched_at, "", "for")
    if low and row.mode != Mode.CHARGING:
        return Look(WARN, "warn", f"Battery low, {MODES[row.mode].word.lower()}", row.mode_since, "", "for")
    if row.presence == Presence.UNKNOWN:
        return Look(OFF, "off", presence_said(row).word)
    if row.mission_retry_for and row.mission_retry_due_at and not row.mission_paused_at:
        return Look(OK, "running", "Waits to try again", row.mission_retry_due_at, "", "in")
    if row.mode == Mode.IDLE and row.mission and not row.mission_paused_at:
        return Look(OK, "running", "Between steps", row.mode_since, "", "for")  # not free: it has a mission
    mode = MODES[row.mode]
    return Look(OK, "off" if row.mode == Mode.UNKNOWN else mode.icon, mode.word, row.mode_since, "", "for")


def mission_look(row: MissionRow, robot: RobotFacts | None = None, candidates: Iterable[RobotFacts] = ()) -> Look:
    """State of a mission in words. `robot`: the one it names; `candidates`: those of its site if it names none."""
    offline = row.robot_presence_since if row.robot_presence == Presence.OFFLINE else None
    tries = tries_words(row, row.retry_for) if row.retry_for else ""
    told = mission_told(row, short(why(mission_facts(row, robot), LONG_AGO, candidates)), offline, tries)
    return Look(told.tone, told.icon, told.word, told.since, short(told.said), told.age)
