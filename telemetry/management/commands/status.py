"""`manage.py status`: one screen that says how the site is. A part that cannot be read says why; the others go on."""

import socket
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from fleet.models import Command as RobotCommand
from fleet.models import CommandState, Hold, Outbox, Robot
from missions.models import OPEN, UNDECIDED, DeadLetter, Mission
from telemetry.models import GatewayPartition, GatewayProcess, Knock, Link, Partition
from telemetry.out.behind import ages
from telemetry.stream import GROUP, Streams, key
from telemetry.watching import health

LISTED = 8  # lines of a list; the rest is a number
KNOCKED = timedelta(hours=1)  # how far back strangers are named


class Command(BaseCommand):
    help = "Processes, partitions and their backlog, presence, who knocked, dead letters, open stops: on one screen."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        self.stdout.write(f"Drover on {socket.gethostname()}, {settings.VAR}, {now:%Y-%m-%d %H:%M:%S} UTC")
        for title, section in SECTIONS:
            try:
                found = list(section(now))
            except DatabaseError as exc:
                found = [f"unknown: the database does not answer ({_first_line(exc)})"]
            except redis.RedisError as exc:
                found = [f"unknown: the durable Redis does not answer ({_first_line(exc)})"]
            for number, text in enumerate(found or ["none"]):
                self.stdout.write(f"{title if number == 0 else '':<14}{text}")


def _ready(now: datetime) -> Iterable[str]:
    lacking, warnings = health.state()
    lines = [f"no, {name}: {why}" for name, why in lacking.items()] or ["yes"]
    return lines + [f"warning: {text}" for text in warnings.values()]


def _workers(now: datetime) -> Iterable[str]:
    owned: dict[str, list[int]] = {}
    for partition in Partition.objects.filter(until__gt=now).exclude(owner="").order_by("id"):
        owned.setdefault(partition.owner, []).append(partition.id)
    orphans = sorted(set(range(settings.PARTITIONS)) - {p for ps in owned.values() for p in ps})
    for owner, partitions in sorted(owned.items()):
        yield f"{owner} owns {', '.join(map(str, partitions))}"
    if orphans:
        yield f"nobody owns {', '.join(map(str, orphans))}"


def _gateways(now: datetime) -> Iterable[str]:
    links = Link.objects.filter(robot__presence="online").exclude(gateway="").values("gateway")
    for row in links.annotate(n=Count("pk")).order_by("gateway"):
        yield f"{row['gateway']} holds {_count(row['n'], 'link')} to robots that are online"


def _mqtt(now: datetime) -> Iterable[str]:
    owned: dict[str, list[int]] = {}
    for partition in GatewayPartition.objects.filter(until__gt=now).exclude(owner="").order_by("id"):
        owned.setdefault(partition.owner, []).append(partition.id)
    for gateway in GatewayProcess.objects.filter(until__gt=now).order_by("name"):
        mine = ", ".join(map(str, owned.get(gateway.name, []))) or "none"
        hears = f"hears no robot: {gateway.trouble}" if gateway.trouble else "hears the broker"
        yield f"{gateway.name} {hears}; it has the robots of partitions {mine}"


def _backlog(now: datetime) -> Iterable[str]:
    streams = Streams(settings.REDIS_URL)
    try:
        progress = streams.progress(range(settings.PARTITIONS))
        behind = False
        for partition in range(settings.PARTITIONS):
            if partition not in progress:
                yield f"partition {partition}: no stream yet"
                continue
            waiting = _waiting(streams.redis, partition)
            age = streams.oldest_unapplied_s([partition], now)
            if waiting != 0 or age:
                behind = True
                shown = "?" if waiting is None else waiting
                yield f"partition {partition}: {shown} events not applied, the oldest {age:.1f} s old"
        if progress and not behind:
            yield "everything is applied"
    finally:
        streams.close()


def _waiting(client: Any, partition: int) -> int | None:
    """Entries that no worker has acknowledged; None when Redis cannot count them."""
    group = next(g for g in client.xinfo_groups(key(partition)) if g["name"] == GROUP.encode())
    lag = group.get("lag")
    return None if lag is None else int(lag) + int(group["pending"])


