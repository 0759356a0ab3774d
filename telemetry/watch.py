"""Watches Drover itself and what no event tells of: stores, backlog, workers, clock, batteries. Opens and clears alerts.

Each check says which of its causes hold now; a check that cannot be made says nothing. Of several workers one at a time
opens and clears.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet import live
from fleet.alerts import SYSTEM, clear_alert, raise_alert
from fleet.models import Alert, Mode, Presence, Robot, Severity
from telemetry import clocks
from telemetry.out.behind import groups_behind
from telemetry.stream import Streams

BACKLOG_S = 30.0  # what robots said may wait so long to be applied
FULL = 0.9  # of a store's memory
OWNERLESS_S = 15
OUTBOX_S = 120
CLOCK_S = 60.0  # the clock is doubted so long after a jump
BATTERY_LOW, BATTERY_FINE = 10.0, 15.0  # per cent; between them an alert stays as it is
_LOCK = 0x0D0A1E  # advisory lock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A cause that holds. About Drover itself, or about one robot."""

    severity: Severity
    text: str
    robot: str = ""
    site: int | None = None


class Watch:
    """`step` every few seconds, in a thread of its own: a store that does not answer may take its time here."""

    def __init__(self, moment: Callable[[], clocks.Moment] = clocks.read) -> None:
        self.moment = moment
        self.clocks = clocks.Clocks(CLOCK_S)
        self.streams = Streams(settings.REDIS_URL)

    def step(self, now: datetime) -> bool:
        """Look once. Says whether anything had to be opened or cleared."""
        seen = [(names, check(self, now)) for names, check in CHECKS]  # no transaction waits for a store
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
            if not cursor.fetchone()[0]:
                return False
            done = [self._settle(names, found, now) for names, found in seen]
        return any(done)

    def _settle(self, names: tuple[str, ...], found: dict[str, Found] | None, now: datetime) -> bool:
        """Open what holds and is not open, clear what holds no more."""
        if found is None:
            return False
        ours = [cause for name in names for cause in _open(name)]
        for cause, one in found.items():
            if cause not in ours:
                subject = f"robot:{one.robot}" if one.robot else SYSTEM
                raise_alert(
                    cause,
                    severity=one.severity,
                    text=one.text,
                    subject=subject,
                    robot=one.robot,
                    site=one.site,
                    now=now,
                )
        gone = [cause for cause in ours if cause not in found]
        for cause in gone:
            clear_alert(cause, now=now)
        return bool(gone or found.keys() - set(ours))

    # --- checks

    def durable(self, now: datetime) -> dict[str, Found] | None:
        info = _info(settings.REDIS_URL)
        if info is None:
            text = "The durable Redis does not answer: robots keep what they say until it is back"
            return {"redis_down": Found(Severity.CRITICAL, text)}
        found = {}
        used, limit = info.get("used_memory", 0), info.get("maxmemory", 0)
        if limit and used > FULL * limit:
            text = (
                f"The durable Redis is {used / limit:.0%} full. Full, it refuses what robots say: give it more memory"
            )
            found["redis_full"] = Found(Severity.CRITICAL, text)
        if "err" in (info.get("aof_last_write_status"), info.get("aof_last_bgrewrite_status")):
            found["redis_disk"] = Found(
                Severity.CRITICAL, "The durable Redis cannot write to its disk: look at the disk"
            )
        return found

    def live(self, now: datetime) -> dict[str, Found] | None:
        if _info(settings.LIVE_REDIS_URL) is not None:
            return {}
        text = "The live Redis does not answer: pages follow the database, positions and batteries are old"
        return {"live_redis_down": Found(Severity.WARNING, text)}

    def backlog(self, now: datetime) -> dict[str, Found] | None:
        try:
            age = self.streams.oldest_unapplied_s(range(settings.PARTITIONS), now)
        except (redis.RedisError, OSError):
            return None
        text = f"What robots said waits {age:.0f} s to be applied: the workers do not keep up"
        return {"backlog": Found(Severity.WARNING, text)} if age > BACKLOG_S else {}

    def workers(self, now: datetime) -> dict[str, Found] | None:
        rows = _column(
            "SELECT id FROM telemetry_partition WHERE id < %s AND (until IS NULL OR"
            " until < clock_timestamp() - %s * interval '1 second') ORDER BY id", [settings.PARTITIONS, OWNERLESS_S],
        )  # fmt: skip
        text = f"No worker works on partitions {', '.join(map(str, rows))}: what their robots say is not applied"
        return {"worker_missing": Found(Severity.CRITICAL, text)} if rows else {}

    def outbox(self, now: datetime) -> dict[str, Found] | None:
        ages = _column(
            "SELECT extract(epoch FROM clock_timestamp() - recorded_at)::float FROM fleet_event"
            " WHERE id = (SELECT min(event_id) FROM fleet_outbox)", [],
        )  # fmt: skip
        late = [age for age in ages if age > OUTBOX_S]
        text = "Events wait in the outbox for more than two minutes: the stream `out` does not take them"
        return {"outbox": Found(Severity.WARNING, text)} if late else {}

    def followers(self, now: datetime) -> dict[str, Found] | None:
        return {f"follower_behind:{name}": Found(Severity.WARNING, text) for name, text in groups_behind().items()}

    def clock_steady(self, now: datetime) -> dict[str, Found] | None:
        text = "The clock of this machine jumped: deadlines rest until it has gone well for a while"
        # not `now`: the checks before this one may have waited for a store
        return {} if self.clocks.steady(*self.moment()) else {"clock": Found(Severity.WARNING, text)}

    def batteries(self, now: datetime) -> dict[str, Found] | None:
        robots = Robot.objects.filter(retired_at=None, presence=Presence.ONLINE).exclude(mode=Mode.CHARGING)
        sites = dict(robots.values_list("pk", "site_id"))
        low = {cause.rpartition(":")[2] for cause in _open("low_battery")}
        found = {}
        for robot, facts in live.facts(sites).items():
            limit = BATTERY_FINE if robot in low else BATTERY_LOW
            if facts.battery is not None and facts.battery < limit:
                text = f"{robot} has {facts.battery:.0f} % battery left and is not charging"
                found[f"low_battery:robot:{robot}"] = Found(Severity.WARNING, text, robot, sites[robot])
        return found


