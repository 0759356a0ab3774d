"""Rows of templates, and what they share with the missions that are made from them."""

import uuid

from django.db import models
from django.db.models import Q

from fleet.models import Site, no_nul, one_of


class Importance(models.TextChoices):
    """How much it matters that people hear of it; the order in the queue is `priority`."""

    NORMAL = "normal", "Normal"
    IMPORTANT = "important", "Important"


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
