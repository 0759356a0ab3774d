"""Rows of those who follow events: how far each group is, what it counted, what is to be sent where."""

from django.db import models
from django.db.models import Q

from fleet.models import Site, no_nul, one_of


class Follower(models.Model):
    """A group that follows the events. Everything up to `position` has had its effect; both move in one transaction."""

    name = models.CharField(primary_key=True, max_length=20)
    position = models.BigIntegerField(default=0, help_text="Id of the last event that this group is done with.")
    moved_at = models.DateTimeField(null=True)


class Tally(models.Model):
    """How often something happened to missions in one hour. Counted from events by the group `statistics`."""

    hour = models.DateTimeField(help_text="Its beginning, UTC.")
    site = models.ForeignKey(Site, models.PROTECT, related_name="+")
    brand_id = models.BigIntegerField(default=0, help_text="Of the robot at that time; 0: it had no robot.")
    what = models.CharField(max_length=20, help_text="ended, timeout, retry, step")
    detail = models.CharField(max_length=60, help_text="Which end and why, which timeout, …")
    command = models.CharField(max_length=40, default="", help_text="Command type of the step, if it is about one.")
    n = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = "statistics"
        verbose_name_plural = "statistics"
        default_permissions = ("view",)
        ordering = ["-hour"]
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "site", "brand_id", "what", "detail", "command"], name="tally_once_per_hour"
            )
        ]

    def __str__(self) -> str:
        return f"{self.what} {self.detail} {self.hour:%Y-%m-%d %H} h"


class Webhook(models.Model):
    """An address that is told of events of a site. Folded from the history `webhook:<id>`, but for its secret."""

    name = models.CharField(max_length=200, validators=[no_nul])
    url = models.CharField(max_length=500, validators=[no_nul])
    site = models.ForeignKey(Site, models.PROTECT, related_name="webhooks", null=True)
    kinds = models.JSONField(default=list, help_text="Event kinds; mission.* means all of missions, * everything.")
    enabled = models.BooleanField(default=True)
    since = models.DateTimeField(null=True, help_text="Events recorded before are not for it.")
    created_by = models.CharField(max_length=200, default="")
    secret = models.CharField(max_length=100, default="", help_text="Signs what is sent. Not part of the history.")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class WebhookLane(models.Model):
    """How the receiver of a webhook does: outside the history, like all delivery records."""

    webhook = models.OneToOneField(Webhook, models.CASCADE, primary_key=True, related_name="lane")
    failures = models.PositiveIntegerField(default=0, help_text="In a row, of the receiver itself.")
    failing_since = models.DateTimeField(null=True)
    rests_until = models.DateTimeField(null=True, help_text="Nothing is tried before.")
    delivered_at = models.DateTimeField(null=True)


class SendState(models.TextChoices):
    """What became of an event for a webhook."""

    OPEN = "open", "Waiting"
    DELIVERED = "delivered", "Delivered"
    DEAD = "dead", "Given up"
    DROPPED = "dropped", "Not wanted any more"


class Sending(models.Model):
    """One event for one webhook. `event_id` null: a test."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="sendings")
    event_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=60)
    aggregate = models.CharField(max_length=80, default="", help_text="What it is about: sent in order.")
    state = models.CharField(max_length=10, choices=SendState.choices, default=SendState.OPEN)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(help_text="Not tried before.")
    give_up_at = models.DateTimeField(help_text="Then it becomes a dead letter.")
    tries = models.PositiveSmallIntegerField(default=0)
    tried_at = models.DateTimeField(null=True)
    took_ms = models.PositiveIntegerField(null=True)
    status = models.PositiveSmallIntegerField(null=True, help_text="Of HTTP; empty when none came.")
    answer = models.TextField(default="", help_text="Beginning of the answer, or why there was none.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            one_of("state", SendState),
            models.UniqueConstraint(fields=["webhook", "event_id"], name="sending_once"),
        ]
        indexes = [
            models.Index(fields=["webhook", "event_id"], condition=Q(state="open"), name="sending_open"),
            models.Index(
                fields=["webhook", "aggregate", "event_id"], condition=Q(state="open"), name="sending_in_order"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.webhook}"
