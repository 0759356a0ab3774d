"""The steps of a mission as its page shows them: how each stands, at which try it is, and what was taken as done."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from fleet.wording import Said, said
from missions import step_policy
from missions.command_types import in_words
from missions.models import FINAL, Outcome
from missions.step_wording import tries_words, unusual_words

COMPLETED = said("done", "Completed", "ok")
INFERRED = said("done", "Taken as done", "ok")
FAILED = said("bad", "Failed", "bad")
SKIPPED = said("off", "Skipped", "off")
AGAIN = said("ring", "Waits to try again", "ok")
STANDS = said("paused", "Stands still", "ok")
UNDER_WAY = said("running", "Under way", "ok")


class StepRow(NamedTuple):
    """`more` adds to `said` in words, `until` is when the next try begins, `policy` what is unusual when it goes wrong."""

    step: Any
    words: str
    said: Said | None
    more: str
    until: datetime | None
    policy: str


def step_rows(mission: Any, steps: Sequence[Any]) -> list[StepRow]:
    """In their order."""
    return [_row(mission, steps, step) for step in steps]


def standing_still(mission: Any) -> list[tuple[str, datetime]]:
    """Why the times of a mission stand still, if they do, and since when."""
    if mission.state in FINAL or mission.stop_requested_at:
        return []
    waits = mission.step_left_s is not None or mission.mission_left_s is not None
    reasons = (
        ("its robot is stopped", mission.held_at),
        ("it waits for its robot, which is offline", mission.robot_lost_at if waits else None),
        ("it is paused", mission.paused_at),
    )
    return [(why, since) for why, since in reasons if since is not None]


def _row(mission: Any, steps: Sequence[Any], step: Any) -> StepRow:
    policy = step_policy.of(step)
    found, more, until = _stands(mission, steps, step)
    early = f"{step.claimed}, said early" if step.claimed else ""
    return StepRow(
        step, in_words(step.command, step.params), found, ", ".join(p for p in (more, early) if p), until,
        unusual_words(policy),
    )  # fmt: skip


def _stands(mission: Any, steps: Sequence[Any], step: Any) -> tuple[Said | None, str, datetime | None]:
    if step.outcome == Outcome.COMPLETED:
        return (INFERRED, _proof(mission, steps, step), None) if step.inferred else (COMPLETED, "", None)
    if step.outcome:
        return {Outcome.FAILED: FAILED, Outcome.SKIPPED: SKIPPED}[Outcome(step.outcome)], "", None
    if mission.state in FINAL:
        return None, "not finished" if step.started_at else "not begun", None
    if not step.started_at:
        return None, "", None
    tries = tries_words(step, mission.retry_for)
    if mission.retry_for:
        return AGAIN, tries, mission.retry_due_at
    if still := standing_still(mission):
        return STANDS, ", ".join([still[0][0], *([tries] if tries else [])]), None
    return UNDER_WAY, tries, None


def _proof(mission: Any, steps: Sequence[Any], step: Any) -> str:
    """What came later that proves it: the robot's own word about a step that follows, or that it has finished."""
    later = (s.number for s in steps if s.number > step.number and (s.claimed or (s.outcome and not s.inferred)))
    number = next(later, None)
    return f"the robot went on to step {number}" if number else "the robot says that it has finished"
