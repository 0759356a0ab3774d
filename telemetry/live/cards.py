"""What a card, a row and the counters show, as finished text: pure functions from what is known to what a template writes.

Nothing here depends on the time of day or on who looks: times are given as moments and formatted in the browser.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.admin.utils import quote

from fleet.models import HoldKind, Presence
from missions.command_types import in_words
from missions.models import FINAL, State
from missions.queue.reasons import RobotFacts
from telemetry.live.loading import MissionRow, RobotRow
from telemetry.live.looks import BAD, INFO, OFF, OK, WARN, Look, mission_look, robot_look
from telemetry.live.words import moment, short
from telemetry.snapshots import Snapshot

LOW_BATTERY = 20.0  # per cent
OFTEN_S = 15  # robots that are suspect after no more than this say every few seconds how they are
SEPARATORS = {"at": ", ", "for": " ", "since": " since ", "in": " "}  # between word and time
RANKS = {BAD: 0, WARN: 1, INFO: 2, OK: 3, OFF: 4}  # the worst first; running comes before idle
BUCKETS = (  # for the bar: name, word
    ("bad", "Need you now"),
    ("warn", "Need you soon"),
    ("running", "Running"),
    ("idle", "Idle"),
    ("charging", "Charging"),
    ("paused", "Paused"),
    ("off", "Offline or unknown"),
)
MISSION_COUNTS = (  # name, word, and what the list of missions calls them
    ("waiting", "waiting", "waiting"),
    ("executing", "running", "running"),
    ("success", "done in 24 h", "done"),
    ("aborted", "aborted in 24 h", "wrong"),
    ("unconfirmed", "aborted in 24 h, stop not confirmed", "unconfirmed"),
)
ONLY_IF_ANY = {"unconfirmed"}  # counters that are there when there is something to count


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


def bucket(look: Look) -> str:
    """Which part of the bar a robot belongs to."""
    if look.tone in (BAD, WARN, OFF):
        return look.tone
    return look.shape if look.shape in ("idle", "charging", "paused") else "running"


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


def _doing(row: RobotRow) -> str:
    words = _in_words(row.mission_command, row.mission_params)
    return words if row.mission_retry_for else _trying(words, row.mission_attempt)


def _trying(words: str, attempt: int | None) -> str:
    """What it is at; from the second try on, at which."""
    return f"{words} (try {attempt})" if words and (attempt or 0) > 1 else words


def battery_low(snapshot: Snapshot | None) -> bool:
    """The one thing in the live facts that changes what a card says."""
    return snapshot is not None and snapshot.battery is not None and snapshot.battery < LOW_BATTERY


def old_after_ms(suspect_after_s: int) -> int:
    """How old a value of a robot may be before the page says so; 0: two heartbeats, as the browser knows.

    Robots that have something to say only now and then (VDA 5050: every 30 s) would else look old while all is well.
    """
    return 1000 * suspect_after_s if suspect_after_s > OFTEN_S else 0


def vitals(robot_id: str, snapshot: Snapshot | None, suspect_after_s: int = 0) -> dict[str, Any]:
    """Everything that `fleet/_vitals.html` shows: what changes all the time while nothing happens."""
    if snapshot is None:
        return {"id": robot_id}
    battery = snapshot.battery
    return {
        "id": robot_id,
        "old": old_after_ms(suspect_after_s),
        "battery": "" if battery is None else f"{battery:.0f} %",
        "level": "" if battery is None else str(min(5, max(0, round(battery / 20)))),
        "low": " low" if battery_low(snapshot) else "",
        "position": _position(snapshot),
        "speed": "" if snapshot.speed is None else f"{snapshot.speed:.1f} m/s",
        "at": str(snapshot.at),
        "posed_at": str(snapshot.posed_at),
    }


def _name(row: RobotRow) -> str:
    return short(row.name, 200) or row.id


def order(row: RobotRow, look: Look) -> tuple[int, str, str]:
    """The place of a robot among others: those whose stop is not confirmed, then by what they need, then by name."""
    if stop_state(row)[0] in ("late", "offline"):
        rank = -1
    else:
        rank = 2 if look.tone == OK and look.shape in ("running", "paused", "manual") else RANKS[look.tone]
    return rank, _name(row).casefold(), row.id


def robot_card(row: RobotRow, low: bool) -> dict[str, Any]:
    """Everything that `fleet/_robot.html` shows but the vitals, as finished text. `low`: its battery is."""
    look = robot_look(row, low)
    running = look.tone == OK and look.shape == "running"
    steps, step = row.mission_steps or 0, row.mission_step or 0
    done = step if row.mission_state == State.STEP_COMPLETED else max(step - 1, 0)
    releasable = [h for h in row.holds if h.kind != HoldKind.STOPPED]
    stopped = any(h.kind == HoldKind.STOPPED for h in row.holds)
    stop, stop_at = stop_state(row)
    place = order(row, look)
    return {
        "id": row.id,
        "name": _name(row),
        "admin": f"fleet/robot/{quote(row.id)}/change/",
        "site": row.site,
        "tone": look.tone,
        "shape": look.shape,
        "bucket": bucket(look),
        "order": place,
        "rank": place[0],
        **_said(look),
        "step_words": _doing(row) if running and step else "",
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


def mission_order(row: MissionRow, look: Look) -> tuple[int, float]:
    """The place of a mission among others: what went wrong, what runs, waits, has ended; then the newest first."""
    if look.tone in (BAD, WARN):
        rank = RANKS[look.tone]
    else:
        rank = 5 if row.state in FINAL else 2 if row.dispatched_at else 3
    return rank, -row.created_at.timestamp()


def mission_line(
    row: MissionRow, robot: RobotFacts | None = None, candidates: Iterable[RobotFacts] = ()
) -> dict[str, Any]:
    """Everything that `missions/_row.html` shows, as finished text."""
    look = mission_look(row, robot, candidates)
    done = row.steps if row.state == State.SUCCESS else row.step if row.state == State.STEP_COMPLETED else row.step - 1
    ended, place = row.state in FINAL, mission_order(row, look)
    return {
        "id": row.id,
        "version": row.version,
        "title": short(row.title, 120),
        "state": row.state,
        "tone": look.tone,
        "shape": look.shape,
        "order": place,
        "rank": place[0],
        **_said(look),
        "robot": row.robot or "",
        "admin": f"missions/mission/{row.id}/change/",
        "robot_name": short(row.robot_name or row.robot or "any robot", 60),
        "step": f"{row.step}/{row.steps}" if row.step else f"{row.steps} {'step' if row.steps == 1 else 'steps'}",
        "done": max(done, 0),
        "steps": row.steps or 1,
        "doing": "" if ended else _trying(_in_words(row.command, row.params), row.attempt),
        "can_cancel": not ended,
        "created": row.created_at.isoformat(),
    }
