"""Robots that knocked and were turned away: noted by every gateway, counted, and never more than a table can bear.

A flood of ids, tokens or addresses fills no table: so many are noted between two writes, so many rows belong to one
address (the rest is counted in one row of its own), and of all rows the oldest go. A token is never kept.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Container, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from fleet.models import MAX_ADDRESS, ROBOT_ID, Robot, RobotCredential
from fleet.robots.credentials import digest_of
from telemetry.models import Knock
from telemetry.one_connection import OneConnection

log = logging.getLogger(__name__)
NOTED = 200  # different ones between two writes; more are not noted at all
EVERY_S = 2.0
ROWS = 500
ROWS_OF_ADDRESS = 20
ROWS_OF_BROKER = 200  # of one driver: a fleet that is new here is seen as a whole
FORGET = timedelta(days=30)
ASKED = 20  # that are asked for their name at a time
WHO_S = 1.0  # for a stranger to say hello
MAX_HELLO = 4096  # bytes of a hello that are looked at
_LOCK = 0x6B6E6F63  # one process writes at a time

MANY = "many"


class Stranger(NamedTuple):
    """What one knock presented: the token's digest (empty: none), its name for itself, over what, from where."""

    digest: str
    robot: str
    over: str
    address: str
    driver: str = ""  # whose words it speaks on the broker, where that is all that it shows


class Knocks:
    """What this process has noted and not yet written. `rows` asks the database, in its own thread."""

    def __init__(self, rows: OneConnection) -> None:
        self._rows = rows
        self._noted: dict[Stranger, tuple[int, datetime]] = {}
        self._asked = 0

    def note(self, token: str, robot: str, over: str, address: str, driver: str = "") -> None:
        """Somebody was turned away."""
        name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in robot[: MAX_ADDRESS + 1])
        if len(name) > MAX_ADDRESS:
            name = f"{name[: MAX_ADDRESS - 1]}…"
        stranger = Stranger(digest_of(token) if token else "", name, over, address[:64], driver)
        if stranger in self._noted or len(self._noted) < NOTED:
            count, _ = self._noted.get(stranger, (0, None))
            self._noted[stranger] = (count + 1, timezone.now())

    async def name_of(self, first_message: Callable[[], Any]) -> str:
        """What a stranger calls itself: awaits `first_message()`, not for long, and for few at a time."""
        if self._asked >= ASKED or len(self._noted) >= NOTED:
            return ""
        self._asked += 1
        try:
            async with asyncio.timeout(WHO_S):
                return name_in(await first_message())
        except TimeoutError:
            return ""
        finally:
            self._asked -= 1

    async def run(self) -> None:
        """Write what was noted, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.step()

    async def step(self) -> None:
        noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            await self._rows.ask(record, [(stranger, *seen) for stranger, seen in noted.items()])
        except DatabaseError as error:
            log.debug("%d knocks are not noted: %s", len(noted), error)


def name_in(raw: bytes | str) -> str:
    """The robot's name for itself in a hello, or in the first of several; empty when there is none."""
    head = raw[:MAX_HELLO]
    text = head.decode(errors="replace") if isinstance(head, bytes | bytearray) else head
    found = re.search(r'"robot"\s*:\s*("(?:[^"\\]|\\.){0,200}")', text)
    try:
        name = msgspec.json.decode(found[1], type=str) if found else ""
    except msgspec.MsgspecError:
        return ""
    return name if re.fullmatch(ROBOT_ID, name) else ""


def record(knocks: Iterable[tuple[Stranger, int, datetime]]) -> None:
    """Write them all: in few rows, whoever knocks how often. Runs in a thread of the gateway."""
    knocks = list(knocks)
    known = {
        c.digest: c
        for c in RobotCredential.objects.filter(digest__in={k.digest for k, _, _ in knocks} - {""}).select_related("robot")
    }  # fmt: skip
    retired = _retired({k.driver for k, _, _ in knocks} - {""})
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        for stranger, count, at in knocks:
            _count(*_judged(stranger, known.get(stranger.digest), retired), stranger, count, at)
        newest = Knock.objects.order_by("-last_at").values("pk")[:ROWS]
        Knock.objects.exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()
        Knock.objects.filter(last_at__lt=timezone.now() - FORGET).delete()


def _retired(drivers: Iterable[str]) -> set[tuple[str, str]]:
    """(driver, address) of robots that a gateway passes over because they are out of service."""
    robots = (
        Robot.objects.filter(brand__driver__in=drivers).exclude(retired_at=None) if drivers else Robot.objects.none()
    )
    return {(driver, address or pk) for driver, address, pk in robots.values_list("brand__driver", "address", "pk")}


def _judged(
    stranger: Stranger, credential: RobotCredential | None, retired: Container[tuple[str, str]]
) -> tuple[str, str]:
    """Robot and reason."""
    if credential is not None:
        return credential.robot_id, "retired" if credential.robot.retired_at else "revoked"
    if stranger.driver:
        return stranger.robot, "retired" if (stranger.driver, stranger.robot) in retired else "broker"
    return stranger.robot, "unknown" if stranger.digest else "none"


def _count(robot: str, why: str, stranger: Stranger, count: int, at: datetime) -> None:
    where = {"over": stranger.over, "address": stranger.address, "driver": stranger.driver}
    seen = {"count": F("count") + count, "last_at": at}
    if Knock.objects.filter(robot=robot, why=why, **where).update(**seen):
        return
    most = ROWS_OF_BROKER if stranger.driver else ROWS_OF_ADDRESS
    if Knock.objects.filter(address=stranger.address, driver=stranger.driver).exclude(why=MANY).count() >= most:
        robot, why = "", MANY
        if Knock.objects.filter(robot=robot, why=why, **where).update(**seen):
            return
    Knock.objects.create(robot=robot, why=why, **where, count=count, first_at=at, last_at=at)
