"""Rows of the history, and of what the stream `out` has not seen of it yet."""

from django.db import models
from django.db.models import Q


class Event(models.Model):
    """One fact of the append-only history. Rows are inserted, never changed."""

    aggregate = models.CharField(
        max_length=80, help_text="mission:<uuid>, robot:<id>, person:<user id>, site:<id>, brand:<id>"
    )
    seq = models.PositiveIntegerField()
    site_id = models.BigIntegerField(
        null=True, help_text="Site that it was about when it happened. A help to find it, not part of what is hashed."
    )
    kind = models.CharField(max_length=60)
    schema = models.PositiveSmallIntegerField(default=1)
    data = models.TextField(help_text="JSON, as hashed.")
    state_from = models.CharField(max_length=20, default="", blank=True)
    state_to = models.CharField(max_length=20, default="", blank=True)
    actor_kind = models.CharField(max_length=20, help_text="user, robot, deadline, policy, system")
    actor_id = models.CharField(max_length=80, default="", blank=True)
    actor_name = models.CharField(max_length=200, default="", blank=True, help_text="Survives the actor.")
    cause = models.CharField(
        max_length=200, default="", blank=True, help_text="message:<msg_id>, request:<id>, deadline:<kind>"
    )
    trace_id = models.CharField(max_length=32, default="", blank=True)
    span_id = models.CharField(max_length=16, default="", blank=True)
    occurred_at = models.DateTimeField(help_text="When it happened, by the clock of who says so.")
    recorded_at = models.DateTimeField()
    prev_hash = models.BinaryField(max_length=32)
    hash = models.BinaryField(max_length=32)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["aggregate", "seq"], name="event_seq_once")]
        indexes = [  # for the audit; each costs every event about 3 µs, one by trace would cost 13
            models.Index(fields=["recorded_at", "id"], name="event_recorded"),
            models.Index(fields=["kind", "recorded_at"], name="event_kind"),
            models.Index(  # what people did: few among many
                fields=["actor_id", "recorded_at"], condition=Q(actor_kind__in=["user", "api"]), name="event_people"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.aggregate} #{self.seq} {self.kind}"


class Outbox(models.Model):
    """Committed events that the `out` stream has not seen yet; the relay deletes what it passed on."""

    event = models.OneToOneField(Event, models.DO_NOTHING, primary_key=True, db_constraint=False)

    class Meta:
        verbose_name_plural = "outbox"
