"""What became of a schedule, held against what its robots noted: what is wrong, figures, and all that is known of it."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from django.utils import timezone

from fleet.models import Command, Event
from missions import invariants
from missions.models import DeadLetter, Direction, Mission
from telemetry.models import ProcessedMessage
from tests.chaos.world import World
from tests.model import oracle


class Life(NamedTuple):
    title: str
    story: oracle.Life
    end: oracle.End


@dataclass
class Judge:
    """`asked`: when, what, of which mission or robot. `planned`: the steps of each mission."""

    world: World
    missions: Sequence[UUID]
    planned: dict[UUID, list[oracle.Step]]
    asked: Sequence[tuple[float, str, str]] = ()

    def _notes(self) -> list[list]:
        """Of whole lines."""
        found = []
        for name in ("robots-ws", "robots-http"):
            path = self.world.folder / f"{name}.notes"
            for line in path.read_text().splitlines() if path.exists() else ():
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def missing(self) -> set[tuple[str, str]]:
        """What a robot was told is stored, and is neither applied nor a dead letter."""
        stored = {(robot, msg_id) for what, robot, msg_id, *_ in self._notes() if what == "stored"}
        rows = ProcessedMessage.objects.values_list("robot_id", "msg_id")
        letters = DeadLetter.objects.filter(direction=Direction.IN).values_list("robot_id", "msg_id")
        return stored - {(robot, str(msg_id)) for rows in (rows, letters) for robot, msg_id in rows}

    def wrong(self) -> list[str]:
        """What is not as it has to be."""
        wrong = [f"acknowledged and gone: {robot} {msg_id}" for robot, msg_id in self.missing()]
        wrong += invariants.check()
        wrong += _doubled(self.missions)
        wrong += self._finished_but_aborted()
        wrong += [f"{life.title}: {what}" for life in self._lives() for what in oracle.complaints(life.story, life.end)]
        wrong += [f"dead letter of {d.robot_id}: {d.kind} {d.reason}" for d in DeadLetter.objects.filter(
            direction=Direction.IN)]  # fmt: skip
        for name, child in self.world.children.items():
            if not child.runs:
                wrong.append(f"{name} has ended, see {child.log}")
        return wrong

    def figures(self) -> dict[str, int]:
        """How the missions ended, how many by a word that others had overtaken; messages acknowledged on this world so far."""
        ended = Counter(Mission.objects.filter(pk__in=self.missions).values_list("state", flat=True))
        overtaken = sum(life.story.until > life.end.ended_at for life in self._lives() if life.end.ended_at)
        acknowledged = sum(line[0] == "stored" for line in self._notes())
        return {**ended, "overtaken": overtaken, "acknowledged": acknowledged}

    def _finished_but_aborted(self) -> list[str]:
        """A robot's "finished" that was acknowledged decides, unless a person had ended the mission before."""
        notes = self._notes()
        stored = {msg_id for what, _, msg_id, *_ in notes if what == "stored"}
        finished = {
            line[4] for line in notes if line[0] == "said" and line[3] == "mission.finished" and line[2] in stored
        }
        aborted = Mission.objects.filter(pk__in=self.missions, state="aborted").exclude(abort_reason="operator")
        return [
            f"{mission.title} was finished by its robot and is aborted: {mission.abort_reason} {mission.abort_detail}"
            for mission in aborted
            if str(mission.pk) in finished
        ]

    def _lives(self) -> Iterator[Life]:
        """What was planned, said and asked about each mission that was dispatched, and what became of it."""
        rows = {str(row.msg_id): row for row in ProcessedMessage.objects.all()}
        words = [line for line in self._notes() if line[0] == "said" and line[2] in rows]
        for mission in Mission.objects.filter(pk__in=self.missions, dispatched_at__isnull=False):
            counted = _counted(mission, rows)
            said, late = [], []
            for line in words:
                if line[1] == mission.robot_id:
                    row = rows[line[2]]
                    word = _said(line, row.received_at.timestamp(), str(mission.pk))
                    (said if counted(row) else late).append(word)
            ended = mission.ended_at.timestamp() if mission.ended_at else time.time()
            asked = [
                oracle.Asked(at, what) for at, what, whose in self.asked if whose in (str(mission.pk), mission.robot_id)
            ]
            story = oracle.Life(
                steps=self.planned[mission.pk], mission_s=mission.timeout_s, asked=asked,
                until=max([ended, *(word.at for word in said)]), dispatched_at=mission.dispatched_at.timestamp(),
                said=sorted(said, key=_when), late=sorted(late, key=_when),
            )  # fmt: skip
            yield Life(mission.title, story, _end(mission))

    def evidence(self, wrong: list[str]) -> list[str]:
        """All that is known of the missions that `wrong` names, or whose robot it names: words, commands, events."""
        told = " ".join(wrong)
        mine = Mission.objects.filter(pk__in=self.missions)
        return [
            line
            for m in mine if m.title in told or str(m.pk) in told or f"'{m.robot_id}'" in told
            for line in (*self._words_about(m), *_commands_about(m), *_events_of(m))
        ]  # fmt: skip

    def _words_about(self, mission: Mission) -> Iterator[str]:
        rows = {str(row.msg_id): row for row in ProcessedMessage.objects.filter(robot_id=mission.robot_id)}
        began = mission.dispatched_at or timezone.now()
        yield f"--- {mission.title}, {mission.pk}: what {mission.robot_id} said, as it noted it"
        notes = self._notes()
        stored = {msg_id for what, _, msg_id, *_ in notes if what == "stored"}
        for _, robot, msg_id, *about in notes:
            row = rows.get(msg_id)
            if robot == mission.robot_id and about and (row is None or row.received_at >= began):
                came = (
                    f"{row.session}/{row.seq} {row.received_at:%T.%f} {row.verdict}, as {row.pk}"
                    if row
                    else "not applied"
                )
                yield f"{msg_id} {about}: {came}{', acknowledged' if msg_id in stored else ''}"


