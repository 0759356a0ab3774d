"""What a card, a row and the counters say, in words: pure functions from what is known to what is shown.

Nothing here depends on the time of day or on who looks: times are given as moments and formatted in the browser.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib.admin.utils import quote

from fleet.models import HoldKind, Mode, Presence
from missions.command_types import in_words
from missions.models import AbortReason, State
from telemetry.live.loading import Hold, MissionRow, RobotRow
from telemetry.snapshots import Snapshot

LOW_BATTERY = 20.0  # per cent
BAD, WARN, INFO, OK, OFF = "bad", "warn", "info", "ok", "off"


SEPARATORS = {"at": ", ", "for": " ", "since": " since "}  # between word and time


class Look(NamedTuple):
    """How a state is shown. `word` says what, `since` since when, `said` adds why, in somebody's own words."""

    tone: str
    shape: str
    word: str
    since: datetime | None = None
    said: str = ""
    age: str = "since"  # how `since` is read: "since" 10:31, "for" 12 min, "at" 10:31


RANKS = {BAD: 0, WARN: 1, INFO: 2, OK: 3, OFF: 4}  # the worst first; running comes before idle
MODES = {  # mode → shape, word, rank
    Mode.IDLE: ("idle", "Idle", 3),
    Mode.RUNNING: ("running", "Running", 2),
    Mode.CHARGING: ("charging", "Charging", 3),
    Mode.PAUSED: ("paused", "Paused", 2),
    Mode.MANUAL: ("manual", "Driven by hand", 2),
    Mode.FAULT: ("bad", "Fault", 0),
    Mode.UNKNOWN: ("off", "Has not said yet what it does", 3),
}
BUCKETS = (  # for the bar: name, word
    ("bad", "Need you now"),
    ("warn", "Need you soon"),
    ("running", "Running"),
    ("idle", "Idle"),
    ("charging", "Charging"),
    ("paused", "Paused"),
    ("off", "Offline"),
)
MISSION_COUNTS = (
    ("waiting", "waiting"),
    ("executing", "running"),
    ("success", "done in 24 h"),
    ("aborted", "aborted in 24 h"),
)
ABORTED = {
    AbortReason.SAFETY: "for safety",
    AbortReason.TIMEOUT: "it took too long",
    AbortReason.OPERATOR: "cancelled",
    AbortReason.DEPENDENCY_FAILED: "a mission it depends on failed",
    AbortReason.ROBOT_FAULT: "robot fault",
    AbortReason.REJECTED: "rejected by the robot",
    AbortReason.UNDELIVERABLE: "could not be delivered",
}


