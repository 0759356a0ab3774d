"""Looks at stores, disks, clocks, streams, workers and batteries: which causes of telemetry/watching/causes.py hold now?

A check that cannot be made answers None and says nothing; what the database raises goes to whoever asked.
"""

import shutil
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import connection
from django.db.models import Count
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.models import Alert, Mode, Presence, Robot, Severity
from fleet.ports import live
from telemetry import clocks
from telemetry.drivers import registry
from telemetry.out.behind import groups_behind
from telemetry.stream import Streams
from telemetry.watching.causes import CAUSES, size, span, words

BACKLOG_S = 30.0  # what robots said may wait so long to be applied
FULL = 0.85  # of a store's memory: well before gateways refuse (telemetry/gateways/limits.py)
OWNERLESS_S = 15
OUTBOX_S = 120
CLOCK_S = 60.0  # the clock is doubted so long after a jump
APART_S = 2.0  # clocks of worker, PostgreSQL and Redis
ROBOT_APART_S = 5.0
BATTERY_LOW, BATTERY_FINE = 10.0, 15.0  # per cent; between them an alert stays as it is


@dataclass(frozen=True, slots=True)
class Found:
    """A cause that holds. About Drover itself, or about one robot."""

    severity: Severity
    text: str
    robot: str = ""
    site: int | None = None


Founds = dict[str, Found]


def found(name: str, robot: str = "", site: int | None = None, **facts: Any) -> Founds:
    """One cause in its words. Causes of robots have the robot in their name."""
    cause = f"{name}:robot:{robot}" if robot else name
    more = {"robot": robot} if robot else {}
    return {cause: Found(CAUSES[name].severity, words(name, **more, **facts), robot, site)}


