"""What a card, a row and the counters say, in words: pure functions from what is known to what is shown.

Nothing here depends on the time of day or on who looks: times are given as moments and formatted in the browser.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib.admin.utils import quote

from fleet.models import HoldKind, Mode, Presence
from fleet.robots.wording import MODES, PRESENCES, fault_said, hold_said, presence_said
from fleet.wording import DISPATCHING, STOPPING
from missions.command_types import in_words
from missions.models import State
from missions.queue.reasons import MissionFacts, RobotFacts, why
from missions.queue.standing import held_words
from missions.step_wording import tries_words
from missions.wording import mission_told
from telemetry.live.loading import Hold, MissionRow, RobotRow, Waits
from telemetry.snapshots import Snapshot

LOW_BATTERY = 20.0  # per cent
OFTEN_S = 15  # robots that are suspect after no more than this say every few seconds how they are
BAD, WARN, INFO, OK, OFF = "bad", "warn", "info", "ok", "off"


SEPARATORS = {"at": ", ", "for": " ", "since": " since ", "in": " "}  # between word and time


class Look(NamedTuple):
    """How a state is shown. `word` says what, `since` since when, `said` adds why, in somebody's own words."""

    tone: str
    shape: str
    word: str
    since: datetime | None = None
    said: str = ""
    age: str = "since"  # how `since` is read: "since" 10:31, "for" 12 min, "at" 10:31, "in" 4 s


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


def short(text: str, most: int = 160) -> str:
    """Text of others, cut for a card."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


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


def robot_card(row: RobotRow, low: bool) -> dict[str, Any]:
    """Everything that `fleet/_robot.html` shows but the vitals, as finished text. `low`: its battery is."""
    look = robot_look(row, low)
    running = look.tone == OK and look.shape == "running"
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


def robot_facts(row: RobotRow, battery: float | None) -> RobotFacts:
    """What the queue's rule needs to know of a robot."""
    return RobotFacts(
        id=row.id, name=short(row.name, 60) or row.id, site_id=row.site, capabilities=frozenset(row.capabilities or ()),
        own_word=row.own_word,
        presence=row.presence, presence_since=row.presence_since, mode=row.mode, fault=short(row.fault, 60),
        held=short(held_words(row.holds), 80), running=short(row.mission_title or "", 60) if row.mission else "",
        battery=battery, charge_below_pct=row.charge_below_pct, charge_until_pct=row.charge_until_pct or 100,
    )  # fmt: skip


def mission_facts(row: MissionRow, robot: RobotFacts | None) -> MissionFacts:
    """What the rule needs to know of a mission. A robot that is not in service is known by name only."""
    waits = row.waits or Waits()
    if robot is None and row.robot:
        name, presence = short(row.robot_name or row.robot, 60), row.robot_presence or Presence.UNKNOWN
        robot = RobotFacts(row.robot, name, row.site, presence=presence, retired=bool(row.robot_retired))
    return MissionFacts(
        id=row.id, title=row.title, site_id=row.site, state=row.state, robot=robot, commands=frozenset(waits.commands),
        priority=row.priority, important=waits.important, dispatched=row.dispatched_at is not None,
        delivered=row.delivered_at is not None, stopping=row.stop_requested_at is not None, queued_at=row.queued_at,
        not_before=waits.not_before, unapproved=waits.unapproved,
        after=tuple((short(title, 60), state) for title, state in waits.after), charger=short(waits.charger, 60),
        charger_taken_by=short(waits.charger_taken_by or "", 60), ahead=waits.ahead,
        behind=short(waits.behind or "", 60),
    )  # fmt: skip


LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # a not_before that was loaded has not passed: see loading.py


def mission_look(row: MissionRow, robot: RobotFacts | None = None, candidates: Iterable[RobotFacts] = ()) -> Look:
    """State of a mission in words. `robot`: the one it names; `candidates`: those of its site if it names none."""
    offline = row.robot_presence_since if row.robot_presence == Presence.OFFLINE else None
    tries = tries_words(row, row.retry_for) if row.retry_for else ""
    told = mission_told(row, short(why(mission_facts(row, robot), LONG_AGO, candidates)), offline, tries)
    return Look(told.tone, told.icon, told.word, told.since, short(told.said), told.age)


def mission_line(
    row: MissionRow, robot: RobotFacts | None = None, candidates: Iterable[RobotFacts] = ()
) -> dict[str, Any]:
    """Everything that `missions/_row.html` shows, as finished text."""
    look = mission_look(row, robot, candidates)
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
        "robot_name": short(row.robot_name or row.robot or "any robot", 60),
        "step": f"{row.step}/{row.steps}" if row.step else f"{row.steps} {'step' if row.steps == 1 else 'steps'}",
        "done": max(done, 0),
        "steps": row.steps or 1,
        "doing": "" if ended else _trying(_in_words(row.command, row.params), row.attempt),
        "can_cancel": not ended,
        "created": row.created_at.isoformat(),
    }
