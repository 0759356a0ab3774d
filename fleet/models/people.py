"""Rows of people: role, sites, sign-ins, and the programs that act for them."""

from django.conf import settings
from django.db import models

from fleet.models.columns import no_nul, one_of
from fleet.models.sites import Site


class Role(models.TextChoices):
    """What a person may do; where is `Person.all_sites` and Membership."""

    ADMIN = "admin", "Admin"
    SUPERVISOR = "supervisor", "Supervisor"
    AUDITOR = "auditor", "Auditor"


class Person(models.Model):
    """What one user may do, and at which sites. Folded from the history `person:<user id>`."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.PROTECT, primary_key=True)
    role = models.CharField(max_length=20, choices=Role.choices, default="", blank=True)
    all_sites = models.BooleanField("all sites", default=False, help_text="Also those that are still to come.")
    version = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "people"
        constraints = [one_of("role", Role, blank=True)]

    def __str__(self) -> str:
        return self.user.get_full_name() or self.user.get_username()


class Membership(models.Model):
    """A site that a person belongs to. `number` is the site's key."""

    person = models.ForeignKey(Person, models.PROTECT, related_name="memberships")
    number = models.PositiveIntegerField()
    site = models.ForeignKey(Site, models.PROTECT, related_name="memberships")

    class Meta:
        ordering = ["person", "number"]
        constraints = [models.UniqueConstraint(fields=["person", "number"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.person} at {self.site}"


class SessionRecord(models.Model):
    """One sign-in: which device, from where, last seen when. Who holds the session is in django_session."""

    key = models.CharField(max_length=40, unique=True, help_text="Of the session; when that is gone, this is history.")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="session_records")
    address = models.CharField(max_length=45, default="", blank=True)
    device = models.CharField(max_length=300, default="", blank=True, help_text="What the browser calls itself.")
    created_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["-last_seen_at"]

    def __str__(self) -> str:
        return f"{self.user} from {self.address or 'an unknown address'}"


class ApiToken(models.Model):
    """A bearer token of a program that acts for a person: at most what that person may do, and within its scopes.

    Only its SHA-256 is kept; the token is shown once.
    """

    person = models.ForeignKey(Person, models.PROTECT, related_name="tokens")
    number = models.PositiveIntegerField(help_text="seq of the person's event that issued it.")
    label = models.CharField(max_length=200, validators=[no_nul], help_text="What uses it, e.g. warehouse system.")
    scopes = models.JSONField(default=list)
    digest = models.CharField(max_length=64, unique=True, null=True, help_text="SHA-256 of the token, in hex.")
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="To the minute. Not part of the history.")

    class Meta:
        verbose_name = "API token"
        ordering = ["person", "number"]
        constraints = [models.UniqueConstraint(fields=["person", "number"], name="api_token_number_once_per_person")]

    def __str__(self) -> str:
        return self.label


class ApiRequest(models.Model):
    """What was answered to a request with an Idempotency-Key, so that the same again makes nothing new."""

    token = models.ForeignKey(ApiToken, models.CASCADE)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 of method, path and body, in hex.")
    status = models.PositiveSmallIntegerField(default=0)
    body = models.TextField(default="")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key"], name="api_request_key_once")]

    def __str__(self) -> str:
        return f"{self.token}: {self.key}"
