"""Rows of missions, their steps and templates, and of dead letters.

Only `fleet.commit` writes Mission, Step, Dependency, Template and LetterDecision, driven by `missions.decide`.
"""

from missions.models.letters import REASON_GROUP, UNDECIDED, DeadLetter, Direction, LetterDecision, LetterState
from missions.models.mission import AbortReason, Dependency, Mission, OriginKind, RetryFor
from missions.models.states import FINAL, OPEN, OPEN_SQL, QUEUED, QUEUED_SQL, RUNNING, RUNNING_SQL, WAITING_SQL, State
from missions.models.steps import Outcome, Step, Then
from missions.models.templates import Importance, Template

__all__ = [
    "FINAL",
    "OPEN",
    "OPEN_SQL",
    "QUEUED",
    "QUEUED_SQL",
    "REASON_GROUP",
    "RUNNING",
    "RUNNING_SQL",
    "UNDECIDED",
    "WAITING_SQL",
    "AbortReason",
    "DeadLetter",
    "Dependency",
    "Direction",
    "Importance",
    "LetterDecision",
    "LetterState",
    "Mission",
    "OriginKind",
    "Outcome",
    "RetryFor",
    "State",
    "Step",
    "Template",
    "Then",
]
