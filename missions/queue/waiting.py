"""Why missions do not run, in words (I5): for one, or for a page full of them with as many queries."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.utils import timezone

from fleet.models import Hold
from missions.models import Mission, State
from missions.queue import reasons
from missions.queue.reasons import MissionFacts, RobotFacts
from missions.queue.standing import held_words, standing


def why_waiting(mission: Mission) -> str:
    """Why it does not run; empty when it runs or has ended."""
    return why_waiting_all([mission])[mission.pk]


def why_waiting_all(missions: Iterable[Mission]) -> dict[UUID, str]:
    """The same for many (give them with `select_related("robot")`). As many queries for one as for all."""
    rows, now = list(missions), timezone.now()
    waiting = [m for m in rows if m.state == State.PENDING and not m.dispatched_at]
    found = standing(waiting) if waiting else None
    words = dict.fromkeys((m.pk for m in rows), "")
    for row in rows:
        if found is not None and row.pk in found.missions:
            facts = found.missions[row.pk]
            words[row.pk] = reasons.why(facts, now, found.candidates(facts))
        elif row.state == State.PENDING:
            words[row.pk] = reasons.why(_dispatched(row), now)
    return words


def held(robot: Any, holds: list[Hold]) -> str:
    """Why a held robot does nothing new; empty when it is not held."""
    return f"{robot} is on hold. {held_words(holds)}. Release the hold first." if holds else ""


def _dispatched(row: Mission) -> MissionFacts:
    robot = row.robot and RobotFacts(row.robot.pk, str(row.robot), row.robot.site_id, presence=row.robot.presence)
    return MissionFacts(
        str(row.pk), row.title, row.site_id, robot=robot, dispatched=True, delivered=row.delivered_at is not None,
        stopping=row.stop_requested_at is not None,
    )  # fmt: skip
