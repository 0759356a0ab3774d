"""Rows of robots, their holds and their credentials."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from fleet.models.brands import Brand
from fleet.models.columns import no_nul, one_of
from fleet.models.sites import Site

ROBOT_ID = r"[A-Za-z0-9._-]{1,64}"
MAX_ADDRESS = 200  # characters


class Mode(models.TextChoices):
    """What the robot says it does."""

    UNKNOWN = "unknown", "Unknown"
    IDLE = "idle", "Idle"
    RUNNING = "running", "Running"
    CHARGING = "charging", "Charging"
    PAUSED = "paused", "Paused"
    FAULT = "fault", "Fault"
    MANUAL = "manual", "Manual"


class Presence(models.TextChoices):
    """What we know of the link."""

    UNKNOWN = "unknown", "Unknown"
    ONLINE = "online", "Online"
    SUSPECT = "suspect", "Suspect"
    OFFLINE = "offline", "Offline"


class Robot(models.Model):
    """One machine. Folded from the history `robot:<id>`."""

    id = models.CharField(
        primary_key=True,
        max_length=64,
        validators=[RegexValidator(f"^{ROBOT_ID}\\Z", "Use letters, digits, dot, dash and underscore, at most 64.")],
    )
    name = models.CharField(max_length=200, validators=[no_nul])
    site = models.ForeignKey(Site, models.PROTECT, related_name="robots")
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="robots")
    address = models.CharField(
        max_length=MAX_ADDRESS, default="", blank=True, validators=[no_nul],
        help_text="What it calls itself on the wire, where that is not its id.",
    )  # fmt: skip
    profile = models.JSONField(default=dict, blank=True, help_text="Settings of its driver, laid over its brand's.")
    capabilities = models.JSONField(null=True, help_text="What it says it can do, as a list. Null: what its brand can.")
    mode = models.CharField(max_length=20, choices=Mode.choices, default=Mode.UNKNOWN)
    mode_since = models.DateTimeField(null=True)
    presence = models.CharField(max_length=20, choices=Presence.choices, default=Presence.UNKNOWN)
    presence_since = models.DateTimeField(null=True)
    fault = models.TextField(default="", help_text="What the robot says is wrong, in words; empty when nothing is.")
    faults = models.JSONField(
        default=list, help_text="What is wrong, one by one, and what was (fleet/robots/faults.py)."
    )
    word_session = models.BigIntegerField(default=0, help_text="Session of the newest robot.state / fault / stopped.")
    word_seq = models.BigIntegerField(default=0)
    retired_at = models.DateTimeField(null=True)
    stop_due_at = models.DateTimeField(null=True, help_text="By then it should have said that it stands.")
    hold_due_at = models.DateTimeField(null=True, help_text="When the first of its holds ends by itself.")
    next_due_at = models.DateTimeField(null=True, help_text="The earliest of its deadlines (fleet/deadlines.py).")
    version = models.PositiveIntegerField(default=0)

    SAID_AS = {Presence.SUSPECT: "not heard of lately", Mode.MANUAL: "driven by hand"}  # in sentences, as everywhere

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["next_due_at"], condition=Q(next_due_at__isnull=False), name="robot_next_due"),
            models.Index(fields=["address"], condition=~Q(address=""), name="robot_address"),
        ]
        permissions = [
            ("stop_robot", "Can stop robots"),
            ("release_robot", "Can release a hold"),
            ("maintain_robot", "Can take robots out of service for a while"),
            ("retire_robot", "Can retire robots"),
            ("issue_credential", "Can issue and revoke robot credentials"),
        ]
        constraints = [
            one_of("mode", Mode),
            one_of("presence", Presence),
            models.CheckConstraint(condition=Q(id__regex=f"^{ROBOT_ID}$"), name="robot_id_form"),
        ]

    def __str__(self) -> str:
        return self.name or self.id


class HoldKind(models.TextChoices):
    """Why a robot is held."""

    STOPPED = "stopped", "Stopped"
    MAINTENANCE = "maintenance", "Maintenance"
    UNCONFIRMED = "unconfirmed", "Stop not confirmed"


class Hold(models.Model):
    """A reason why a robot gets no new work. Open while `released_at` is null."""

    robot = models.ForeignKey(Robot, models.PROTECT, related_name="holds")
    number = models.PositiveIntegerField(help_text="seq of the robot's event that opened it.")
    kind = models.CharField(max_length=20, choices=HoldKind.choices)
    why = models.TextField(default="")
    by = models.CharField(max_length=200, help_text="Name of who or what imposed it.")
    since = models.DateTimeField()
    until = models.DateTimeField(null=True)
    mission = models.UUIDField(null=True, help_text="The dispatch whose stop was never confirmed.")
    dispatch_no = models.PositiveIntegerField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="When a person last asked for this stop.")
    confirmed_at = models.DateTimeField(null=True, help_text="When the robot said that it stands.")
    unconfirmed_at = models.DateTimeField(null=True, help_text="When it had not said so in time.")
    question = models.UUIDField(null=True, help_text="msg_id of the query whose answer lifts this hold.")
    released_at = models.DateTimeField(null=True)
    released_by = models.CharField(max_length=200, default="")

    class Meta:
        ordering = ["robot", "number"]
        constraints = [
            models.UniqueConstraint(fields=["robot", "number"], name="hold_number_once_per_robot"),
            one_of("kind", HoldKind),
        ]
        indexes = [models.Index(fields=["robot"], condition=Q(released_at=None), name="hold_open")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} by {self.by}" + (f": {self.why}" if self.why else "")


class RobotCredential(models.Model):
    """A bearer token of one robot. Only its SHA-256 is kept; the token is shown once."""

    robot = models.ForeignKey(Robot, models.PROTECT, related_name="credentials")
    number = models.PositiveIntegerField(help_text="seq of the robot's event that issued it.")
    label = models.CharField(max_length=200, default="")
    digest = models.CharField(max_length=64, unique=True, null=True, help_text="SHA-256 of the token, in hex.")
    issued_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["robot", "number"]
        constraints = [models.UniqueConstraint(fields=["robot", "number"], name="credential_number_once_per_robot")]

    def __str__(self) -> str:
        return f"{self.robot_id} #{self.number} {self.label}"