def _redis(now: datetime) -> Iterable[str]:
    for name, url in (("durable", settings.REDIS_URL), ("live", settings.LIVE_REDIS_URL)):
        try:
            with redis.from_url(url, socket_timeout=1, socket_connect_timeout=1) as client:
                memory = client.info("memory")
        except redis.RedisError as exc:
            yield f"{name}: does not answer ({_first_line(exc)})"
            continue
        limit = memory["maxmemory"]
        most = (
            f"of {limit / 2**20:.0f} MB ({100 * memory['used_memory'] / limit:.0f} %)" if limit else "without a limit"
        )
        yield f"{name}: {memory['used_memory'] / 2**20:.0f} MB {most}, {memory['maxmemory_policy']}"


def _robots(now: datetime) -> Iterable[str]:
    presence = Counter(Robot.objects.filter(retired_at=None).values_list("presence", flat=True))
    counts = ", ".join(f"{n} {word}" for word, n in sorted(presence.items())) or "none in service"
    retired = Robot.objects.filter(retired_at__isnull=False).count()
    return [counts + (f"; {retired} retired" if retired else "")]


def _knocked(now: datetime) -> Iterable[str]:
    lately = Knock.objects.filter(last_at__gt=now - KNOCKED).order_by("-last_at")
    its = Q(address=OuterRef("robot")) | Q(address="", pk=OuterRef("robot"))
    enrolled = Robot.objects.filter(its, brand__driver=OuterRef("driver"), retired_at=None)
    lately = lately.exclude(Exists(enrolled), why__in=("broker", "retired"))  # strangers no more
    return _list(
        lately,
        lambda k: f"{k}: {k.showed}, {_count(k.count, 'time')}, last {_age(k.last_at, now)} ago",
    )


def _missions(now: datetime) -> Iterable[str]:
    open_ones = Mission.objects.filter(state__in=OPEN)
    counts = open_ones.aggregate(
        waiting=Count("pk", filter=Q(dispatched_at=None)), running=Count("pk", filter=Q(dispatched_at__isnull=False))
    )
    yield f"{counts['waiting']} waiting, {counts['running']} dispatched"
    overdue = open_ones.filter(next_due_at__lt=now).order_by("next_due_at")
    yield from _list(
        overdue, lambda m: f"deadline passed {_age(m.next_due_at, now)} ago: {m.title} on {m.robot_id} ({m.pk})"
    )


def _stops(now: datetime) -> Iterable[str]:
    stopping = Mission.objects.filter(state__in=OPEN, stop_requested_at__isnull=False).order_by("stop_requested_at")
    yield from _list(
        stopping,
        lambda m: (
            f"{m.robot_id} is being stopped for {_age(m.stop_requested_at, now)} by {m.stop_requested_by}: {m.title}"
        ),
    )
    holds = Hold.objects.filter(released_at=None).order_by("since")
    yield from _list(holds, lambda h: f"{h.robot_id} on hold for {_age(h.since, now)}: {h}")


def _commands(now: datetime) -> Iterable[str]:
    open_ones = RobotCommand.objects.filter(state=CommandState.OPEN).order_by("created_at")
    oldest = open_ones.first()
    if oldest is not None:
        yield f"{open_ones.count()} to be sent, the oldest for {_age(oldest.created_at, now)}: {oldest}"


def _dead_letters(now: datetime) -> Iterable[str]:
    letters = DeadLetter.objects.filter(state__in=UNDECIDED).order_by("-created_at")
    return _list(letters, lambda d: f"{_age(d.created_at, now)} ago, {d}: {d.reason}")


def _outbox(now: datetime) -> Iterable[str]:
    return [f"{_count(Outbox.objects.count(), 'event')} not yet on the out stream"]


def _followers(now: datetime) -> Iterable[str]:
    for name, age_s in ages().items():
        yield f"{name}: up to date" if age_s < 5 else f"{name}: {_age(now - timedelta(seconds=age_s), now)} behind"


SECTIONS: tuple[tuple[str, Callable[[datetime], Iterable[str]]], ...] = (
    ("ready", _ready),
    ("workers", _workers),
    ("gateways", _gateways),
    ("mqtt", _mqtt),
    ("backlog", _backlog),
    ("redis", _redis),
    ("robots", _robots),
    ("knocked", _knocked),
    ("missions", _missions),
    ("open stops", _stops),
    ("commands", _commands),
    ("dead letters", _dead_letters),
    ("outbox", _outbox),
    ("followers", _followers),
)


def _list(rows: Any, words: Callable[[Any], str]) -> Iterable[str]:
    for row in rows[:LISTED]:
        yield " ".join(words(row).split())[:160]
    more = rows.count() - LISTED
    if more > 0:
        yield f"and {more} more"


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _age(since: datetime, now: datetime) -> str:
    seconds = max(0, int((now - since).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _first_line(exc: Exception) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]
