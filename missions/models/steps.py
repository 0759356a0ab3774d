"""The rows of a mission's steps."""

from django.db import models
from django.db.models import Q

from fleet.models import one_of
from missions.models.mission import Mission


class Outcome(models.TextChoices):
    """How a step ended; empty while it has not."""

    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    SKIPPED = "skipped", "Skipped"


class Then(models.TextChoices):
    """What becomes of a step, and of its mission, when it is not tried again."""

    ABORT = "abort", "Abort the mission"
    SKIP = "skip", "Skip the step and go on"


class Step(models.Model):
    """One command of a mission. `number` counts from 1."""

    mission = models.ForeignKey(  # no index of its own: the constraint's begins with it
        Mission, models.CASCADE, related_name="steps", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    command = models.CharField(max_length=40, help_text="Command type: navigate, pick, …")
    params = models.JSONField(default=dict)
    timeout_s = models.PositiveIntegerField(default=60)
    repeatable = models.BooleanField(
        default=False, help_text="May be tried again when nobody knows whether it was done."
    )
    confirm = models.BooleanField(default=True, help_text="Only the robot's own word says that it was done.")
    timeout_retries = models.PositiveSmallIntegerField(default=0, help_text="Tries again after a timeout.")
    failure_retries = models.PositiveSmallIntegerField(default=0, help_text="Tries again after a failure.")
    timeout_then = models.CharField(max_length=10, choices=Then.choices, default=Then.ABORT)
    failure_then = models.CharField(max_length=10, choices=Then.choices, default=Then.ABORT)
    attempt = models.PositiveSmallIntegerField(default=0, help_text="0 before the first.")
    failed_attempts = models.PositiveSmallIntegerField(default=0, help_text="Those that failed and were tried again.")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, choices=Outcome.choices, default="")
    claimed = models.CharField(
        max_length=20, choices=Outcome.choices, default="", help_text="Receipt that came before its turn."
    )
    result = models.TextField(default="", help_text="What the robot said about it.")
    inferred = models.BooleanField(default=False, help_text="Nobody said that it was done: what came later says so.")

    class Meta:
        ordering = ["mission", "number"]
        constraints = [
            models.UniqueConstraint(fields=["mission", "number"], name="step_number_once_per_mission"),
            models.CheckConstraint(condition=Q(number__gte=1), name="step_number_from_1"),
            one_of("outcome", Outcome, blank=True),
            one_of("claimed", Outcome, blank=True),
            one_of("timeout_then", Then),
            one_of("failure_then", Then),
            models.CheckConstraint(
                condition=Q(inferred=False) | Q(outcome=Outcome.COMPLETED), name="step_inferred_is_done"
            ),
            models.CheckConstraint(
                condition=Q(inferred=False) | Q(confirm=False), name="step_to_confirm_is_never_inferred"
            ),
            models.CheckConstraint(
                condition=Q(attempt__gte=1) | Q(failed_attempts=0), name="step_failed_attempts_are_attempts"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number}. {self.command}"
