"""Watches Drover itself and what no event tells of, by telemetry/watching/checks.py: opens and clears alerts, says what is wrong.

Of several workers one at a time opens and clears. What holds is said in the log, in a figure and in a note for
`/readyz` as well: a database that takes no writes has no alerts.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.utils import timezone

from fleet.alerts.actions import SYSTEM, clear_alert, raise_alert
from fleet.models import Severity
from telemetry import clocks, metrics
from telemetry.watching import causes, notices
from telemetry.watching.causes import CAUSES
from telemetry.watching.checks import CHECKS, Checks, Found, Founds, open_causes

_LOCK = 0x0D0A1E  # advisory lock
WORTH_SAYING = timedelta(seconds=15)  # shorter than a planned restart takes

log = logging.getLogger(__name__)


class Watch:
    """`step` every few seconds, in a thread of its own: a store that does not answer may take its time here."""

    def __init__(self, name: str = "", moment: Callable[[], clocks.Moment] = clocks.read) -> None:
        self.name = name
        self.checks = Checks(moment)
        self._told: dict[str, str] = {}
        self._by_writing: Founds = {}  # what writing found wrong with the database, until it succeeds
        self._no_writes_since: datetime | None = None

    def step(self, now: datetime) -> bool:
        """Look once. Says whether anything had to be opened or cleared."""
        seen = [(names, self._look(check, now)) for names, check in CHECKS]  # no transaction waits for a store
        done = self._write(seen, now)
        holds = self._by_writing | {c: one for _, found in seen if found is not None for c, one in found.items()}
        self._tell({cause: one.text for cause, one in holds.items() if not one.robot})
        return done

    def _look(self, check: Callable[[Checks, datetime], Founds | None], now: datetime) -> Founds | None:
        try:
            return check(self.checks, now)
        except DatabaseError as error:
            self._blame(error)
            return None

    def _write(self, seen: list[tuple[tuple[str, ...], Founds | None]], now: datetime) -> bool:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT pg_try_advisory_xact_lock(%s), pg_current_xact_id()", [_LOCK])  # needs to write
                ours = bool(cursor.fetchone()[0])
                done = [self._settle(names, found, now) for names, found in seen] if ours else []
                done += [self._say_afterwards(now)]
        except DatabaseError as error:
            self._blame(error)
            self._no_writes_since = self._no_writes_since or now
            return False
        self._by_writing, self._no_writes_since = {}, None
        return any(done)

    def _say_afterwards(self, now: datetime) -> bool:
        """While nothing could be written there was no alert; somebody should know all the same."""
        if self._no_writes_since is None or now - self._no_writes_since < WORTH_SAYING:
            return False
        why = next(iter(self._by_writing.values())).text if self._by_writing else ""
        lasted = causes.span((now - self._no_writes_since).total_seconds())
        text = f"The database took no writes for {lasted}. It does now. It was: {why}"
        raise_alert("database_was_away", severity=Severity.WARNING, text=text, lasts=False, now=now)
        return True

    def _blame(self, error: Exception) -> None:
        """Remember what is wrong with the database. Raises what is not its fault."""
        told = causes.of_database(error)
        if told is None:
            raise error
        name, text = told
        self._by_writing = {name: Found(CAUSES[name].severity, text)}
        if not connection.in_atomic_block:
            connection.close()

    def _settle(self, names: tuple[str, ...], found: Founds | None, now: datetime) -> bool:
        """Open what holds and is not open, clear what holds no more."""
        if found is None:
            return False
        ours = [cause for name in names for cause in open_causes(name)]
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

    def _tell(self, holds: dict[str, str]) -> None:
        """In the log once, in the figures and the note as long as it holds."""
        for cause, text in holds.items():
            if cause not in self._told:
                log.error("%s: %s", cause, text)
        for cause in self._told.keys() - holds.keys():
            log.info("%s: it is over", cause)
        self._told = holds
        metrics.trouble(holds)
        notices.put(self.name, holds)


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