class Checks:
    """Remembers between two looks what cannot be asked when it matters: where a store that is down keeps its data."""

    def __init__(self, moment: Callable[[], clocks.Moment] = clocks.read) -> None:
        self.moment = moment
        self.clocks = clocks.Clocks(CLOCK_S)
        self.streams = Streams(settings.REDIS_URL)
        self._durable_folder = ""
        self._durable_is_away = False
        self._seen: dict[str, Founds] = {}  # by check, at its last look

    def durable(self, now: datetime) -> Founds | None:
        told = info(settings.REDIS_URL)
        self._durable_is_away = told is None
        if told is None:
            space = _space(self._durable_folder)
            full = space is not None and space[0] < 16 * 2**20
            return found("redis_down", hint=f": its disk is full ({self._durable_folder})" if full else "")
        holds: Founds = {}
        used, limit = told.get("used_memory", 0), told.get("maxmemory", 0)
        if limit and used > FULL * limit:
            holds |= found("redis_full", percent=f"{used / limit:.0%}", used=size(used), limit=size(limit))
        broken = [name for name in ("aof_last_write_status", "aof_last_bgrewrite_status") if told.get(name) == "err"]
        if broken:
            holds |= found("redis_disk", why=", ".join(f"{name}: err" for name in broken))
        if is_here(settings.REDIS_URL):
            self._durable_folder = str(told.get("dir") or self._durable_folder)
            holds |= _low("redis_space", self._durable_folder)
        return holds

    def live(self, now: datetime) -> Founds | None:
        return {} if info(settings.LIVE_REDIS_URL) is not None else found("live_redis_down")

    def writable(self, now: datetime) -> Founds | None:
        why = read_only()
        return found("database_read_only", why=why) if why else {}

    def database_space(self, now: datetime) -> Founds | None:
        host = connection.settings_dict["HOST"]
        if host and not host.startswith("/") and not _is_loopback(host):
            return {}
        folder = _column("SELECT setting FROM pg_settings WHERE name = 'data_directory'")  # no row: we may not know
        return _low("database_space", folder[0]) if folder else {}

    def backlog(self, now: datetime) -> Founds | None:
        try:
            ages = self.streams.ages_s(range(settings.PARTITIONS), now)
        except (redis.RedisError, OSError):
            return None
        late = {p: age for p, age in ages.items() if age > BACKLOG_S}
        if not late:
            return {}
        which = ", ".join(f"partition {p} for {span(age)}" for p, age in sorted(late.items()))
        return found("backlog", partitions=which, why=_why_late(late))

    def workers(self, now: datetime) -> Founds | None:
        """A worker that waits for its stream does not say that it works."""
        if self._durable_is_away:
            return None
        rows = _column(
            "SELECT id FROM telemetry_partition WHERE id < %s AND (until IS NULL OR"
            " until < clock_timestamp() - %s * interval '1 second') ORDER BY id", settings.PARTITIONS, OWNERLESS_S,
        )  # fmt: skip
        return self._twice("workers", found("worker_missing", partitions=", ".join(map(str, rows))) if rows else {})

    def gateways(self, now: datetime) -> Founds | None:
        """Those that live and hear nothing; and is there one at all where robots need it?"""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name, trouble FROM telemetry_gatewayprocess WHERE until > clock_timestamp() ORDER BY name"
            )
            living = cursor.fetchall()
        holds: Founds = {}
        for name, why in living:
            if why:
                ((cause, one),) = found("broker_down", gateway=name, why=why).items()
                holds[f"{cause}:{name}"] = one
        if not living and (robots := _robots_over_mqtt()):
            holds |= found("gateway_missing", robots=_are(robots))
        return self._twice("gateways", holds)

    def drivers(self, now: datetime) -> Founds | None:
        """Robots in service whose driver is not here: its package is missing, or cannot be used."""
        lost = Robot.objects.filter(retired_at=None).exclude(brand__driver__in=registry.names())
        holds: Founds = {}
        for name, robots in lost.values_list("brand__driver").annotate(Count("pk")).order_by("brand__driver"):
            ((cause, one),) = found("driver_unusable", robots=_are(robots), why=registry.why_not(name)).items()
            holds[f"{cause}:{name}"] = one
        return holds

    def _twice(self, check: str, holds: Founds) -> Founds:
        """What leases in the database tell holds when it was so at the look before, too: all of them have run out in the
        moment after a database that was frozen, and whose owners live goes on at once. An alert that is open stays so.
        """
        before, self._seen[check] = self._seen.get(check, {}), holds
        new = holds.keys() - before.keys()
        doubted = new - set(Alert.objects.filter(cleared_at=None, cause__in=new).values_list("cause", flat=True))
        return {cause: one for cause, one in holds.items() if cause not in doubted}

    def outbox(self, now: datetime) -> Founds | None:
        ages = _column(
            "SELECT extract(epoch FROM clock_timestamp() - recorded_at)::float FROM fleet_event"
            " WHERE id = (SELECT min(event_id) FROM fleet_outbox)"
        )
        return found("outbox", age=span(max(ages))) if ages and max(ages) > OUTBOX_S else {}

    def followers(self, now: datetime) -> Founds | None:
        return {
            f"follower_behind:{group}": Found(CAUSES["follower_behind"].severity, words("follower_behind", text=text))
            for group, text in groups_behind().items()
        }

    def clock_steady(self, now: datetime) -> Founds | None:
        # not `now`: the checks before this one may have waited for a store
        return {} if self.clocks.steady(*self.moment()) else found("clock", host=socket.gethostname())

    def clocks_agree(self, now: datetime) -> Founds | None:
        database = _ahead(lambda: _column("SELECT extract(epoch FROM clock_timestamp())::float")[0])
        stores = _ahead(_redis_time)
        ahead = {"PostgreSQL's": database, "the durable Redis's": stores}
        told = {whose: by for whose, by in ahead.items() if by is not None and abs(by) > APART_S}
        if not told:
            return {}
        agree = None not in (database, stores) and abs(database - stores) <= APART_S  # type: ignore[operator]
        mine = len(told) == 2 and agree
        apart = ", ".join(f"{whose} is {_apart(by)} this worker's" for whose, by in told.items())
        who = f"The clock of {socket.gethostname()}" if mine else " or ".join(f"{whose} clock" for whose in told)
        if not mine and None in (database, stores):
            who = f"One of them, or the clock of {socket.gethostname()},"
        return found("clocks_apart", apart=apart, who=who[:1].upper() + who[1:])

    def robots(self, now: datetime) -> Founds | None:
        rows = Robot.objects.filter(retired_at=None, presence=Presence.ONLINE).values_list("pk", "site_id", "mode")
        known = {pk: (site, mode) for pk, site, mode in rows}
        low = {cause.rpartition(":")[2] for cause in open_causes("low_battery")}
        holds: Founds = {}
        for robot, facts in live.facts(known).items():
            site, mode = known[robot]
            limit = BATTERY_FINE if robot in low else BATTERY_LOW
            if facts.battery is not None and facts.battery < limit and mode != Mode.CHARGING:
                holds |= found("low_battery", robot, site, percent=f"{facts.battery:.0f} %")
            if facts.skew_s is not None and abs(facts.skew_s) > ROBOT_APART_S:
                holds |= found("robot_clock", robot, site, skew=_apart(facts.skew_s) + " ours")
        return holds


