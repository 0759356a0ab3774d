"""What can be wrong with Drover itself, in words: one line per cause with what happened, why, and what to do next.

Alerts, `/readyz`, the log and `manage.py status` say the same. A page of docs/trouble goes with each.
"""

from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, OperationalError

from fleet.models import Severity

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


class Cause(NamedTuple):
    """`page`: of docs/trouble. `part`: what `/readyz` then misses; empty when the site still does its work.

    `seen_as`: what `/readyz` misses by a look of its own: while it does, the cause says nothing more.
    """

    severity: Severity
    text: str
    page: str
    part: str = ""
    seen_as: str = ""


_ROBOTS_KEEP = "nothing that robots say is applied, they keep it"

CAUSES: dict[str, Cause] = {
    "database_down": Cause(
        CRITICAL, f"PostgreSQL does not answer ({{why}}): {_ROBOTS_KEEP}. Start it, or look at its log",
        "database-takes-no-writes.md", "database",
    ),
    "database_read_only": Cause(
        CRITICAL, f"PostgreSQL is read-only ({{why}}): {_ROBOTS_KEEP}. Let DATABASE_URL name the primary, or end its read-only mode",
        "database-takes-no-writes.md", "database",
    ),
    "database_full": Cause(
        CRITICAL, f"PostgreSQL's disk is full ({{why}}): {_ROBOTS_KEEP}. Free space on its disk",
        "disk-is-full.md", "database",
    ),
    "database_space": Cause(
        WARNING, "Only {free} of {total} are free on PostgreSQL's disk ({path}): once it is full, nothing is applied. Free space, "
        "or give it a larger disk", "disk-is-full.md",
    ),
    "redis_down": Cause(
        CRITICAL, "The durable Redis does not answer: robots keep what they say until it is back. Start it{hint}",
        "redis-is-full.md", seen_as="durable redis",
    ),
    "redis_full": Cause(
        CRITICAL, "The durable Redis is {percent} full ({used} of {limit}): near its limit robots are asked to wait. "
        "Is something not applied? Else give it more memory", "redis-is-full.md",
    ),
    "redis_disk": Cause(
        CRITICAL, "The durable Redis cannot write to its disk ({why}): robots keep what they say. Look at the disk",
        "disk-is-full.md",
    ),
    "redis_space": Cause(
        WARNING, "Only {free} of {total} are free on the durable Redis's disk ({path}): once it is full, robots' messages are "
        "not taken. Free space", "disk-is-full.md",
    ),
    "live_redis_down": Cause(
        WARNING, "The live Redis does not answer: pages follow the database, positions and batteries are old. Start it",
        "redis-is-full.md", seen_as="live redis",
    ),
    "backlog": Cause(
        WARNING, "What robots said waits to be applied: {partitions}. {why}", "stream-backs-up.md",
    ),
    "worker_missing": Cause(
        CRITICAL, "No worker works on partitions {partitions}: what their robots say is not applied. Start `manage.py worker`",
        "stream-backs-up.md", seen_as="worker",
    ),
    "broker_down": Cause(
        CRITICAL, "The gateway {gateway} hears no robot over MQTT: {why}. Robots go on by themselves, and their links are unknown. "
        "Start the broker, or see what MQTT_URL says", "mqtt-is-away.md",
    ),
    "gateway_missing": Cause(
        CRITICAL, "No MQTT gateway runs, and {robots} reached over MQTT. Start `manage.py gateway`", "mqtt-is-away.md",
    ),
    "driver_unusable": Cause(
        CRITICAL, "{robots} not served: {why}", "robot-does-not-show-up.md",
    ),
    "retained_command": Cause(
        CRITICAL, "Somebody left a command for {robot} on the MQTT broker, retained on {topic}: the robot is given it whenever it "
        "comes back. Drover never does so. Find out who, and take it away: "
        "mosquitto_pub -u drover -P <password> -r -n -t '{topic}'", "mqtt-is-away.md",
    ),
    "two_robots": Cause(
        CRITICAL, "Two robots speak as {robot} on the MQTT broker ({address}): their numbers run in two rows, from two places. "
        "Both do what {robot} is told. Stop them where they are, and give each a serial number of its own",
        "robot-does-not-show-up.md",
    ),
    "outbox": Cause(
        WARNING, "Events wait in the outbox for {age}: the stream `out` does not take them, so webhooks, e-mail and statistics "
        "are late. Look at the durable Redis and at the worker's log", "stream-backs-up.md",
    ),
    "follower_behind": Cause(WARNING, "{text}", "stream-backs-up.md"),
    "clock": Cause(
        WARNING, "The clock of {host} jumped: deadlines rest until it has gone well for a while. Let it be set by NTP, slowly",
        "clock-is-wrong.md",
    ),
    "clocks_apart": Cause(
        WARNING, "Clocks differ: {apart}. {who} is wrong: times in the history and deadlines are off by as much. Set it by NTP",
        "clock-is-wrong.md",
    ),
    "robot_clock": Cause(
        INFO, "The clock of {robot} is {skew}: its messages count all the same, by the time of their receipt. Set its clock",
        "clock-is-wrong.md",
    ),
    "low_battery": Cause(WARNING, "{robot} has {percent} battery left and is not charging", ""),
}  # fmt: skip


def words(name: str, **facts: Any) -> str:
    """The cause's text, with the page that says more. `name` may have a subject behind a colon."""
    cause = CAUSES[name.partition(":")[0]]
    more = f" (docs/trouble/{cause.page})" if cause.page else ""
    return cause.text.format(**facts) + more


# SQLSTATE, or its class (the first two characters) → cause
_STATES = {
    "25006": "database_read_only",
    "53100": "database_full",
    "58030": "database_full",  # I/O error: PostgreSQL says so of some full disks
    "08": "database_down",
    "57P": "database_down",
}


def of_database(error: Exception) -> tuple[str, str] | None:
    """(cause, its words) of what the database raised; None when it tells of nothing that is wrong with it."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return None
    said = " ".join(str(error).split())
    state = getattr(getattr(error.__cause__, "diag", None), "sqlstate", None) or ""
    name = next((_STATES[part] for part in (state, state[:3], state[:2]) if part in _STATES), "")
    if "No space left on device" in said:
        name = "database_full"
    said = said.rpartition('" failed: ')[2][:100]  # before the reason stands a socket's path, which may be long
    if not name and isinstance(error, OperationalError | InterfaceError) and not state:
        name = "database_down"  # the connection could not be made, or broke
    return (name, words(name, why=said)) if name else None


def span(seconds: float) -> str:
    """About so long, in the largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(number: float) -> str:
    return f"{number / 2**30:.1f} GB" if number >= 2**30 else f"{number / 2**20:.0f} MB"
