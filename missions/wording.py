"""How a mission's state is said, in admin and on the live page: "Aborted, stop not confirmed" is never plain "Aborted"."""

from datetime import datetime
from typing import Any, NamedTuple

from fleet.robots.wording import MODES
from fleet.wording import DISPATCHING, GLYPHS, STOPPING, Said
from missions.models import FINAL, AbortReason, State

ABORTED_UNCONFIRMED = "Aborted, stop not confirmed"


class Told(NamedTuple):
    """`tone` is a token, `icon` a name of `GLYPHS`, `word` says what, `since` since when, `said` adds why.

    `age` is how `since` is read: "for" 4 min, "at" 10:31, "since" 10:31, "in" 4 s.
    """

    tone: str
    icon: str
    word: str
    since: datetime | None = None
    said: str = ""
    age: str = "for"


def ending(mission: Any) -> str:
    """How it ended, in a word; an abort that its robot never confirmed says so, wherever it is named."""
    if mission.state == State.ABORTED and mission.stop_confirmed is False:
        return ABORTED_UNCONFIRMED
    return str(State(mission.state).label)


def mission_told(mission: Any, why: str = "", robot_offline_since: datetime | None = None, tries: str = "") -> Told:
    """The one thing to say about it now; `why` it waits (missions/queue/waiting.py), at which try its step is. Reads columns only."""
    if mission.state == State.ABORTED:
        because = ": ".join(part for part in (aborted_because(mission), mission.abort_detail) if part)
        tone = "bad" if mission.stop_confirmed is False else "off"
        return Told(tone, tone, ending(mission), mission.ended_at, because, "at")
    if mission.state == State.SUCCESS:
        return Told("ok", "done", ending(mission), mission.ended_at, "", "at")
    if mission.stop_requested_at:
        asked = f"asked by {mission.stop_requested_by or 'Drover'}"
        return Told("info", STOPPING.icon, STOPPING.word, mission.stop_requested_at, asked, "at")
    if mission.state == State.PENDING:
        if mission.dispatched_at:
            return Told("info", DISPATCHING.icon, DISPATCHING.word, mission.dispatched_at, why)
        if mission.queued_at:
            return Told("ok", "idle", "Waiting", mission.queued_at, why)
        return Told("ok", "idle", "Pending", mission.created_at, why)
    word = str(State(mission.state).label)
    if robot_offline_since:
        return Told("bad", "bad", f"{word}, robot offline", robot_offline_since, "", "since")
    if mission.held_at:
        return Told("ok", "paused", "Waits: its robot is stopped", mission.held_at, "", "since")
    if mission.paused_at:
        return Told("ok", "paused", MODES["paused"].word, mission.paused_at)
    if mission.retry_for:
        return Told("ok", "ring", "Waits to try its step again", mission.retry_due_at, tries, "in")
    return Told("ok", "running", word, None, tries)


def mission_said(mission: Any) -> Said:
    """The same in a few words: shape, word and token."""
    if mission.state == State.PENDING and mission.needs_approval and not mission.approved_at:
        return Said("△", "Needs approval", "warn")
    told = mission_told(mission)
    reason = aborted_because(mission) if told.word == "Aborted" else ""
    return Said(GLYPHS[told.icon], f"{told.word}: {reason}" if reason else told.word, told.tone)


def aborted_because(mission: Any) -> str:
    return str(AbortReason(mission.abort_reason).label).lower() if mission.abort_reason else ""


def is_open(mission: Any) -> bool:
    return mission.state not in FINAL
