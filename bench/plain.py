"""The baseline of the pipeline: the same receipts applied in plain Django, on tables like ours but without triggers.

No hash chain, no claims, no deadlines beyond one column, no gating, no outbox: what one would write in an afternoon.
`one` is a transaction per receipt; `many` is the best that `bulk_create` and `bulk_update` give for a batch.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models, transaction

from telemetry.protocol import Up, decode_up
from telemetry.stream import Entry


class PlainMission(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    robot_id = models.CharField(max_length=64)
    state = models.CharField(max_length=20, default="pending")
    version = models.PositiveIntegerField(default=0)
    current_step = models.PositiveSmallIntegerField(default=0)
    steps = models.PositiveSmallIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    next_due_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        app_label = "bench"


class PlainStep(models.Model):
    mission = models.ForeignKey(PlainMission, models.CASCADE)
    number = models.PositiveSmallIntegerField()
    outcome = models.CharField(max_length=20, default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "bench"
        constraints = [models.UniqueConstraint(fields=["mission", "number"], name="plain_step_once")]


class PlainEvent(models.Model):
    mission = models.UUIDField()
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=60)
    data = models.JSONField(default=dict)
    state_from = models.CharField(max_length=20)
    state_to = models.CharField(max_length=20)
    actor = models.CharField(max_length=80)
    cause = models.CharField(max_length=200)
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField()

    class Meta:
        app_label = "bench"
        constraints = [models.UniqueConstraint(fields=["mission", "seq"], name="plain_event_once")]


class PlainMessage(models.Model):
    robot_id = models.CharField(max_length=64)
    msg_id = models.UUIDField()

    class Meta:
        app_label = "bench"
        constraints = [models.UniqueConstraint(fields=["robot_id", "msg_id"], name="plain_message_once")]


MODELS = (PlainMission, PlainStep, PlainEvent, PlainMessage)


def create_tables() -> None:
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)


def _apply(
    mission: PlainMission, steps: dict[int, PlainStep], up: Up, entry: Entry, now: datetime
) -> tuple[list[PlainStep], list[PlainEvent]]:
    """Change the objects by one receipt; the steps touched and the events made."""
    touched: list[PlainStep] = []
    events: list[PlainEvent] = []

    def move(kind: str, state: str, **data: Any) -> None:
        mission.version += 1
        events.append(
            PlainEvent(
                mission=mission.pk,
                seq=mission.version,
                kind=kind,
                data=data,
                state_from=mission.state,
                state_to=state,
                actor=up.robot,
                cause=f"message:{up.msg_id}",
                occurred_at=up.occurred_at,
                recorded_at=now,
            )
        )
        mission.state = state

    if up.type == "mission.accepted" and mission.state == "pending":
        mission.started_at, mission.current_step = entry.received_at, 1
        move("mission.started", "executing")
    elif up.type == "mission.step_completed" and up.step == mission.current_step and mission.state == "executing":
        step = steps[mission.current_step]
        step.outcome, step.ended_at = "completed", entry.received_at
        touched.append(step)
        move("mission.step_completed", "step_completed", step=step.number)
        if mission.current_step < mission.steps:
            mission.current_step += 1
            move("mission.step_started", "executing", step=mission.current_step)
    elif up.type == "mission.finished" and mission.state == "step_completed":
        mission.ended_at = entry.received_at
        move("mission.succeeded", "success")
    mission.next_due_at = None if mission.ended_at else now + timedelta(seconds=60)
    return touched, events


_COLUMNS = ["state", "version", "current_step", "started_at", "ended_at", "next_due_at"]


def one(entry: Entry, now: datetime) -> None:
    """One receipt, one transaction."""
    up = decode_up(entry.raw)
    with transaction.atomic():
        _, fresh = PlainMessage.objects.get_or_create(robot_id=entry.robot_id, msg_id=entry.msg_id)
        if not fresh:
            return
        mission = PlainMission.objects.select_for_update().get(pk=up.mission)
        steps = {s.number: s for s in PlainStep.objects.filter(mission=mission, number=mission.current_step)}
        touched, events = _apply(mission, steps, up, entry, now)
        mission.save(update_fields=_COLUMNS)
        for step in touched:
            step.save(update_fields=["outcome", "ended_at"])
        for event in events:
            event.save(force_insert=True)


def many(entries: list[Entry], now: datetime) -> None:
    """A batch of receipts, one transaction, bulk statements."""
    ups = [(decode_up(entry.raw), entry) for entry in entries]
    with transaction.atomic():
        known = set(
            PlainMessage.objects.filter(msg_id__in=[e.msg_id for e in entries]).values_list("robot_id", "msg_id")
        )
        fresh = [(up, entry) for up, entry in ups if (entry.robot_id, entry.msg_id) not in known]
        found = PlainMission.objects.select_for_update().filter(pk__in={up.mission for up, _ in fresh}).order_by("pk")
        missions = {m.pk: m for m in found}
        steps: dict[uuid.UUID, dict[int, PlainStep]] = {pk: {} for pk in missions}
        for step in PlainStep.objects.filter(mission__in=list(missions)):
            steps[step.mission_id][step.number] = step
        touched: list[PlainStep] = []
        events: list[PlainEvent] = []
        for up, entry in fresh:
            assert up.mission
            more, made = _apply(missions[up.mission], steps[up.mission], up, entry, now)
            touched += more
            events += made
        PlainMessage.objects.bulk_create([PlainMessage(robot_id=e.robot_id, msg_id=e.msg_id) for _, e in fresh])
        PlainMission.objects.bulk_update(missions.values(), _COLUMNS)
        PlainStep.objects.bulk_update(touched, ["outcome", "ended_at"])
        PlainEvent.objects.bulk_create(events)