CHECKS: tuple[tuple[tuple[str, ...], Callable[[Watch, datetime], dict[str, Found] | None]], ...] = (
    (("redis_down", "redis_full", "redis_disk"), Watch.durable),
    (("live_redis_down",), Watch.live),
    (("backlog",), Watch.backlog),
    (("worker_missing",), Watch.workers),
    (("outbox",), Watch.outbox),
    (("follower_behind",), Watch.followers),
    (("clock",), Watch.clock_steady),
    (("low_battery",), Watch.batteries),
)


def _open(name: str) -> list[str]:
    """Open causes of this name."""
    found = Alert.objects.filter(cleared_at=None, cause__startswith=name).values_list("cause", flat=True)
    return [cause for cause in found if cause.partition(":")[0] == name]


def _info(url: str) -> dict[str, Any] | None:
    """What the store says of itself; None when it does not answer."""
    client = redis.from_url(url, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
    try:
        return dict(client.info())
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()


def _column(sql: str, arguments: Iterable[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(arguments))
        return [value for (value,) in cursor.fetchall()]


class Beside(threading.Thread):
    """Repeats a `step(now)` beside the worker's loop, with a database connection of its own, until told to stop."""

    def __init__(self, name: str, step: Callable[[datetime], Any], every_s: float, stopping: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._step, self._every_s, self._stopping = step, every_s, stopping

    def run(self) -> None:
        failed = False
        while not self._stopping.wait(self._every_s):
            try:
                self._step(timezone.now())
                failed = False
            except Exception as error:  # a store is away; the worker's loop says so as well
                if not failed:
                    log.warning("%s rests: %s", self.name, error)
                failed = True
                connection.close()
        connection.close()
