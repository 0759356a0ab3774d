"""The mission that a simulated robot is at, what it tells of it, and how those before it ended."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from telemetry.simulator.activities import ACTIVITIES, Activity
from telemetry.simulator.memory import ActivityMemory, WorkMemory

Dispatch = tuple[str, int]  # mission, dispatch_no


class Event(NamedTuple):
    """Something to tell the site: type, data, and the dispatch and step that it is about."""

    type: str
    data: dict[str, Any]
    mission: str | None = None
    dispatch_no: int | None = None
    step: int | None = None
    attempt: int | None = None
    traceparent: str = ""


@dataclass
class Work:
    """`number` counts steps from 1. Without an activity the step has failed, and the site has to decide."""

    key: Dispatch
    steps: list[dict[str, Any]]
    traceparent: str
    number: int = 0
    attempt: int = 1
    activity: Activity | None = None
    paused: bool = False
    failed: bool = False
    completed: list[int] = field(default_factory=list)

    def about(self, type: str, **data: Any) -> Event:
        """To tell of it, or of the step that it is at."""
        number, attempt = (self.number, self.attempt) if "step" in type else (None, None)
        mission, dispatch_no = self.key
        return Event(type, data, mission, dispatch_no, number, attempt, self.traceparent)

    def memory(self) -> WorkMemory:
        at = self.activity
        activity = ActivityMemory(at.params, at.arrived, at.left_s) if at else None
        return WorkMemory(
            *self.key, steps=self.steps, traceparent=self.traceparent, number=self.number, attempt=self.attempt,
            paused=self.paused, failed=self.failed, activity=activity, completed=self.completed,
        )  # fmt: skip

    @classmethod
    def of(cls, memory: WorkMemory) -> "Work":
        """As it was. ValueError when it cannot be gone on with."""
        commands = [step.get("command") for step in memory.steps]
        if memory.number > len(commands) or not ACTIVITIES.keys() >= set(commands):
            raise ValueError(f"mission {memory.mission} has no step {memory.number} that this robot can go on with")
        activity = None
        if memory.activity:
            activity = ACTIVITIES[str(commands[memory.number - 1])](memory.activity.params)
            activity.arrived, activity.left_s = memory.activity.arrived, memory.activity.left_s
        return cls(
            (memory.mission, memory.dispatch_no), memory.steps, memory.traceparent, memory.number, memory.attempt,
            activity, memory.paused, memory.failed, memory.completed,
        )  # fmt: skip


class Ending(NamedTuple):
    """How a dispatch ended, and the steps of it that were completed."""

    how: str
    completed: tuple[int, ...] = ()
