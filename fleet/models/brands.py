"""Rows of brands: what robots of a make and model have in common."""

from django.db import models
from django.db.models import F, Q

from fleet.models.columns import no_nul, one_of


class OfflinePolicy(models.TextChoices):
    """What becomes of a mission whose robot stays offline."""

    ABORT = "abort", "Abort the mission"
    WAIT = "wait", "Wait for the robot"
    HAND_OVER = "hand_over", "Hand over to another robot"


class Brand(models.Model):
    """Make and model: driver, capabilities, timings. Folded from the history `brand:<id>`."""

    name = models.CharField(max_length=200, unique=True, validators=[no_nul])
    driver = models.CharField(max_length=40, default="native")
    profile = models.JSONField(default=dict, blank=True, help_text="Settings of its driver that are not as usual.")
    capabilities = models.JSONField(default=list, help_text="Command types that these robots can do, as a list.")
    suspect_after_s = models.PositiveIntegerField("suspect after (s)", default=9)
    offline_after_s = models.PositiveIntegerField("offline after (s)", default=20)
    abandon_after_s = models.PositiveIntegerField(
        "abandon after (s)", default=120, help_text="A robot this long offline loses its mission."
    )
    accept_s = models.PositiveIntegerField(
        "accept within (s)",
        default=10,
        help_text="From delivery of an assignment to the robot's word; then it is sent again.",
    )
    accept_tries = models.PositiveSmallIntegerField(
        "accept tries", default=5, help_text="So often an assignment is sent before it is undeliverable."
    )
    undelivered_s = models.PositiveIntegerField(
        "undelivered after (s)", default=60, help_text="Until it is said that an assignment waits for the link."
    )
    finish_s = models.PositiveIntegerField(
        "finish within (s)", default=10, help_text="From the last step to the robot's word that it has finished."
    )
    answer_s = models.PositiveIntegerField(
        "answer within (s)", default=5, help_text="For the answer to a question about a mission."
    )
    stop_s = models.PositiveIntegerField(
        "stop within (s)",
        default=15,
        help_text="From asking to end a mission to the robot's word; then it is unconfirmed.",
    )
    paused_long_s = models.PositiveIntegerField(
        "long pause (s)", default=600, help_text="Until it is said, again and again, that a mission still waits."
    )
    step_timeouts = models.JSONField(
        "time per step (s)", default=dict, blank=True,
        help_text="Command type → seconds for one attempt, where these robots need other than the usual.",
    )  # fmt: skip
    mission_timeout_s = models.PositiveIntegerField(
        "time per mission (s)", default=600, help_text="From accepted to finished, when nobody says otherwise."
    )
    offline_policy = models.CharField(
        "when offline too long", max_length=10, choices=OfflinePolicy.choices, default=OfflinePolicy.ABORT
    )
    strict_sequence = models.BooleanField(
        "strict sequence", default=False,
        help_text="Its receipts come in the order of what they report, so that a later one proves the earlier.",
    )  # fmt: skip
    stops_after_silence_s = models.PositiveIntegerField(
        "stops after silence (s)", null=True, blank=True,
        help_text="These robots stop by themselves when they hear nothing this long. Empty: they go on.",
    )  # fmt: skip
    idle_cancel = models.BooleanField(
        "cancel when idle", default=True, help_text="Whether an idle robot may be told to end a mission."
    )
    charge_below_pct = models.PositiveSmallIntegerField(
        "charge below (%)", null=True, blank=True,
        help_text="An idle robot below this is sent to a free charger of its site. Empty: robots are never sent.",
    )  # fmt: skip
    charge_until_pct = models.PositiveSmallIntegerField(
        "charge until (%)", default=80, help_text="It charges to this before it takes other work."
    )
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(suspect_after_s__gt=0, offline_after_s__gte=F("suspect_after_s")),
                name="brand_suspect_before_offline",
            ),
            one_of("offline_policy", OfflinePolicy),
            models.CheckConstraint(
                condition=Q(
                    accept_s__gt=0,
                    accept_tries__gt=0,
                    undelivered_s__gt=0,
                    finish_s__gt=0,
                    answer_s__gt=0,
                    stop_s__gt=0,
                    paused_long_s__gt=0,
                    mission_timeout_s__gt=0,
                )
                & (Q(stops_after_silence_s=None) | Q(stops_after_silence_s__gt=0)),
                name="brand_times_are_positive",
            ),
            models.CheckConstraint(
                condition=Q(charge_until_pct__lte=100)
                & (Q(charge_below_pct=None) | Q(charge_below_pct__lt=F("charge_until_pct"))),
                name="brand_charge_below_until",
            ),
        ]

    def __str__(self) -> str:
        return self.name
