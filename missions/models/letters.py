"""Rows of dead letters, and of what people decided about them."""

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Left

from fleet.models import Site, one_of


class Direction(models.TextChoices):
    """Which way a message was going."""

    IN = "in", "From a robot"
    OUT = "out", "To a robot"
    HOOK = "web", "To a webhook"


class LetterState(models.TextChoices):
    """What became of a dead letter."""

    OPEN = "open", "Open"
    REQUEUED = "requeued", "Requeued"
    APPLIED = "applied", "Applied"
    FAILED = "failed", "Failed again"
    DISCARDED = "discarded", "Discarded"


UNDECIDED = (LetterState.OPEN, LetterState.FAILED)  # wait for a person
REASON_GROUP = 120


class DeadLetter(models.Model):
    """An event or command that could not be applied or delivered after all its tries.

    Outside the fold, like delivery records; what people decided about it is (`LetterDecision`).
    """

    direction = models.CharField(max_length=3, choices=Direction.choices)
    robot_id = models.CharField(max_length=64, help_text="As text: the robot may be unknown.")
    msg_id = models.UUIDField()
    kind = models.CharField(max_length=60, default="")
    body = models.TextField(help_text="The message as it was received or to be sent.")
    reason = models.TextField()
    reason_group = models.GeneratedField(
        expression=Left(
            Func(F("reason"), Value("[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9]+"), Value("#"), Value("g"), function="regexp_replace"),
            REASON_GROUP,
        ),
        output_field=models.CharField(max_length=REASON_GROUP),
        db_persist=True,
        help_text="The reason without its numbers and ids: what is alike is listed together.",
    )  # fmt: skip
    tries = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=LetterState.choices, default=LetterState.OPEN, db_default="open")
    result = models.TextField(default="", db_default="", help_text="What became of it when it was requeued.")
    settled_at = models.DateTimeField(null=True, help_text="When that was.")
    stored_at = models.DateTimeField(null=True, help_text="When it was last put into its partition's stream.")
    requeued_at = models.DateTimeField(null=True)
    requeued_by = models.CharField(max_length=200, default="", db_default="")
    discarded_at = models.DateTimeField(null=True)
    discarded_by = models.CharField(max_length=200, default="", db_default="")
    discarded_why = models.TextField(default="", db_default="")

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)
        permissions = [
            ("requeue_deadletter", "Can requeue dead letters"),
            ("discard_deadletter", "Can discard dead letters"),
        ]
        constraints = [
            one_of("direction", Direction),
            one_of("state", LetterState),
            models.UniqueConstraint(fields=["direction", "robot_id", "msg_id"], name="dead_letter_once"),
        ]
        indexes = [
            models.Index(fields=["robot_id"], condition=Q(state__in=UNDECIDED), name="dead_letter_undecided"),
            models.Index(fields=["id"], condition=Q(state=LetterState.REQUEUED), name="dead_letter_requeued"),
        ]

    def __str__(self) -> str:
        """A name for it in lists and reports."""
        kind = self.kind or "message"
        if self.direction == Direction.HOOK:
            return f"{kind} to a webhook" + (f", about {self.robot_id}" if self.robot_id else "")
        return f"{kind} {'from' if self.direction == Direction.IN else 'to'} {self.robot_id}"


class LetterDecision(models.Model):
    """What people decided about a dead letter, and which one it was: it outlives the letter. Folded from `letter:<id>`."""

    id = models.BigIntegerField(primary_key=True, help_text="Of the dead letter.")
    site = models.ForeignKey(Site, models.PROTECT, related_name="+", null=True)
    direction = models.CharField(max_length=3, choices=Direction.choices)
    robot_id = models.CharField(max_length=64)
    msg_id = models.UUIDField()
    what = models.CharField(max_length=60, default="", help_text="Kind of the message.")
    requeues = models.PositiveIntegerField(default=0)
    requeued_at = models.DateTimeField(null=True)
    requeued_by = models.CharField(max_length=200, default="")
    discarded_at = models.DateTimeField(null=True)
    discarded_by = models.CharField(max_length=200, default="")
    discarded_why = models.TextField(default="")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.what or 'message'} of {self.robot_id}"
