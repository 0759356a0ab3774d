"""Rows of missions: Mission with its one-way machine, Step, Dependency, Template, DeadLetter, LetterDecision.

Transitions are pure: they set fields on `self` and touch nothing else. Only `fleet.commit` writes the rows,
driven by `missions.decide`.
"""

import uuid

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Left
from django_fsm import FSMField, transition

from fleet.models import OfflinePolicy, Robot, Site, no_nul, one_of
from missions.command_types import MAX_TIMEOUT_S


class State(models.TextChoices):
    PENDING = "pending", "Pending"
    EXECUTING = "executing", "Executing"
    STEP_COMPLETED = "step_completed", "Step completed"
    SUCCESS = "success", "Success"
    ABORTED = "aborted", "Aborted"


FINAL = (State.SUCCESS, State.ABORTED)
OPEN = (State.PENDING, State.EXECUTING, State.STEP_COMPLETED)


RUNNING = Q(dispatched_at__isnull=False, state__in=OPEN)  # a robot has it, or is about to
QUEUED = Q(state=State.PENDING, queued_at__isnull=False, dispatched_at=None)
# the same as SQL over a row of that name, for statements that are written by hand
OPEN_SQL = "{0}.state IN (" + ", ".join(f"'{state}'" for state in OPEN) + ")"
RUNNING_SQL = "{0}.dispatched_at IS NOT NULL AND " + OPEN_SQL
QUEUED_SQL = "{0}.state = '" + str(State.PENDING) + "' AND {0}.queued_at IS NOT NULL AND {0}.dispatched_at IS NULL"


class AbortReason(models.TextChoices):
    SAFETY = "safety", "Safety"
    TIMEOUT = "timeout", "Timeout"
    OPERATOR = "operator", "Cancelled by a person"
    DEPENDENCY_FAILED = "dependency_failed", "A mission it depends on failed"
    ROBOT_FAULT = "robot_fault", "Robot fault"
    REJECTED = "rejected", "Rejected by the robot"
    UNDELIVERABLE = "undeliverable", "Could not be delivered"


class Outcome(models.TextChoices):
    """How a step ended; empty while it has not."""

    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    SKIPPED = "skipped", "Skipped"


class Then(models.TextChoices):
    """What becomes of a step, and of its mission, when it is not tried again."""

    ABORT = "abort", "Abort the mission"
    SKIP = "skip", "Skip the step and go on"


class RetryFor(models.TextChoices):
    """Why a step is tried again."""

    TIMEOUT = "timeout", "Took too long"
    FAILURE = "failure", "Failed"


class Importance(models.TextChoices):
    """How much it matters that people hear of it; the order in the queue is `priority`."""

    NORMAL = "normal", "Normal"
    IMPORTANT = "important", "Important"


class OriginKind(models.TextChoices):
    """What a mission was made from; empty when somebody drew it up."""

    RERUN = "rerun", "Rerun"
    CLONE = "clone", "Clone"
    TEMPLATE = "template", "Template"
    HAND_OVER = "hand_over", "Hand-over"


class Template(models.Model):
    """A mission to be drawn up again and again. Folded from the history `template:<id>`.

    `title` and the text parameters of `steps` may hold `{parameter}`; `parameters` lists each with `name`, `type`
    (place, text, number), `label` and `default`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200, validators=[no_nul])
    site = models.ForeignKey(Site, models.PROTECT, related_name="templates")
    title = models.CharField(max_length=200, validators=[no_nul])
    steps = models.JSONField(default=list)
    parameters = models.JSONField(default=list)
    priority = models.SmallIntegerField(default=0)
    importance = models.CharField(max_length=10, choices=Importance.choices, default=Importance.NORMAL)
    timeout_s = models.PositiveIntegerField("timeout (s)", default=600)
    needs_approval = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200, default="")
    retired_at = models.DateTimeField(null=True, help_text="Since when no mission is made from it any more.")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]
        constraints = [
            one_of("importance", Importance),
            models.UniqueConstraint(
                fields=["site", "name"], condition=Q(retired_at=None), name="template_name_once_per_site"
            ),
        ]

    def __str__(self) -> str:
        return self.name


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
