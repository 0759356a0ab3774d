"""The row of a mission with its one-way machine, and what it waits for.

Transitions are pure: they set fields on `self` and touch nothing else.
"""

import uuid

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django_fsm import FSMField, transition

from fleet.models import OfflinePolicy, Robot, Site, no_nul, one_of
from missions.command_types import MAX_TIMEOUT_S
from missions.models.states import FINAL, OPEN, QUEUED, RUNNING, State
from missions.models.templates import Importance, Template


class AbortReason(models.TextChoices):
    SAFETY = "safety", "Safety"
    TIMEOUT = "timeout", "Timeout"
    OPERATOR = "operator", "Cancelled by a person"
    DEPENDENCY_FAILED = "dependency_failed", "A mission it depends on failed"
    ROBOT_FAULT = "robot_fault", "Robot fault"
    REJECTED = "rejected", "Rejected by the robot"
    UNDELIVERABLE = "undeliverable", "Could not be delivered"


class RetryFor(models.TextChoices):
    """Why a step is tried again."""

    TIMEOUT = "timeout", "Took too long"
    FAILURE = "failure", "Failed"


class OriginKind(models.TextChoices):
    """What a mission was made from; empty when somebody drew it up."""

    RERUN = "rerun", "Rerun"
    CLONE = "clone", "Clone"
    TEMPLATE = "template", "Template"
    HAND_OVER = "hand_over", "Hand-over"


