"""After a start or an outage each robot with an open mission is asked once how it stands, before its deadlines count.

A robot repeats what it kept before it answers, so with its answer everything that it said meanwhile is applied. One that
does not answer within `ANSWER_S`, or is offline, is not waited for.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from fleet.history import Origin
from fleet.models import Command, CommandState, Presence
from fleet.robots.commands import command
from missions.ledger import Ledger
from missions.models import OPEN, Mission
from telemetry.partitions import hold
from telemetry.stream import partition_of

ANSWER_S = 5.0
AT_ONCE = 50  # robots per transaction: nothing else waits long for their rows
QUERY = "robot.query_state"


class Inquiry:
    """What was asked, and who still owes an answer. Kept in memory: whoever takes over asks anew."""

    def __init__(self) -> None:
        self._begun: dict[int, float] = {}  # partition → the opening that it was begun for
        self._owed: dict[str, tuple[UUID, float]] = {}  # robot → question, and the tick until it is waited for

    def step(self, now: datetime, tick: float, fences: dict[int, int], open_from: dict[int, float]) -> bool:
        """Ask in those of the (open) partitions that opened since. Says whether anybody was asked."""
        self._owed = {robot: owed for robot, owed in self._owed.items() if owed[1] > tick}
        opened = {p for p in fences if self._begun.get(p) != open_from[p]}
        if not opened:
            return False
        robots: dict[int, list[str]] = {}
        for robot in _busy():
            if (p := partition_of(robot)) in opened:
                robots.setdefault(p, []).append(robot)
        for p in sorted(opened):
            mine = robots.get(p, [])
            for some in (mine[i : i + AT_ONCE] for i in range(0, len(mine), AT_ONCE)):
                questions = _ask(p, fences[p], some, now)
                self._owed |= {robot: (question, tick + ANSWER_S) for robot, question in questions.items()}
            self._begun[p] = open_from[p]
        return bool(robots)

    def answered(self, questions: Iterable[UUID]) -> None:
        """These questions were answered, and all that came before the answers is applied."""
        done = set(questions)
        if done:
            self._owed = {robot: owed for robot, owed in self._owed.items() if owed[0] not in done}

    def waits_for(self, robot_id: str | None, tick: float) -> bool:
        """May this robot still say something that it has kept?"""
        owed = self._owed.get(robot_id or "")
        return owed is not None and tick < owed[1]


def _busy() -> list[str]:
    """Robots with an open mission that somebody could ask."""
    running = Mission.objects.filter(dispatched_at__isnull=False, state__in=OPEN, robot__isnull=False)
    asked = running.exclude(robot__presence=Presence.OFFLINE).order_by("robot_id")
    return list(asked.values_list("robot_id", flat=True))


def _ask(partition: int, fence: int, robots: list[str], now: datetime) -> dict[str, UUID]:
    """Robot → the question it is asked. One that still waits to be sent is asked no second time."""
    with transaction.atomic():
        hold(partition, fence)
        ledger = Ledger.open(robots, now=now)
        waiting = Command.objects.filter(kind=QUERY, state=CommandState.OPEN, mission__in=ledger.running.values())
        questions: dict[str, UUID] = dict(waiting.values_list("robot_id", "pk"))
        for robot in ledger.running.keys() - questions.keys():
            change = ledger.missions[ledger.running[robot]]
            change.now, change.origin = now, Origin("policy", "inquiry", "inquiry", "inquiry:after an outage")
            question = command(change, QUERY, robot, dispatch_no=change.row.dispatch_no, msg_id=uuid4())
            change.commands.append(question)
            questions[robot] = question.pk
        ledger.commit()
    return questions
