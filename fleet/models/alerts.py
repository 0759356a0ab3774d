"""Rows of alerts, of the e-mail about them, and of silences."""

from django.db import models
from django.db.models import Q

from fleet.models.columns import one_of
from fleet.models.sites import Site


class Severity(models.TextChoices):
    """How much an alert matters."""

    INFO = "info", "Info"
    WARNING = "warning", "Warning"
    CRITICAL = "critical", "Critical"


class Alert(models.Model):
    """Something that needs a person, open until its condition or a person clears it. Folded from `alert:<id>`."""

    id = models.BigAutoField(primary_key=True)
    cause = models.CharField(max_length=160, help_text="<name>:<subject>; at most one open alert has it.")
    severity = models.CharField(max_length=10, choices=Severity.choices)
    subject = models.CharField(max_length=80, help_text="robot:<id>, mission:<uuid>, site:<id> or system")
    robot_id = models.CharField(max_length=64, default="", help_text="The robot that it concerns, if any.")
    site = models.ForeignKey(Site, models.PROTECT, related_name="alerts", null=True)
    text = models.TextField()
    lasts = models.BooleanField(help_text="Its condition clears it. Otherwise acknowledging does.")
    urgent = models.BooleanField(default=False, help_text="E-mailed at once, whatever its severity.")
    opened_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=200, default="")
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.CharField(max_length=200, default="", help_text="Empty when its condition is gone.")
    cleared_why = models.TextField(default="")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("acknowledge_alert", "Can acknowledge and clear alerts"),
            ("silence_alert", "Can silence alerts of a site or robot"),
        ]
        constraints = [
            one_of("severity", Severity),
            models.UniqueConstraint(fields=["cause"], condition=Q(cleared_at=None), name="alert_one_open_per_cause"),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(cleared_at=None), name="alert_open")]

    def __str__(self) -> str:
        return self.text[:120]


class AlertTally(models.Model):
    """How often an alert was raised while it was open, and whether e-mail about it is arranged. Outside the fold, like
    delivery records: an event for each repetition would bury the history."""

    alert = models.OneToOneField(Alert, models.PROTECT, primary_key=True, related_name="tally")
    cause = models.CharField(max_length=160)
    open = models.BooleanField(default=True)
    count = models.PositiveIntegerField(default=1)
    last_at = models.DateTimeField()
    mail_opened = models.BooleanField(default=False, help_text="E-mail about its opening is arranged, or not needed.")
    mail_cleared = models.BooleanField(default=False, help_text="The same for its end.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cause"], condition=Q(open=True), name="tally_one_open_per_cause")
        ]
        indexes = [
            models.Index(fields=["alert"], condition=Q(mail_opened=False) | Q(mail_cleared=False), name="tally_to_mail")
        ]


class News(models.TextChoices):
    OPENED = "opened", "Opened"
    CLEARED = "cleared", "Cleared"


class AlertMail(models.Model):
    """One alert's news for one address, once. `sent_at` null: still to be sent, or given up after too many tries."""

    alert = models.ForeignKey(Alert, models.PROTECT, related_name="mails")
    news = models.CharField(max_length=10, choices=News.choices)
    address = models.CharField(max_length=254)
    due_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, help_text="Somebody is sending it.")
    tries = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(default="")

    class Meta:
        constraints = [
            one_of("news", News),
            models.UniqueConstraint(fields=["alert", "news", "address"], name="alert_mail_once"),
        ]
        indexes = [models.Index(fields=["due_at"], condition=Q(sent_at=None), name="alert_mail_due")]


class Silence(models.Model):
    """Nothing but critical alerts of a site, or of one robot, is shown or sent until then. Folded from `silence:<id>`."""

    id = models.BigAutoField(primary_key=True)
    site = models.ForeignKey(Site, models.PROTECT, related_name="silences")
    robot_id = models.CharField(max_length=64, default="", help_text="Empty: every robot and mission of the site.")
    why = models.TextField()
    by = models.CharField(max_length=200)
    since = models.DateTimeField()
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Ended by a person before its time.")
    ended_by = models.CharField(max_length=200, default="")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.robot_id or self.site} silent until {self.until:%Y-%m-%d %H:%M} UTC: {self.why}"
