"""Delivery records: transport tries of commands, gathered in memory and written once a second in one statement.

A process that is killed loses the counts of its last second. That a command may have left is not told by them but by
`Command.sent_at`, which is committed before its first byte goes.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection

from telemetry.one_connection import OneConnection

EVERY_S = 1.0
KEPT = 20_000  # commands whose tries wait while the database is away

log = logging.getLogger(__name__)


class Over(Protocol):
    """The link that something was sent over."""

    over: str
    session: int


@dataclass(slots=True)
class Tried:
    """Tries of one command that are not written yet."""

    tries: int
    first_at: datetime | None
    last_at: datetime | None
    over: str
    session: int
    error: str


class Tries:
    """`note` from the task that sends; `run` writes."""

    def __init__(self, rows: OneConnection, gateway: str) -> None:
        self._rows, self._gateway = rows, gateway
        self._noted: dict[UUID, Tried] = {}

    def note(self, link: Over, sent: Iterable[UUID], not_sent: Iterable[UUID], why: str, at: datetime) -> None:
        """What left over this link is a try; what could not leave is none, and its error is kept."""
        for command in sent:
            if (tried := self._of(command, link)) is not None:
                tried.tries, tried.error = tried.tries + 1, ""
                tried.first_at, tried.last_at = tried.first_at or at, at
        for command in not_sent:
            if (tried := self._of(command, link)) is not None:
                tried.error = why[:500].replace("\0", "\N{REPLACEMENT CHARACTER}")

    def _of(self, command: UUID, link: Over) -> Tried | None:
        tried = self._noted.get(command)
        if tried is None and len(self._noted) < KEPT:
            tried = self._noted[command] = Tried(0, None, None, "", 0, "")
        if tried is not None:
            tried.over, tried.session = link.over, link.session
        return tried

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
            await self._rows.ask(record, self._gateway, noted)
        except DatabaseError as error:
            log.debug("%d delivery records wait: %s", len(noted), error)
            self._put_back(noted)

    def _put_back(self, noted: dict[UUID, Tried]) -> None:
        for command, newer in self._noted.items():
            if (older := noted.get(command)) is not None:
                newer.tries += older.tries
                newer.first_at = older.first_at or newer.first_at
                newer.last_at = newer.last_at or older.last_at
        self._noted = noted | self._noted


def record(gateway: str, noted: dict[UUID, Tried]) -> None:
    """Add to the delivery records. Runs in a thread of the gateway; locks nothing but these rows, in one order."""
    rows = sorted((command, *_columns(t)) for command, t in noted.items())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fleet_delivery AS d (command_id, tries, first_at, last_at, over, session, error, gateway)"
            " SELECT k.*, %s FROM unnest(%s::uuid[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::text[],"
            " %s::bigint[], %s::text[]) AS k(command_id, tries, first_at, last_at, over, session, error)"
            " JOIN fleet_command c ON c.id = k.command_id ORDER BY k.command_id"
            " ON CONFLICT (command_id) DO UPDATE SET tries = d.tries + EXCLUDED.tries,"
            " first_at = coalesce(d.first_at, EXCLUDED.first_at), last_at = coalesce(EXCLUDED.last_at, d.last_at),"
            " over = EXCLUDED.over, session = EXCLUDED.session, error = EXCLUDED.error, gateway = EXCLUDED.gateway",
            [gateway, *(list(column) for column in zip(*rows, strict=True))],
        )


def _columns(tried: Tried) -> tuple[Any, ...]:
    return tried.tries, tried.first_at, tried.last_at, tried.over, tried.session, tried.error
