"""Rows of messages for robots: what waits to be sent, and how it went out."""

import uuid

from django.db import models
from django.db.models import Func, Q, Value

from fleet.models.columns import one_of
from fleet.models.robots import Robot


class CommandState(models.TextChoices):
    """What became of a command."""

    OPEN = "open", "To be sent"
    DELIVERED = "delivered", "Delivered"  # the robot acknowledged the msg_id
    WITHDRAWN = "withdrawn", "Withdrawn"  # no longer wanted
    DEAD = "dead", "Dead letter"


class Command(models.Model):
    """A message for a robot. `id` is its msg_id. Read by the process that owns the robot's link."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    order = models.BigIntegerField(
        db_default=Func(Value("fleet_command_order"), function="nextval"), help_text="Sending order: ascending."
    )
    robot = models.ForeignKey(Robot, models.PROTECT, related_name="commands")
    kind = models.CharField(max_length=40, help_text="mission.assign, robot.stop, …")
    mission = models.UUIDField(null=True)
    dispatch_no = models.PositiveIntegerField(null=True)
    body = models.TextField(help_text="The whole JSON message.")
    state = models.CharField(max_length=10, choices=CommandState.choices, default=CommandState.OPEN)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, help_text="Set by the link's owner before the first byte leaves.")
    delivered_at = models.DateTimeField(null=True)
    asker = models.TextField(
        default="", blank=True, help_text="Of a stop that was sent ahead of its hold: who asked, as JSON (`Origin`)."
    )

    class Meta:
        ordering = ["order"]
        constraints = [one_of("state", CommandState)]
        indexes = [
            models.Index(fields=["robot", "order"], condition=Q(state="open"), name="command_open"),
            models.Index(fields=["mission"], name="command_mission"),
            models.Index(fields=["created_at"], name="command_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.robot_id}"


class Delivery(models.Model):
    """How a command was sent: its transport tries, over which link. Outside the fold.

    Beside the command and without a foreign key in the database, so that writing it waits for nobody who changes the
    command. `tries` counts frames that left over a link that was up; written by the link's owner once a second.
    """

    command = models.OneToOneField(
        Command, models.CASCADE, primary_key=True, db_constraint=False, related_name="delivery"
    )
    tries = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    over = models.CharField(max_length=10, default="", help_text="WebSocket, HTTP")
    session = models.BigIntegerField(default=0)
    gateway = models.CharField(max_length=80, default="", help_text="Process that sent it last, host:pid.")
    error = models.TextField(default="", help_text="Why the last try could not leave; empty when it left.")

    class Meta:
        default_permissions = ()
        verbose_name_plural = "deliveries"
