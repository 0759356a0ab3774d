"""Gauges about the whole site, told by one process only: the worker that owns partition 0.

Asked for when somebody scrapes, and remembered for a few seconds. Every query walks an index of what is open or a
small table, so a long history costs nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from django.db import Error as DatabaseError
from django.db import connection
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from missions.models import OPEN
from telemetry.out.behind import AGES

log = logging.getLogger(__name__)
KEEP_S = 5.0
TIMEOUT_MS = 2000


_OPEN = ", ".join(f"'{state}'" for state in OPEN)


class Question(NamedTuple):
    """One gauge: its name, what it says, its label if any, and the SQL that gives (label, number) or (number,)."""

    name: str
    text: str
    label: str
    sql: str


QUESTIONS = (
    Question(
        "missions_open", "Missions that have not ended.", "state",
        f"SELECT state, count(*) FROM missions_mission WHERE state IN ({_OPEN}) GROUP BY 1",
    ),
    Question(
        "missions_overdue", "Open missions whose next deadline passed more than 10 s ago.", "",
        "SELECT count(*) FROM missions_mission WHERE next_due_at < now() - interval '10 seconds'",
    ),
    Question(
        "robots", "Robots in service.", "presence",
        "SELECT presence, count(*) FROM fleet_robot WHERE retired_at IS NULL GROUP BY 1",
    ),
    Question("holds_open", "Reasons why robots are held.", "kind",
             "SELECT kind, count(*) FROM fleet_hold WHERE released_at IS NULL GROUP BY 1"),
    Question("dead_letters_kept", "Dead letters that somebody should look at.", "direction",
             "SELECT direction, count(*) FROM missions_deadletter WHERE state IN ('open', 'failed') GROUP BY 1"),
    Question("alerts_open", "Alerts that nobody has cleared.", "severity",
             "SELECT severity, count(*) FROM fleet_alert WHERE cleared_at IS NULL GROUP BY 1"),
    Question("commands_open", "Commands that no robot has acknowledged.", "",
             "SELECT count(*) FROM fleet_command WHERE state = 'open'"),
    Question("outbox_events", "Events that wait for the out stream.", "", "SELECT count(*) FROM fleet_outbox"),
    Question("follower_behind_seconds", "Age of the oldest event that a group has not had.", "group", AGES),
)  # fmt: skip
ANSWERED = "drover_site_known"


class Site(Collector):
    """`is_ours` says whether this process tells of the site now."""

    def __init__(self, is_ours: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self.is_ours, self.clock = is_ours, clock
        self._asked_at = float("-inf")
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Names, without asking the database."""
        return [self._family(question, ()) for question in QUESTIONS]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if not self.is_ours():
            return
        if self.clock() - self._asked_at > KEEP_S:
            self._rows, self._asked_at = _ask(), self.clock()
        for question in QUESTIONS:
            if question.name in self._rows:
                yield self._family(question, self._rows[question.name])
        yield GaugeMetricFamily(ANSWERED, "1 when the database answered for the site.", value=float(bool(self._rows)))

    def _family(self, question: Question, rows: Iterable[tuple[Any, ...]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            f"drover_{question.name}", question.text, labels=[question.label] if question.label else []
        )
        for *labels, number in rows:
            family.add_metric([str(label) for label in labels], number)
        return family


def _ask() -> dict[str, list[tuple[Any, ...]]]:
    """Rows by question; empty when the database does not answer. In a thread of the scrape, with its own connection."""
    alone = not connection.in_atomic_block
    try:
        with connection.cursor() as cursor:
            if alone:
                cursor.execute("SELECT set_config('statement_timeout', %s, FALSE)", [str(TIMEOUT_MS)])
            found = {}
            for question in QUESTIONS:
                cursor.execute(question.sql)
                found[question.name] = cursor.fetchall()
            return found
    except DatabaseError as error:
        log.warning("no figures of the site: %s", " ".join(str(error).split()))
        return {}
    finally:
        if alone:
            connection.close()