_when = attrgetter("at")


def _counted(mission: Mission, rows: dict[str, ProcessedMessage]) -> Callable[[ProcessedMessage], bool]:
    """Was a word applied before the mission ended? That decides what it knew, not when the word was received.

    What a worker was still handed after another had taken over is applied up to a second late: a mission whose last
    word that is ends at a time before the words that it had overtaken.
    """
    ends = ("mission.succeeded", "mission.aborted")
    end = Event.objects.filter(aggregate=f"mission:{mission.pk}", kind__in=ends).first()
    if end is None:
        return lambda row: True
    kind, _, msg_id = end.cause.partition(":")
    if kind == "message" and msg_id in rows:
        return lambda row: row.pk <= rows[msg_id].pk
    return lambda row: row.applied_at <= end.recorded_at


_WORDS = {f"mission.step_{what}": what for what in ("completed", "failed", "started")}


def _said(line: list, at: float, mission: str) -> oracle.Said:
    """A robot's note as a word about this mission; a state may be about none."""
    _, _, _, kind, about, step, attempt, data = line
    if kind == "robot.state":
        named = data.get("mission") == mission
        return oracle.Said(
            at, "state", mode=data.get("mode", ""), named=named, ended=data.get("ended") or "" if named else "",
            answers=bool(data.get("reply_to")), completed=tuple(data.get("completed") or ()),
        )  # fmt: skip
    dispatch_no = 1 if about == mission else None
    return oracle.Said(at, _WORDS.get(kind, kind.rpartition(".")[2]), dispatch_no, step or 0, attempt or 0)


def _end(mission: Mission) -> oracle.End:
    edges = (
        Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq").values_list("state_from", "state_to")
    )
    stop = mission.stop_requested_at
    return oracle.End(
        mission.state, mission.abort_reason, mission.stop_confirmed, stop.timestamp() if stop else None,
        mission.ended_at.timestamp() if mission.ended_at else None,
        [oracle.StepEnd(s.outcome, s.attempt, s.inferred) for s in mission.steps.order_by("number")],
        [(a, b) for a, b in edges if a and a != b], mission.next_due_at is not None,
    )  # fmt: skip


def _commands_about(mission: Mission) -> Iterator[str]:
    yield f"--- {mission.title}: commands"
    commands = Command.objects.filter(robot=mission.robot_id, created_at__gte=mission.created_at).order_by("created_at")
    for c in commands:
        times = (f"{at:%T.%f}" if at else "-" for at in (c.created_at, c.sent_at, c.delivered_at))
        yield f"{c.pk} {c.kind} {c.state} made, sent, delivered {' '.join(times)} {c.body}"


def _events_of(mission: Mission) -> Iterator[str]:
    yield f"--- {mission.title}: events"
    names = [f"mission:{mission.pk}", f"robot:{mission.robot_id}"]
    events = Event.objects.filter(aggregate__in=names, recorded_at__gte=mission.created_at).order_by("id")
    for e in events:
        yield f"{e.aggregate[:12]} {e.seq} {e.recorded_at:%T.%f} {e.kind} {e.state_from}>{e.state_to} {e.cause} {e.data}"


def _doubled(missions: list[UUID]) -> list[str]:
    """One event per edge: what happens once in a life is there once, each step completed once per attempt."""
    names = [f"mission:{pk}" for pk in missions]
    once = ("mission.started", "mission.succeeded", "mission.aborted", "mission.dispatched")
    counts = Counter(Event.objects.filter(aggregate__in=names, kind__in=once).values_list("aggregate", "kind"))
    wrong = [f"{n} times {kind} of {name}" for (name, kind), n in counts.items() if n > 1]
    steps: Counter[tuple[str, int]] = Counter()
    for name, data in Event.objects.filter(
        aggregate__in=names, kind="mission.step_completed").values_list("aggregate", "data"):  # fmt: skip
        steps[name, json.loads(data)["step"]] += 1
    return wrong + [f"step {step} of {name} completed {n} times" for (name, step), n in steps.items() if n > 1]
