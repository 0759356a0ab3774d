"""Rows of the links to robots: sessions, applied watermarks, processed messages, partitions. Not part of the fold."""

from django.db import models

from fleet.models import MAX_ADDRESS, Robot
from telemetry.out import models as out  # noqa: F401  (those of the followers)


class Link(models.Model):
    """The newest link of a robot. A new hello takes the next session number; the older link is closed."""

    robot = models.OneToOneField(Robot, models.CASCADE, primary_key=True)
    session = models.BigIntegerField(default=0)
    gateway = models.CharField(
        max_length=80, default="", help_text="Process that holds it, host:pid. Empty: sent back."
    )
    opened_at = models.DateTimeField(null=True)
    forgotten_session = models.BigIntegerField(
        default=0, db_default=0, help_text="Of its sessions up to this one not even the watermarks are kept."
    )


class Watermark(models.Model):
    """Every critical message of this session up to `applied_seq` is applied or a dead letter.

    Rows of processed messages up to `forgotten_seq` (never above `applied_seq`) were deleted: all of them are known.
    """

    robot = models.ForeignKey(Robot, models.CASCADE)
    session = models.BigIntegerField()
    applied_seq = models.BigIntegerField(default=0)
    forgotten_seq = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["robot", "session"], name="watermark_once")]


class ProcessedMessage(models.Model):
    """(robot, msg_id) once: the truth about duplicates."""

    robot_id = models.CharField(max_length=64)
    msg_id = models.UUIDField()
    session = models.BigIntegerField(default=0)
    seq = models.BigIntegerField(default=0)
    verdict = models.CharField(max_length=20, help_text="applied, stale, dead")
    received_at = models.DateTimeField()
    applied_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["robot_id", "msg_id"], name="processed_once")]
        indexes = [models.Index(fields=["robot_id", "session", "seq"], name="processed_seq")]


class Irregularity(models.Model):
    """Messages of one robot and kind that were not applied as usual, counted. A row of each at most."""

    robot = models.ForeignKey(Robot, models.CASCADE, db_constraint=False)
    kind = models.CharField(max_length=60, help_text="Type of the message; other: one that we do not know.")
    verdict = models.CharField(max_length=20, help_text="duplicate, stale, late, dead")
    count = models.BigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        verbose_name_plural = "irregularities"
        constraints = [models.UniqueConstraint(fields=["robot", "kind", "verdict"], name="irregularity_once")]

    def __str__(self) -> str:
        return f"{self.count} {self.verdict} {self.kind} of {self.robot_id}"


class Partition(models.Model):
    """Who may commit what arrives on stream `in:<id>`. `fence` rises with every change of owner (database time)."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    owner = models.CharField(max_length=80, default="")
    fence = models.BigIntegerField(default=0)
    until = models.DateTimeField(null=True)
    last_entry = models.CharField(
        max_length=40, db_default="", help_text="The newest entry of the stream that was seen."
    )
    server = models.CharField(max_length=40, db_default="", help_text="Replication id of the Redis that held it.")


class WorkerProcess(models.Model):
    """A worker that lives while its database session does, and by database time until `until`.

    Partitions are shared out among these.
    """

    name = models.CharField(primary_key=True, max_length=80)
    started_at = models.DateTimeField()
    until = models.DateTimeField()
    backend = models.IntegerField(default=0, help_text="Process id of its session in PostgreSQL.")
    backend_start = models.DateTimeField(null=True)


class GatewayPartition(models.Model):
    """Which MQTT gateway has the robots of this partition (database time). As `Partition`, for another purpose."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    owner = models.CharField(max_length=80, default="")
    fence = models.BigIntegerField(default=0)
    until = models.DateTimeField(null=True)


class GatewayProcess(models.Model):
    """An MQTT gateway that lives, as `WorkerProcess`. `name` is its client id at the broker: one process may have it."""

    name = models.CharField(primary_key=True, max_length=80)
    process = models.CharField(max_length=120, db_default="", help_text="host:pid and a number of chance.")
    trouble = models.CharField(max_length=500, db_default="", help_text="Why it hears no robot; empty when it does.")
    shares = models.BooleanField(db_default=True, help_text="It gets robots: it hears them, or nobody does.")
    started_at = models.DateTimeField()
    until = models.DateTimeField()
    backend = models.IntegerField(default=0, help_text="Process id of its session in PostgreSQL.")
    backend_start = models.DateTimeField(null=True)


class FailedTry(models.Model):
    """How often applying one stream entry raised in application code; over the limit it becomes a dead letter."""

    partition = models.PositiveSmallIntegerField()
    entry = models.CharField(max_length=40, help_text="Stream entry id.")
    tries = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["partition", "entry"], name="failed_try_once")]


class Knock(models.Model):
    """Somebody who presented no good token, counted. Written by `telemetry.gateways.knocks`, in bounds."""

    WHY = {
        "none": "no token",
        "unknown": "a token that we do not know",
        "revoked": "a revoked token",
        "retired": "the token of a retired robot",
        "broker": "its messages, on the broker",
        "many": "many more names",
    }

    robot = models.CharField(
        max_length=MAX_ADDRESS, default="", help_text="What it calls itself, or whose token it showed."
    )
    why = models.CharField(max_length=10, choices=list(WHY.items()))
    over = models.CharField(max_length=10, help_text="WebSocket, HTTP, MQTT")
    driver = models.CharField(
        max_length=40, default="", help_text="Whose words it speaks, where its name is an address on the broker."
    )
    address = models.CharField(max_length=64, default="")
    count = models.BigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        verbose_name = "robot that knocked"
        verbose_name_plural = "robots that knocked"
        default_permissions = ("view",)
        ordering = ["-last_at"]
        constraints = [models.UniqueConstraint(fields=["robot", "why", "over", "address", "driver"], name="knock_once")]
        indexes = [models.Index(fields=["-last_at"], name="knock_newest")]

    def __str__(self) -> str:
        return f"{self.robot or 'somebody'} from {self.address}" if self.address else self.robot or "somebody"

    @property
    def showed(self) -> str:
        """What it presented, in words."""
        if self.driver and self.why == "retired":  # over the broker a name is all that it shows
            return f"{self.WHY['broker']}, as a retired robot"
        return self.WHY.get(self.why, self.why)