def short(text: str, most: int = 160) -> str:
    """Text of others, cut for a card."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _held(hold: Hold, offline: bool) -> Look:
    if hold.kind == HoldKind.UNCONFIRMED:
        aborted = "Aborted, stop" if hold.mission else "Stop"
        return Look(BAD, "bad", f"{aborted} not confirmed: it may still move", hold.since)
    by, why = short(hold.by, 60), short(hold.why)
    if hold.kind == HoldKind.MAINTENANCE:
        return Look(OFF, "off", f"Maintenance by {by}", hold.since, why, "at")
    if hold.confirmed_at is not None:
        return Look(BAD, "bad", f"Stopped by {by}", hold.since, why, "at")
    if offline:
        return Look(BAD, "bad", f"Offline: told to stop when it is back. Asked by {by}", hold.asked_at, why, "at")
    if hold.unconfirmed_at is not None:
        return Look(BAD, "bad", f"Stop not confirmed: it may still move. Asked by {by}", hold.asked_at, why, "at")
    return Look(INFO, "ring", f"Stopping… asked by {by}", hold.asked_at, why, "at")


def stop_state(row: RobotRow) -> tuple[str, datetime | None]:
    """How far a stop is, for the list of those that were asked: asked, offline, late, stands; and since when."""
    hold = next((h for h in row.holds if h.kind == HoldKind.STOPPED), None)
    if hold is None:
        return "", None
    if hold.confirmed_at is not None:
        return "stands", hold.confirmed_at
    if row.presence == Presence.OFFLINE:
        return "offline", hold.asked_at
    return ("late" if hold.unconfirmed_at else "asked"), hold.asked_at


_WORST_HOLD = {HoldKind.UNCONFIRMED: 0, HoldKind.STOPPED: 1, HoldKind.MAINTENANCE: 2}


def robot_look(row: RobotRow, low: bool) -> Look:
    """The one thing to know about a robot now: the first of these that holds."""
    hold = min(row.holds, key=lambda h: _WORST_HOLD.get(h.kind, 3), default=None)  # type: ignore[call-overload]
    if hold is not None and hold.kind != HoldKind.MAINTENANCE:
        return _held(hold, row.presence == Presence.OFFLINE)
    if row.presence == Presence.OFFLINE:
        if row.mission:
            return Look(BAD, "bad", "Offline with a mission", row.presence_since)
        return Look(OFF, "off", "Offline", row.presence_since)
    if row.fault or row.mode == Mode.FAULT:
        return Look(BAD, "bad", "Fault", row.mode_since, short(row.fault))
    if hold is not None:
        return _held(hold, False)
    if row.presence == Presence.SUSPECT:
        return Look(WARN, "warn", "No word from it", row.presence_since)
    if row.mission_stop_requested_at:
        who = short(row.mission_stop_requested_by or "Drover", 60)
        return Look(INFO, "ring", f"Stopping… asked by {who}", row.mission_stop_requested_at, "", "at")
    if row.mission and row.mission_state == State.PENDING:
        return Look(INFO, "ring", "Dispatching…", row.mission_dispatched_at, "", "for")
    if low and row.mode != Mode.CHARGING:
        return Look(WARN, "warn", f"Battery low, {MODES[Mode(row.mode)][1].lower()}", row.mode_since, "", "for")
    if row.presence == Presence.UNKNOWN:
        return Look(OFF, "off", "No verdict on its link yet" if row.presence_since else "Never heard from")
    shape, word, _rank = MODES[Mode(row.mode)]
    return Look(OK, shape, word, row.mode_since, "", "for")


def bucket(look: Look) -> str:
    """Which part of the bar a robot belongs to."""
    if look.tone in (BAD, WARN, OFF):
        return look.tone
    return look.shape if look.shape in ("idle", "charging", "paused") else "running"


def moment(at: datetime | None) -> dict[str, str] | None:
    """A time for `<time>`: machine-readable, and in UTC for who has no script."""
    if at is None:
        return None
    return {"iso": at.isoformat(timespec="milliseconds"), "utc": f"{at.astimezone(UTC):%H:%M} UTC"}


def _said(look: Look) -> dict[str, Any]:
    return {
        "word": look.word,
        "said": look.said,
        "age": look.age,
        "separator": SEPARATORS[look.age] if look.since else "",
        "since": moment(look.since),
    }


def _position(snapshot: Snapshot) -> str:
    if snapshot.place:
        return short(snapshot.place, 60)
    return "" if snapshot.x is None or snapshot.y is None else f"{snapshot.x:.1f}, {snapshot.y:.1f} m"


def _in_words(command: str | None, params: dict[str, Any] | None) -> str:
    return short(in_words(command, params or {}), 90) if command else ""


def battery_low(snapshot: Snapshot | None) -> bool:
    """The one thing in the live facts that changes what a card says."""
    return snapshot is not None and snapshot.battery is not None and snapshot.battery < LOW_BATTERY


def vitals(robot_id: str, snapshot: Snapshot | None) -> dict[str, Any]:
    """Everything that `fleet/_vitals.html` shows: what changes all the time while nothing happens."""
    if snapshot is None:
        return {"id": robot_id}
    battery = snapshot.battery
    return {
        "id": robot_id,
        "battery": "" if battery is None else f"{battery:.0f} %",
        "level": "" if battery is None else str(min(5, max(0, round(battery / 20)))),
        "low": " low" if battery_low(snapshot) else "",
        "position": _position(snapshot),
        "speed": "" if snapshot.speed is None else f"{snapshot.speed:.1f} m/s",
        "at": str(snapshot.at),
        "posed_at": str(snapshot.posed_at),
    }


def robot_card(row: RobotRow, low: bool) -> dict[str, Any]:
    """Everything that `fleet/_robot.html` shows but the vitals, as finished text. `low`: its battery is."""
    look = robot_look(row, low)
    running = row.mode == Mode.RUNNING and look.tone == OK
    steps, step = row.mission_steps or 0, row.mission_step or 0
    done = step if row.mission_state == State.STEP_COMPLETED else max(step - 1, 0)
    releasable = [h for h in row.holds if h.kind != HoldKind.STOPPED]
    stopped = any(h.kind == HoldKind.STOPPED for h in row.holds)
    stop, stop_at = stop_state(row)
    return {
        "id": row.id,
        "name": short(row.name, 200) or row.id,
        "admin": f"fleet/robot/{quote(row.id)}/change/",
        "site": row.site,
        "tone": look.tone,
        "shape": look.shape,
        "bucket": bucket(look),
        "rank": -1 if stop in ("late", "offline") else 2 if look.tone == OK and look.shape in ("running", "paused", "manual") else RANKS[look.tone],
        **_said(look),
        "step_words": _in_words(row.mission_command, row.mission_params) if running and step else "",
        "mission": row.mission,
        "mission_title": short(row.mission_title or "", 90),
        "mission_state": row.mission_state or "",
        "mission_version": row.mission_version,
        "step": f"{step}/{steps}" if row.mission else "",
        "done": done,
        "steps": steps or 1,
        "next_title": "" if row.mission else short(row.next_title or "", 90),
        "can_pause": bool(row.mission) and row.mission_paused_at is None and row.mission_state != State.PENDING
        and row.mission_stop_requested_at is None,
        "can_resume": bool(row.mission) and row.mission_paused_at is not None and not row.holds,
        "release": "" if stopped else (str(releasable[0].number) if releasable else ""),
        "can_release": bool(row.holds),
        "stop": stop,
        "stop_at": moment(stop_at),
    }  # fmt: skip


def why_waiting(row: MissionRow) -> str:
    """Why a pending mission does not run."""
    robot = short(row.robot_name or row.robot or "", 60)
    if row.dispatched_at:
        if row.delivered_at:
            return f"{robot} has it and has not accepted yet"
        return f"Waiting for {robot} to take it" + ("" if row.robot_presence == Presence.ONLINE else " (not online)")
    if not row.robot:
        return "It has no robot yet"
    if row.robot_held:
        return f"{robot} is on hold"
    if row.robot_busy_with:
        return f"{robot} is busy with “{short(row.robot_busy_with, 60)}”"
    if row.robot_presence == Presence.OFFLINE:
        return f"{robot} is offline"
    return "Ready: waits to be dispatched"


def mission_look(row: MissionRow) -> Look:
    """State of a mission in words."""
    if row.state == State.ABORTED:
        reason = ABORTED.get(AbortReason(row.abort_reason), "") if row.abort_reason else ""
        said = short(": ".join(part for part in (reason, row.abort_detail) if part))
        if row.stop_confirmed is False:
            return Look(BAD, "bad", "Aborted, stop not confirmed", row.ended_at, said, "at")
        return Look(OFF, "off", "Aborted", row.ended_at, said, "at")
    if row.state == State.SUCCESS:
        return Look(OK, "done", "Success", row.ended_at, "", "at")
    if row.stop_requested_at:
        who = short(row.stop_requested_by or "Drover", 60)
        return Look(INFO, "ring", "Stopping…", row.stop_requested_at, f"asked by {who}", "at")
    if row.state == State.PENDING:
        if row.dispatched_at:
            return Look(INFO, "ring", "Pending", row.dispatched_at, why_waiting(row), "for")
        return Look(OK, "idle", "Pending", row.created_at, why_waiting(row), "for")
    word = State(row.state).label
    if row.paused_at:
        return Look(OK, "paused", f"{word}, paused", row.paused_at, "", "for")
    if row.robot_presence == Presence.OFFLINE:
        return Look(BAD, "bad", f"{word}, robot offline", row.robot_presence_since, "", "since")
    return Look(OK, "running", word)


def mission_line(row: MissionRow) -> dict[str, Any]:
    """Everything that `missions/_row.html` shows, as finished text."""
    look = mission_look(row)
    done = row.steps if row.state == State.SUCCESS else row.step if row.state == State.STEP_COMPLETED else row.step - 1
    ended = row.state in (State.SUCCESS, State.ABORTED)
    return {
        "id": row.id,
        "version": row.version,
        "title": short(row.title, 120),
        "state": row.state,
        "tone": look.tone,
        "shape": look.shape,
        "rank": RANKS[look.tone] if look.tone in (BAD, WARN) else 5 if ended else 3 if not row.dispatched_at else 2,
        **_said(look),
        "robot": row.robot or "",
        "admin": f"missions/mission/{row.id}/change/",
        "robot_name": short(row.robot_name or row.robot or "no robot", 60),
        "step": f"{row.step}/{row.steps}" if row.step else f"{row.steps} {'step' if row.steps == 1 else 'steps'}",
        "done": max(done, 0),
        "steps": row.steps or 1,
        "doing": "" if ended else _in_words(row.command, row.params),
        "can_cancel": not ended,
        "created": row.created_at.isoformat(),
    }