# names that a check may find → the check; the order is that of `manage.py status`
CHECKS: tuple[tuple[tuple[str, ...], Callable[[Checks, datetime], Founds | None]], ...] = (
    (("redis_down", "redis_full", "redis_disk", "redis_space"), Checks.durable),
    (("live_redis_down",), Checks.live),
    (("database_read_only",), Checks.writable),
    (("database_space",), Checks.database_space),
    (("backlog",), Checks.backlog),
    (("worker_missing",), Checks.workers),
    (("broker_down", "gateway_missing"), Checks.gateways),
    (("driver_unusable",), Checks.drivers),
    (("outbox",), Checks.outbox),
    (("follower_behind",), Checks.followers),
    (("clock",), Checks.clock_steady),
    (("clocks_apart",), Checks.clocks_agree),
    (("low_battery", "robot_clock"), Checks.robots),
)


def _are(robots: int) -> str:
    return "1 robot is" if robots == 1 else f"{robots} robots are"


def _robots_over_mqtt() -> int:
    """How many robots in service have a driver that knows no other way."""
    drivers = {name for name in registry.names() if registry.get(name).transport == "mqtt"}
    return Robot.objects.filter(retired_at=None, brand__driver__in=drivers).count() if drivers else 0


def open_causes(name: str) -> list[str]:
    """Causes of open alerts of this name."""
    causes = Alert.objects.filter(cleared_at=None, cause__startswith=name).values_list("cause", flat=True)
    return [cause for cause in causes if cause.partition(":")[0] == name]


def read_only() -> str:
    """Why the database takes no writes; empty when it does. Raises `django.db.Error` when it does not answer."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')")
        standby, read_only = cursor.fetchone()
    if standby:
        return "it is a standby, or in recovery"
    return "default_transaction_read_only is on" if read_only == "on" else ""


def info(url: str) -> dict[str, Any] | None:
    """What the store says of itself, with its folder as `dir` if it tells; None when it does not answer."""
    client = redis.from_url(url, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
    try:
        told = dict(client.info())
        try:
            return told | client.config_get("dir")
        except redis.ResponseError:  # not for us
            return told
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()


def is_here(url: str) -> bool:
    """Is a store of this address on this machine?"""
    parts = urlsplit(url)
    return parts.scheme == "unix" or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _space(folder: str) -> tuple[int, int] | None:
    """(free, all) bytes of the disk; None when this process does not see the folder."""
    try:
        usage = shutil.disk_usage(folder) if folder else None
    except OSError:
        return None
    return (usage.free, usage.total) if usage else None


def _low(name: str, folder: str) -> Founds:
    space = _space(folder)
    if space is None or space[0] >= settings.DISK_LOW_MB * 2**20:
        return {}
    return found(name, free=size(space[0]), total=size(space[1]), path=folder)


def _why_late(late: Iterable[int]) -> str:
    """What holds these partitions up."""
    late = list(late)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM unnest(%s::int[]) AS late(id) LEFT JOIN telemetry_partition p USING (id)"
            "  WHERE p.until IS NULL OR p.until < clock_timestamp()),"
            " (SELECT max(tries) FROM telemetry_failedtry WHERE partition = ANY(%s::int[]))", [late, late],
        )  # fmt: skip
        ownerless, tries = cursor.fetchone()
    if ownerless:
        return "No worker owns them: start `manage.py worker`"
    if tries:
        return f"A message failed {tries} times and is tried again: look at the worker's log"
    return "The workers do not keep up: look at their load, start one more"


def _ahead(ask: Callable[[], float | None]) -> float | None:
    """By how many s that clock is ahead of ours, as far as can be told: the way there and back is subtracted."""
    began, tick = time.time(), time.monotonic()
    theirs = ask()
    took = time.monotonic() - tick
    if theirs is None or took > APART_S / 2:
        return None
    return theirs - (began + took / 2)


def _redis_time() -> float | None:
    client = redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
    try:
        seconds, microseconds = client.time()
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()
    return float(seconds) + microseconds / 1e6


def _apart(ahead_s: float) -> str:
    return f"{span(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'}"


def _column(sql: str, *arguments: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return [value for (value,) in cursor.fetchall()]
