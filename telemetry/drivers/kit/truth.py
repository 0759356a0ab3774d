"""Is a word true? Each thing that a driver says is held against what the robot did: no receipt is guessed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from telemetry.drivers.contract import Say
from telemetry.drivers.kit.double import Deed
from telemetry.protocol import TYPES

if TYPE_CHECKING:
    from telemetry.drivers.kit.bench import Bench

GIVE_UP_S = 20  # an assignment that a robot never answers may be given up after so long
OLD_S = 45  # a state tells of a mode that is no older
ENDS = ("lost", "cancelled", "rejected")  # it has its mission no more
ONCE = ("mission.accepted", "mission.rejected", "mission.step_started", "mission.step_completed", "mission.step_failed",
        "mission.cancelled", "mission.finished")  # fmt: skip


def wrong(bench: "Bench", word: Say, now: datetime) -> str:
    """What is wrong with it; empty when nothing is."""
    row = TYPES.get(word.type)
    if row is None or row.channel != "critical":
        return f"there is no word {word.type!r}"
    for name in row.needs:
        if getattr(word, name) is None:
            return f"{word.type} does not say its {name}"
    try:
        msgspec.convert(word.data, row.data, strict=False)
    except msgspec.ValidationError as error:
        return f"the data of {word.type}: {error}"
    if word.occurred_at.utcoffset() is None or word.occurred_at > now + timedelta(seconds=1):
        return f"{word.type} occurs at {word.occurred_at}: not an aware time, or not yet"
    if (word.session is None) != (word.seq is None):
        return f"{word.type} has a session or a seq, and not both"
    return _id_changed(bench, word) or _untrue(bench, word) or _forgets(bench, word)


def _id_changed(bench: "Bench", word: Say) -> str:
    """The same word has the same id, after a restart as well; only robots that count for themselves give their own."""
    about = (word.type, word.mission, word.dispatch_no, word.step, word.attempt)
    other = bench.by_id.setdefault(word.id, about)
    if other != about:
        return f"{word.type} has the id of {other[0]}"
    if word.session is not None or word.type in ONCE:
        first = bench.ids.setdefault((word.session, word.seq) if word.session is not None else about, word.id)
        if first != word.id:
            return (
                f"{word.type} (step {word.step}) was said under another id before: derive it from what it is read off"
            )
    return ""


def _untrue(bench: "Bench", word: Say) -> str:
    deeds = bench.deeds_of(word)
    if deeds is None:
        return f"{word.type} is about mission {word.mission}, which the robot was never given"
    if word.type in _TRUE and not _TRUE[word.type](bench, word, deeds):
        return f"{word.type}{f' {word.step}' if word.step else ''} is guessed: the robot did {_told(deeds)}"
    return ""


def _forgets(bench: "Bench", word: Say) -> str:
    """An answer that is idle and names no mission ends the one that the site has under way."""
    if word.type != "robot.state" or word.data.get("mode") != "idle" or not word.data.get("reply_to"):
        return ""
    if word.data.get("mission") or not bench.site.under_way or any(d.kind in ENDS for d in bench.deeds()):
        return ""
    return "robot.state, in reply, is idle and names no mission: so it is taken for forgotten, and the robot has it"


def _told(deeds: Sequence[Deed]) -> str:
    return ", ".join(f"{d.kind} {d.step or ''}".strip() for d in deeds) or "nothing"


def _did(kind: str) -> Callable[["Bench", Say, Sequence[Deed]], bool]:
    return lambda bench, word, deeds: any(d.kind == kind for d in deeds)


def _did_step(kind: str) -> Callable[["Bench", Say, Sequence[Deed]], bool]:
    return lambda bench, word, deeds: Deed(kind, word.step or 0) in deeds


def _started(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    before = (word.step or 0) - 1
    return Deed("accepted") in deeds and (
        not before or before in bench.site.skipped or Deed("completed", before) in deeds
    )


def _all_done(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    steps = set(range(1, len(bench.case.steps) + 1)) - bench.site.skipped
    return all(Deed("completed", number) in deeds for number in steps)


def _cancelled(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    """It ended it, or it has it no more, or never had it."""
    return Deed("cancelled") in deeds or Deed("lost") in deeds or not _did("accepted")(bench, word, deeds)


def _rejected(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    """It refused it, or was asked for long and did not take it."""
    tried_s = (bench.now - bench.assigned_at).total_seconds()
    return Deed("rejected") in deeds or (tried_s >= GIVE_UP_S and Deed("accepted") not in deeds)


def _paused(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    """It stands within its mission: halted, or (a brand that cannot be) without the order that it had for it."""
    return bench.robot.stands or Deed("paused") in deeds


def _resumed(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    return bench.robot.mode != "paused" or Deed("resumed") in deeds


def _stands(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    return bench.robot.stands


def _mode(bench: "Bench", word: Say, deeds: Sequence[Deed]) -> bool:
    since = bench.now - timedelta(seconds=OLD_S)
    return word.data.get("mode") in {mode for at, mode in bench.modes if at >= since}


_TRUE: dict[str, Callable[["Bench", Say, Sequence[Deed]], bool]] = {
    "mission.accepted": _did("accepted"),
    "mission.rejected": _rejected,
    "mission.step_started": _started,
    "mission.step_completed": _did_step("completed"),
    "mission.step_failed": _did_step("failed"),
    "mission.paused": _paused,
    "mission.resumed": _resumed,
    "mission.cancelled": _cancelled,
    "mission.finished": _all_done,
    "robot.stopped": _stands,
    "robot.state": _mode,
}
