"""A fact is told to robots, each in one transaction: to one, or to many of whom somebody may hold some."""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from psycopg.errors import LockNotAvailable

from fleet.commit import Conflict, commit, load
from fleet.history import AGGREGATES, Change, Origin
from fleet.refusals import Refused
from fleet.robots.decide import decide
from fleet.verdict import Verdict

AT_ONCE = 25  # robots in one transaction
WAIT_MS = 50  # for a row that somebody holds, before the next one has its turn
GIVE_UP_S = 5.0


def tell(robot_id: str, fact: Any, by: Origin) -> Verdict:
    """`fact`, or a function that makes it of the locked row."""
    now = timezone.now()
    with transaction.atomic():
        # credentials are few and a revoke must find the one it names
        found = load(AGGREGATES["robot"], [robot_id], children={"credentials": Q()})
        if robot_id not in found:
            raise Refused(f"There is no robot {robot_id!r}.")
        return told(found[robot_id], fact(found[robot_id]) if callable(fact) else fact, by, now)


def told(change: Change, fact: Any, by: Origin, now: datetime) -> Verdict:
    change.origin = by
    verdict = decide(change, fact, now)
    commit([change], now=now)
    return verdict


def tell_each(
    robot_ids: Iterable[str],
    fact: Callable[[Change], Any],
    by: Origin,
    done: str,
    not_so: str = "nothing to do",
    *,
    busy: Callable[[list[str]], None] = lambda robots: None,
) -> dict[str, str]:
    """The same for many: those whose rows are free at once, the rest one by one as they become free.

    `busy` is told which ones have to wait.
    """
    said = dict.fromkeys(robot_ids, "")
    words = {Verdict.APPLIED: done}
    free = list(said)
    for start in range(0, len(free), AT_ONCE):
        told = _together(free[start : start + AT_ONCE], fact, by)
        said |= {robot: words.get(verdict, not_so) for robot, verdict in told.items()}
    if waiting := [robot for robot, word in said.items() if not word]:
        busy(waiting)
    ends = time.monotonic() + GIVE_UP_S
    while waiting := [robot for robot, word in said.items() if not word]:
        for robot in waiting:
            try:
                with transaction.atomic():
                    with connection.cursor() as cursor:
                        wait_ms = WAIT_MS if len(waiting) > 1 else int(GIVE_UP_S * 1000)
                        cursor.execute("SELECT set_config('lock_timeout', %s, TRUE)", [f"{wait_ms}ms"])
                    said[robot] = words.get(tell(robot, fact, by), not_so)
            except Refused as refused:
                said[robot] = str(refused)
            except (Conflict, IntegrityError, OperationalError) as error:
                if isinstance(error, OperationalError) and not isinstance(error.__cause__, LockNotAvailable):
                    raise
                if time.monotonic() > ends:
                    said[robot] = f"Not done: something else keeps {robot} busy. Do it again."
    return said


def _together(robot_ids: list[str], fact: Callable[[Change], Any], by: Origin) -> dict[str, Verdict]:
    """One transaction for those whose rows nobody holds. Nothing is done when one of them cannot be written."""
    now = timezone.now()
    try:
        with transaction.atomic():
            found = load(AGGREGATES["robot"], robot_ids, skip_locked=True)
            verdicts = {}
            for robot, change in found.items():
                change.origin = by
                verdicts[robot] = decide(change, fact(change), now)
            commit(found.values(), now=now)
    except (Conflict, IntegrityError):
        return {}
    return verdicts
