"""What goes in and out of the API. Times are ISO 8601 in UTC; lengths in metres, angles in radians, speed in m/s."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field

from missions.command_types import MAX_TIMEOUT_S
from missions.plans import LEAST_PRIORITY, MOST_PRIORITY
from missions.step_policy import MAX_RETRIES

Seconds = Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S)]
Retries = Annotated[int, Field(ge=0, le=MAX_RETRIES)]
Course = Literal["abort", "skip"]


class Strict(Schema):
    """A body with a field that we do not know is refused: a typing error must not pass in silence."""

    model_config = ConfigDict(extra="forbid")


class StepIn(Strict):
    """What is left out is as usual for the command and the robot's brand."""

    command: str
    params: dict[str, Any] = {}
    timeout_s: Seconds | None = Field(None, description="For one try.")
    timeout_retries: Retries | None = Field(
        None, description="More tries after a timeout; only of what may be repeated."
    )
    timeout_then: Course | None = Field(None, description="After the last timeout; abort unless said.")
    failure_retries: Retries | None = Field(None, description="More tries after the robot says that it failed.")
    failure_then: Course | None = Field(None, description="After the last failure; abort unless said.")
    repeatable: bool | None = Field(None, description="May be tried again when nobody knows whether it was done.")
    confirm: bool | None = Field(
        None, description="Only the robot's own word says that it is done; always for pick and drop."
    )


class MissionIn(Strict):
    title: str
    site: int
    steps: list[StepIn]
    robot: str | None = Field(None, description="Robot id. Without one, Drover chooses and says why.")
    priority: Annotated[int, Field(ge=LEAST_PRIORITY, le=MOST_PRIORITY)] = 0
    importance: Literal["normal", "important"] = "normal"
    timeout_s: Seconds | None = Field(None, description="From acceptance; as the robot's brand says unless said.")
    offline_policy: Literal["", "wait", "abort", "hand_over"] = Field(
        "", description="When its robot stays offline; empty: as its brand says."
    )
    not_before: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    needs_approval: bool = False
    after: list[UUID] = Field([], description="Missions that must succeed first.")
    run: bool = Field(True, description="Run it as soon as it can; false leaves a draft.")


class Reason(Strict):
    reason: str = ""


class Seen(Strict):
    version: int | None = Field(None, description="The version that you saw; refused when it has changed since.")


class Rerun(Strict):
    unfinished: bool = Field(False, description="Only the steps that were not completed.")
    run: bool = True


class StepOut(Schema):
    number: int
    command: str
    params: dict[str, Any]
    timeout_s: int
    timeout_retries: int
    timeout_then: str
    failure_retries: int
    failure_then: str
    repeatable: bool
    confirm: bool
    attempt: int = Field(description="Which try it is at; 0 before the first.")
    outcome: str = Field(description="completed, failed, skipped, or empty while it has not ended.")
    inferred: bool = Field(description="Taken as done: nobody said so, but what came later proves it.")
    result: str
    started_at: datetime | None
    ended_at: datetime | None


class MissionOut(Schema):
    id: UUID
    version: int
    title: str
    site: int
    robot: str | None
    state: str
    says: str = Field(
        description="How it stands, in words. An abort that the robot never confirmed says so: it may still be moving."
    )
    priority: int
    importance: str
    waits_for: str = Field(description="Why it does not run, in words; empty when it runs or has ended.")
    steps_done: int
    steps_total: int
    current_step: int
    created_at: datetime
    created_by: str
    not_before: datetime | None
    expires_at: datetime | None
    needs_approval: bool
    approved_by: str
    queued_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    paused_at: datetime | None
    held_at: datetime | None = Field(description="Since when its clocks stand because its robot is stopped.")
    retry_at: datetime | None = Field(description="When its step is tried again; null when no try waits.")
    offline_policy: str
    ended_at: datetime | None
    abort_reason: str
    abort_detail: str
    stopping: bool
    stop_confirmed: bool | None = Field(
        description="Null: no stop was needed. False: it was aborted, and the robot never said that it stopped."
    )
    origin: UUID | None
    origin_kind: str


class MissionDetail(MissionOut):
    steps: list[StepOut]
    after: list[UUID]


class MissionPage(Schema):
    items: list[MissionOut]
    next: str | None = Field(description="Cursor of the next page; null at the end.")


class EventOut(Schema):
    seq: int
    kind: str
    text: str
    actor: str
    occurred_at: datetime
    recorded_at: datetime
    trace_id: str


class EventPage(Schema):
    items: list[EventOut]
    next: str | None


class HoldOut(Schema):
    number: int
    kind: str
    why: str
    by: str
    since: datetime
    until: datetime | None
    confirmed_at: datetime | None


class Live(Schema):
    received_at: datetime
    x: float | None
    y: float | None
    theta: float | None
    speed: float | None
    battery: float | None
    place: str
    carries: str = Field("", description="Its loads, in its own words; empty when it has none or tells none.")


class FaultOut(Schema):
    code: str
    text: str
    kind: str = Field(
        description="fault, safety (its own safety system holds it), or warning (it goes on all the same)"
    )
    danger: bool
    since: datetime


class RobotOut(Schema):
    id: str
    name: str
    site: int
    brand: str
    mode: str
    presence: str
    presence_since: datetime | None
    fault: str = Field(description="What keeps work from it, in words; empty when nothing does.")
    faults: list[FaultOut]
    address: str = Field(description="What it calls itself on the wire, where that is not its id.")
    can: list[str] = Field(description="Command types it can do, and custom:<name> where only these custom ones.")
    retired: bool
    mission: UUID | None
    holds: list[HoldOut]
    live: Live | None = Field(description="Last known values with their age; null when the robot told none.")


class RobotPage(Schema):
    items: list[RobotOut]
    next: str | None


class SiteOut(Schema):
    id: int
    name: str


class PlaceOut(Schema):
    name: str
    x: float
    y: float
    theta: float


class Stopped(Schema):
    robots: dict[str, str] = Field(description="Robot id → stopping, released, or why not.")
