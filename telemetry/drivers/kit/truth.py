"""Is a word true? Each thing that a driver says is held against what the robot did: no receipt is guessed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from telemetry.drivers.contract import Command, Say
from telemetry.drivers.kit.double import Case, Deed, Double, Kind
from telemetry.drivers.kit.site import Site
from telemetry.protocol import TYPES

GIVE_UP_S = 20  # an assignment that a robot never answers may be given up after so long
OLD_S = 45  # a state tells of a mode that is no older
ENDS = ("lost", "cancelled", "rejected")  # it has its mission no more
ONCE = ("mission.accepted", "mission.rejected", "mission.step_started", "mission.step_completed", "mission.step_failed",
        "mission.cancelled", "mission.finished")  # fmt: skip


class Truth:
    """What one robot did, mission by mission, and under which ids it was said. Begins at `now`."""

    def __init__(self, case: Case, robot: Double, site: Site, now: datetime) -> None:
        self.robot, self.site, self.now = robot, site, now
        self.steps = len(case.steps)
        self.assigned_at = now
        self._given = 0  # deeds before the mission at hand
        self._missions: list[tuple[tuple[UUID, int], int]] = []  # all that it was given, with the deeds before each
        self._modes: list[tuple[datetime, str]] = []
        self._ids: dict[tuple[Any, ...], UUID] = {}
        self._by_id: dict[UUID, tuple[Any, ...]] = {}

    def pass_time(self, now: datetime) -> None:
        """The robot was as it is, at this time."""
        self.now = now
        self._modes.append((now, self.robot.mode))

    def given(self, assign: Command) -> None:
        """From now on its deeds are of this mission."""
        assert assign.mission is not None and assign.dispatch_no is not None
        self._given, self.assigned_at = len(self.robot.deeds), self.now
        self._missions.append(((assign.mission, assign.dispatch_no), self._given))

    def deeds(self) -> list[Deed]:
        """Of the mission at hand."""
        return self.robot.deeds[self._given :]

    def deeds_of(self, word: Say) -> list[Deed] | None:
        """What the robot did for the mission that the word is about; None if it was never given that one."""
        if word.mission is None:
            return self.deeds()
        ends = [begin for _, begin in self._missions[1:]] + [len(self.robot.deeds)]
        for (mission, begin), end in zip(self._missions, ends, strict=True):
            if mission == (word.mission, word.dispatch_no):
                return self.robot.deeds[begin:end]
        return None

    def modes(self, since: datetime) -> set[str]:
        return {mode for at, mode in self._modes if at >= since}

    def wrong(self, word: Say) -> str:
        """What is wrong with it; empty when nothing is."""
        return self._odd(word) or self._id_changed(word) or self._untrue(word) or self._forgets(word)

    def _odd(self, word: Say) -> str:
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
        if word.occurred_at.utcoffset() is None or word.occurred_at > self.now + timedelta(seconds=1):
            return f"{word.type} occurs at {word.occurred_at}: not an aware time, or not yet"
        if (word.session is None) != (word.seq is None):
            return f"{word.type} has a session or a seq, and not both"
        return ""

    def _id_changed(self, word: Say) -> str:
        """The same word has the same id, after a restart as well; only robots that count for themselves give their own."""
        about = (word.type, word.mission, word.dispatch_no, word.step, word.attempt)
        other = self._by_id.setdefault(word.id, about)
        if other != about:
            return f"{word.type} has the id of {other[0]}"
        if word.session is not None or word.type in ONCE:
            first = self._ids.setdefault((word.session, word.seq) if word.session is not None else about, word.id)
            if first != word.id:
                return f"{word.type} (step {word.step}) was said under another id before: derive it from what it is read off"
        return ""

    def _untrue(self, word: Say) -> str:
        deeds = self.deeds_of(word)
        if deeds is None:
            return f"{word.type} is about mission {word.mission}, which the robot was never given"
        if word.type in _TRUE and not _TRUE[word.type](self, word, deeds):
            return f"{word.type}{f' {word.step}' if word.step else ''} is guessed: the robot did {in_words(deeds)}"
        return ""

    def _forgets(self, word: Say) -> str:
        """An answer that is idle and names no mission ends the one that the site has under way."""
        if word.type != "robot.state" or word.data.get("mode") != "idle" or not word.data.get("reply_to"):
            return ""
        if word.data.get("mission") or not self.site.under_way or any(d.kind in ENDS for d in self.deeds()):
            return ""
        return "robot.state, in reply, is idle and names no mission: so it is taken for forgotten, and the robot has it"


Fits = Callable[[Truth, Say, Sequence[Deed]], bool]


def in_words(deeds: Sequence[Deed]) -> str:
    return ", ".join(f"{d.kind} {d.step or ''}".strip() for d in deeds) or "nothing"


def _did(kind: Kind) -> Fits:
    return lambda truth, word, deeds: any(d.kind == kind for d in deeds)


def _did_step(kind: Kind) -> Fits:
    return lambda truth, word, deeds: Deed(kind, word.step or 0) in deeds


def _started(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    before = (word.step or 0) - 1
    return Deed("accepted") in deeds and (
        not before or before in truth.site.skipped or Deed("completed", before) in deeds
    )


def _all_done(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    steps = set(range(1, truth.steps + 1)) - truth.site.skipped
    return all(Deed("completed", number) in deeds for number in steps)


def _cancelled(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    """It ended it, or it has it no more, or never had it."""
    return Deed("cancelled") in deeds or Deed("lost") in deeds or not _did("accepted")(truth, word, deeds)


def _rejected(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    """It refused it, or was asked for long and did not take it."""
    tried_s = (truth.now - truth.assigned_at).total_seconds()
    return Deed("rejected") in deeds or (tried_s >= GIVE_UP_S and Deed("accepted") not in deeds)


def _paused(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    """It stands within its mission: halted, or (a brand that cannot be) without the order that it had for it."""
    return truth.robot.stands or Deed("paused") in deeds


def _resumed(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    return truth.robot.mode != "paused" or Deed("resumed") in deeds


def _stands(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    return truth.robot.stands


def _mode(truth: Truth, word: Say, deeds: Sequence[Deed]) -> bool:
    return word.data.get("mode") in truth.modes(truth.now - timedelta(seconds=OLD_S))


_TRUE: dict[str, Fits] = {
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
