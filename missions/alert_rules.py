"""Alerts that missions raise: their lines of the table in fleet/alerts/rules.py."""

from collections import Counter
from datetime import datetime
from typing import Any

from fleet.alerts.actions import raise_alert
from fleet.alerts.rules import rule
from fleet.history import Change
from fleet.models import Robot, Severity
from missions.models import AbortReason, Importance
from missions.wording import ending

DEAD_LETTER = "dead_letter:robot:"  # and the id: cause of the alert about a robot's dead letters
# ended by a person's wish, or by the end of another mission, which has an alert of its own
QUIET = {AbortReason.OPERATOR, AbortReason.DEPENDENCY_FAILED}


def important(change: Change) -> bool:
    return bool(change.row.importance == Importance.IMPORTANT)


def _by_importance(change: Change) -> Severity:
    return Severity.CRITICAL if important(change) else Severity.WARNING


def _unwanted(change: Change, data: dict[str, Any]) -> bool:
    return change.row.abort_reason not in QUIET or important(change)


_ENDED = ("mission.succeeded", "mission.aborted")


def _aborted(change: Change) -> str:
    return f"“{{title}}” was {ending(change.row).lower()}: {{abort_reason}} ({{abort_detail}})"


rule(
    "aborted", _by_importance, _aborted, "mission.aborted",
    when=_unwanted, urgent=important,
)  # fmt: skip
rule(
    "undelivered", Severity.WARNING, "“{title}” waits for {robot_id}, which does not take it: the link is down",
    "mission.undelivered", ("mission.delivered", "mission.started", "mission.aborted"), urgent=important,
)  # fmt: skip
rule(
    "robot_lost", Severity.WARNING, "{robot_id} went offline with “{title}”", "mission.robot_lost",
    ("mission.robot_back", *_ENDED), urgent=important,
)  # fmt: skip
rule(
    "hand_over", Severity.WARNING, "“{title}” could be handed over from {robot_id}, which is offline; {why}",
    "mission.hand_over_proposed", ("mission.robot_back", "mission.hand_over_decided", *_ENDED), urgent=important,
)  # fmt: skip
rule(
    "held_long", Severity.WARNING, "“{title}” waits: {robot_id} is still stopped", "mission.held_long",
    ("mission.released", *_ENDED), urgent=important,
)  # fmt: skip
rule(
    "paused_long", Severity.WARNING, "“{title}” on {robot_id} is paused for long", "mission.paused_long",
    ("mission.resumed", *_ENDED), urgent=important,
)  # fmt: skip
rule(
    "waits_long", Severity.WARNING, "“{title}” still waits: {because}", "mission.waits_long",
    ("mission.dispatched", "mission.withdrawn", "mission.edited", *_ENDED), urgent=important,
)  # fmt: skip


def buried(letters: list[tuple[str, str, str]], now: datetime) -> None:
    """Messages became dead letters (robot, kind, why): one alert per robot, which counts, in the same transaction."""
    robots = dict(Robot.objects.filter(pk__in={robot for robot, _, _ in letters}).values_list("pk", "site_id"))
    counts = Counter(robot for robot, _, _ in letters)
    for robot, kind, why in sorted(letters):
        if times := counts.pop(robot, 0):
            raise_alert(
                f"{DEAD_LETTER}{robot}", severity=Severity.WARNING, subject=f"robot:{robot}", robot=robot,
                site=robots.get(robot), lasts=False, times=times, now=now,
                text=f"Dead letter of {robot}: {kind or 'a message'} could not be applied or delivered: {why}",
            )  # fmt: skip
