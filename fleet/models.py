"""Rows of the site and its robots, the history they are folded from, and what waits to be sent.

Only `fleet.commit` writes Site, Place, Brand, Robot, Hold, RobotCredential, Person, Membership, Alert, Silence, Event,
Command and Outbox.
"""

import uuid

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Func, Q, Value

ROBOT_ID = r"[A-Za-z0-9._-]{1,64}"
MAX_ADDRESS = 200  # characters


def one_of(field: str, choices: type[models.TextChoices], *, blank: bool = False) -> models.CheckConstraint:
    """A database constraint that holds a column to its choices."""
    values = [*choices.values, *([""] if blank else [])]
    return models.CheckConstraint(condition=Q(**{f"{field}__in": values}), name=f"%(class)s_{field}_known")


def no_nul(text: str) -> None:
    """PostgreSQL cannot hold NUL; say so at the door."""
    if "\x00" in text:
        raise ValidationError("Text must not contain the NUL character.")


class Site(models.Model):
    """A place of work with its own map, named places, robots and people."""

    name = models.CharField(max_length=200, unique=True, validators=[no_nul])
    map_sha256 = models.CharField(max_length=64, default="", help_text="Of the picture in MapImage; empty: no map.")
    map_width = models.PositiveIntegerField(null=True, help_text="Pixels.")
    map_height = models.PositiveIntegerField(null=True, help_text="Pixels.")
    map_x = models.FloatField(default=0.0, help_text="Where the lower left corner of the picture is (m).")
    map_y = models.FloatField(default=0.0)
    map_m_per_px = models.FloatField(default=0.05)
    map_rotation = models.FloatField(
        default=0.0, help_text="Of the picture about that corner, counter-clockwise (rad)."
    )
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class MapImage(models.Model):
    """The picture of a site's map, re-encoded by us: never changed, named by its hash in the site's history.

    In the database, so that a backup of it is a backup of everything.
    """

    site = models.ForeignKey(Site, models.PROTECT, related_name="map_images")
    sha256 = models.CharField(max_length=64)
    png = models.BinaryField()
    added_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "sha256"], name="map_image_once_per_site")]

    def __str__(self) -> str:
        return f"{self.site}: {self.sha256[:12]}"


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


class Place(models.Model):
    """A named pose on a site's map. x and y in metres, theta in radians. Folded from the history of its site."""

    site = models.ForeignKey(Site, models.PROTECT, related_name="places")
    number = models.PositiveIntegerField(help_text="seq of the site's event that added it.")
    name = models.CharField(max_length=200, validators=[no_nul])
    x = models.FloatField("x (m)")
    y = models.FloatField("y (m)")
    theta = models.FloatField("heading (rad)", default=0.0)
    is_charger = models.BooleanField("is a charger", default=False, help_text="Robots may be sent here to charge.")
    nodes = models.JSONField(default=dict, help_text="Brand id (as text) → what robots of that brand call this place.")

    class Meta:
        ordering = ["site", "name"]
        constraints = [
            models.UniqueConstraint(fields=["site", "name"], name="place_name_once_per_site"),
            models.UniqueConstraint(fields=["site", "number"], name="place_number_once_per_site"),
        ]

    def __str__(self) -> str:
        return self.name


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


class Outbox(models.Model):
    """Committed events that the `out` stream has not seen yet; the relay deletes what it passed on."""

    event = models.OneToOneField(Event, models.DO_NOTHING, primary_key=True, db_constraint=False)

    class Meta:
        verbose_name_plural = "outbox"
