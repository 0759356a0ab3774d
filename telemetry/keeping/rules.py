"""What is kept for how long: one line per table of the database and per key of the Redises. A test finds tables without one.

Nothing here touches the history: events are never deleted.
"""

from typing import NamedTuple


class Rule(NamedTuple):
    """Rows of a table that go when `age` (an SQL expression over the row `t`) is older than the setting's days.

    `days`: a key of `settings.KEEP_DAYS`. `only`: which rows may go at all, SQL; `%(until)s` is the time up to which
    they go. `walk`: an indexed column by which the table is read in slices; rows grow older against its order, unless
    `scattered`: then every round reads the whole table, so only small ones may be. `along`: (table, column) whose row
    goes with it.
    """

    table: str
    age: str
    days: str
    only: str = "TRUE"
    walk: str = "id"
    scattered: bool = False
    along: tuple[str, str] | None = None


_MISSION_ENDED = "NOT EXISTS (SELECT FROM missions_mission m WHERE m.id = t.mission AND m.ended_at IS NULL)"
_NO_STOP_OF_A_HOLD = (
    "(t.kind <> 'robot.stop' OR NOT EXISTS"
    " (SELECT FROM fleet_hold h WHERE h.robot_id = t.robot_id AND h.released_at IS NULL))"
)

# A new table with rows that age is one line here
RULES: tuple[Rule, ...] = (
    Rule("fleet_command", "t.created_at", "commands", f"t.state <> 'open' AND {_MISSION_ENDED} AND {_NO_STOP_OF_A_HOLD}",
         walk="created_at", along=("fleet_delivery", "command_id")),
    Rule("fleet_alertmail", "t.due_at", "mail",
         "EXISTS (SELECT FROM fleet_alert a WHERE a.id = t.alert_id AND a.cleared_at < %(until)s)"),
    Rule("telemetry_sending", "t.created_at", "webhooks", "t.state <> 'open'"),
    Rule("missions_deadletter", "coalesce(t.settled_at, t.discarded_at, t.created_at)", "dead_letters",
         "t.state IN ('applied', 'discarded')", scattered=True),  # the others: DROVER_DEAD_LETTERS_PER_ROBOT, and people
    Rule("fleet_apirequest", "t.created_at", "requests"),
    Rule("fleet_sessionrecord", "t.last_seen_at", "sign_ins",
         "NOT EXISTS (SELECT FROM django_session s WHERE s.session_key = t.key AND s.expire_date > now())",
         scattered=True),
    Rule("django_session", "t.expire_date", "expired", walk="expire_date"),
    Rule("axes_accessattemptexpiration", "t.expires_at", "sign_ins", walk="access_attempt_id"),
    Rule("axes_accessattempt", "t.attempt_time", "sign_ins",
         "NOT EXISTS (SELECT FROM axes_accessattemptexpiration e WHERE e.access_attempt_id = t.id)"),
    Rule("axes_accessfailurelog", "t.attempt_time", "sign_ins"),
    Rule("axes_accesslog", "t.attempt_time", "sign_ins"),
    Rule("django_admin_log", "t.action_time", "sign_ins"),
    Rule("telemetry_failedtry", "to_timestamp(split_part(t.entry, '-', 1)::bigint / 1000.0)", "messages"),
)  # fmt: skip

# table → why it stays bounded without a rule
OTHERWISE = {
    "telemetry_processedmessage": "tidying deletes by age, up to the watermark; numbers say what was known",
    "telemetry_watermark": "the newest sessions of each robot: DROVER_KEEP_ROBOT_SESSIONS",
    "telemetry_workerprocess": "workers delete those that ended an hour ago",
    "telemetry_gatewayprocess": "gateways delete those that ended an hour ago",
    "telemetry_knock": "500 rows and 30 days at most, kept so by whoever writes them",
    "fleet_delivery": "goes with its command",
    "telemetry_irregularity": "counts: one row per robot, kind of message and verdict",
    "fleet_outbox": "the relay deletes what it passed on",
}

# table → why all of it is kept
HISTORY = {
    "fleet_event": "the history itself",
    "missions_mission": "folded from the history",
    "missions_step": "folded from the history",
    "missions_dependency": "folded from the history",
    "fleet_alert": "folded from the history",
    "fleet_alerttally": "one row per alert: how often it was raised",
    "fleet_hold": "folded from the history",
    "fleet_silence": "folded from the history",
    "fleet_robotcredential": "folded from the history",
    "fleet_apitoken": "folded from the history",
    "telemetry_tally": "counted from the history, a few rows an hour",
    "missions_letterdecision": "folded from the history",
}

# one row per thing that people set up
CONFIGURATION = {
    "auth_group", "auth_group_permissions", "auth_permission", "auth_user", "auth_user_groups",
    "auth_user_user_permissions", "django_content_type", "django_migrations",
    "fleet_brand", "fleet_mapimage", "fleet_membership", "fleet_person", "fleet_place", "fleet_robot", "fleet_site",
    "missions_template", "telemetry_follower", "telemetry_gatewaypartition", "telemetry_link", "telemetry_partition", "telemetry_webhook",
    "telemetry_webhooklane",
}  # fmt: skip

# pattern → what bounds it; a number is the longest time to live, in s
DURABLE_KEYS = {
    "in:{*}": "a worker trims what is acknowledged",
    "seen:{*}:*": 900,
    "out": "the relay trims it by size: 100,000 events",
    "ready": 10,
}
LIVE_KEYS = {
    "last:*": "one per robot",
    "seen": "one member per robot",
    "born": "one",
    "gateways": "one member per gateway, for an hour",
    "deaf": "one member per gateway that could not hear its robots, for an hour",
    "gone": "one member per robot, for a day",
    "unanswered": "one member per robot, for a day",
    "trouble": 20,
    "heard:*": 7 * 86_400,
    "asgi*": 86_400,
}