class Mission(models.Model):
    """An ordered array of parameterised commands for one robot. Folded from the history `mission:<id>`.

    Every `*_due_at` is an absolute time and null when nothing is due; `next_due_at` is the earliest of them.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=200, validators=[no_nul])
    site = models.ForeignKey(Site, models.PROTECT, related_name="missions")
    robot = models.ForeignKey(Robot, models.PROTECT, related_name="missions", null=True)
    state = FSMField(max_length=20, choices=State.choices, default=State.PENDING, protected=True)
    version = models.PositiveIntegerField(default=0)
    priority = models.SmallIntegerField(default=0, help_text="Higher goes first.")
    timeout_s = models.PositiveIntegerField(
        "timeout (s)",
        default=600,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TIMEOUT_S)],
        help_text="From accepted to finished.",
    )
    importance = models.CharField(max_length=10, choices=Importance.choices, default=Importance.NORMAL)
    not_before = models.DateTimeField(null=True, help_text="It is not dispatched earlier.")
    expires_at = models.DateTimeField(null=True, help_text="Not started by then, it is aborted.")
    needs_approval = models.BooleanField(default=False)
    approved_by = models.CharField(max_length=200, default="")
    approved_at = models.DateTimeField(null=True)
    charger = models.CharField(max_length=200, default="", help_text="Place where it charges: one robot at a time.")
    origin = models.UUIDField(null=True, help_text="The mission that it was made from.")
    origin_kind = models.CharField(max_length=10, choices=OriginKind.choices, default="")
    offline_policy = models.CharField(
        max_length=10, choices=OfflinePolicy.choices, default="",
        help_text="When its robot stays offline. Empty: as its brand says.",
    )  # fmt: skip
    template = models.ForeignKey(Template, models.PROTECT, related_name="missions", null=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200, default="")
    queued_at = models.DateTimeField(null=True, help_text="When it was asked to run; it waits while not dispatched.")

    dispatch_no = models.PositiveIntegerField(default=0, help_text="Counts dispatches; commands and receipts carry it.")
    dispatched_at = models.DateTimeField(null=True)
    timings = models.JSONField(default=dict, help_text="Its robot's brand as it was at dispatch (missions/timings.py).")
    delivered_at = models.DateTimeField(null=True, help_text="When the robot acknowledged the assignment.")
    accept_tries = models.PositiveSmallIntegerField(default=0)
    untaken_looks = models.PositiveSmallIntegerField(
        default=0, help_text="How often it was found that the robot is online and does not take the assignment."
    )
    started_at = models.DateTimeField(null=True)
    current_step = models.PositiveSmallIntegerField(default=0, help_text="0 before the first.")
    ended_at = models.DateTimeField(null=True)

    paused_at = models.DateTimeField(null=True)
    held_at = models.DateTimeField(null=True, help_text="Since when its robot is stopped.")
    step_left_s = models.FloatField(null=True, help_text="Step time that was left when it was paused, s.")
    mission_left_s = models.FloatField(null=True)
    word_session = models.BigIntegerField(default=0, help_text="Session of the newest paused / resumed.")
    word_seq = models.BigIntegerField(default=0)

    abort_reason = models.CharField(max_length=20, choices=AbortReason.choices, default="")
    abort_detail = models.TextField(default="")
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.CharField(max_length=200, default="")
    stop_confirmed = models.BooleanField(null=True)

    retry_for = models.CharField(
        max_length=10, choices=RetryFor.choices, default="", help_text="Why its step is about to be tried again."
    )
    hand_over_at = models.DateTimeField(null=True, help_text="When it was decided that another robot goes on with it.")
    handed_over_to = models.UUIDField(null=True, help_text="The mission that goes on with it.")

    finish_claimed_at = models.DateTimeField(null=True, help_text="Finished receipt that came before its steps'.")
    robot_lost_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="When the robot was asked what became of it.")
    asked_for = models.CharField(max_length=20, default="", help_text="Which deadline asked.")

    queued_due_at = models.DateTimeField(null=True)
    expires_due_at = models.DateTimeField(null=True)
    undelivered_due_at = models.DateTimeField(null=True)
    accepted_due_at = models.DateTimeField(null=True)
    step_due_at = models.DateTimeField(null=True)
    finished_due_at = models.DateTimeField(null=True)
    mission_due_at = models.DateTimeField(null=True)
    answer_due_at = models.DateTimeField(null=True)
    stop_due_at = models.DateTimeField(null=True)
    robot_lost_due_at = models.DateTimeField(null=True)
    paused_due_at = models.DateTimeField(null=True)
    held_due_at = models.DateTimeField(null=True)
    retry_due_at = models.DateTimeField(null=True)
    gap_due_at = models.DateTimeField(null=True)
    next_due_at = models.DateTimeField(null=True)

    assign_sent = True  # set on reading for a change: False when the assignment has certainly not left

    class Meta:
        ordering = ["-created_at"]
        permissions = [
            ("dispatch_mission", "Can dispatch missions"),
            ("cancel_mission", "Can cancel missions"),
            ("pause_mission", "Can pause missions"),
            ("resume_mission", "Can resume missions"),
            ("approve_mission", "Can approve missions"),
        ]
        constraints = [
            one_of("state", State),
            one_of("abort_reason", AbortReason, blank=True),
            one_of("importance", Importance),
            one_of("origin_kind", OriginKind, blank=True),
            one_of("offline_policy", OfflinePolicy, blank=True),
            one_of("retry_for", RetryFor, blank=True),
            models.CheckConstraint(
                condition=~Q(state=State.ABORTED) | ~Q(abort_reason=""), name="mission_aborted_has_reason"
            ),
            models.CheckConstraint(
                condition=Q(state__in=FINAL, next_due_at=None)
                | Q(state__in=OPEN, dispatched_at=None)
                | Q(state__in=OPEN, dispatched_at__isnull=False, next_due_at__isnull=False),
                name="mission_dispatched_has_deadline",
            ),
            models.CheckConstraint(
                condition=Q(paused_at=None, held_at=None)
                | Q(step_due_at=None, mission_due_at=None, finished_due_at=None, retry_due_at=None, gap_due_at=None),
                name="mission_stands_still_while_suspended",
            ),
            models.CheckConstraint(
                condition=(Q(paused_due_at=None) | Q(paused_at__isnull=False))
                & (Q(held_due_at=None) | Q(held_at__isnull=False))
                & (Q(robot_lost_due_at=None) | Q(robot_lost_at__isnull=False)),
                name="mission_alerts_only_of_what_lasts",
            ),
            models.CheckConstraint(
                condition=Q(retry_for="", retry_due_at=None) | (~Q(retry_for="") & Q(state=State.EXECUTING)),
                name="mission_retries_while_executing",
            ),
            models.CheckConstraint(
                condition=Q(handed_over_to=None) | Q(hand_over_at__isnull=False, state=State.ABORTED),
                name="mission_handed_over_when_aborted",
            ),
            models.UniqueConstraint(
                fields=["robot"],
                condition=RUNNING,
                name="mission_one_dispatched_per_robot",
            ),
            models.CheckConstraint(
                condition=Q(dispatched_at=None) | Q(robot__isnull=False), name="mission_dispatched_has_robot"
            ),
            models.UniqueConstraint(
                fields=["site", "charger"],
                condition=RUNNING & ~Q(charger=""),
                name="mission_one_robot_per_charger",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.PENDING)
                | Q(queued_at=None)
                | Q(dispatched_at__isnull=False)
                | Q(next_due_at__isnull=False),
                name="mission_queued_has_deadline",
            ),
            models.CheckConstraint(
                condition=Q(needs_approval=False)
                | Q(approved_at__isnull=False)
                | Q(queued_at=None, dispatched_at=None),
                name="mission_approved_before_it_runs",
            ),
            models.CheckConstraint(
                condition=Q(not_before=None) | Q(expires_at=None) | Q(not_before__lt=F("expires_at")),
                name="mission_expires_after_it_may_start",
            ),
        ]
        indexes = [
            models.Index(fields=["next_due_at"], condition=Q(next_due_at__isnull=False), name="mission_due"),
            models.Index(fields=["state"], condition=Q(state__in=OPEN), name="mission_open"),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="mission_ended"),
            models.Index(
                fields=["hand_over_at"],
                condition=Q(hand_over_at__isnull=False, handed_over_to=None),
                name="mission_to_hand_over",
            ),
            models.Index(
                fields=["robot", "-priority", "queued_at"],
                condition=QUEUED,
                name="mission_queued",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @transition(field=state, source=State.PENDING, target=State.EXECUTING)
    def start(self) -> None:
        """Accepted receipt of this dispatch."""

    @transition(field=state, source=State.EXECUTING, target=State.STEP_COMPLETED)
    def complete_step(self) -> None:
        """Completed receipt for the current step."""

    @transition(field=state, source=State.STEP_COMPLETED, target=State.EXECUTING)
    def next_step(self) -> None:
        """Steps remain."""

    @transition(field=state, source=State.STEP_COMPLETED, target=State.SUCCESS)
    def succeed(self) -> None:
        """None remain, and the robot says finished."""

    @transition(field=state, source=list(OPEN), target=State.ABORTED)
    def abort(self) -> None:
        """It ends without success; `abort_reason` says why."""

    for _method in (start, complete_step, next_step, succeed, abort):
        _method.alters_data = True  # templates must not call them
    del _method


class Dependency(models.Model):
    """A mission that must succeed before another may start. `number` counts from 1."""

    mission = models.ForeignKey(  # no index of its own: the constraint's begins with it
        Mission, models.CASCADE, related_name="dependencies", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    on = models.ForeignKey(Mission, models.PROTECT, related_name="dependants")

    class Meta:
        verbose_name_plural = "dependencies"
        ordering = ["mission", "number"]
        constraints = [
            models.UniqueConstraint(fields=["mission", "number"], name="dependency_number_once_per_mission"),
            models.CheckConstraint(condition=Q(number__gte=1), name="dependency_number_from_1"),
            models.CheckConstraint(condition=~Q(mission=F("on")), name="dependency_on_another"),
        ]

    def __str__(self) -> str:
        return f"{self.mission_id} after {self.on_id}"
