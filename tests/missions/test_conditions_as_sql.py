"""Statements that are written by hand pick the same missions as those of the ORM: open, running, queued."""

from itertools import product

import pytest
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from missions.models import OPEN, OPEN_SQL, QUEUED, QUEUED_SQL, RUNNING, RUNNING_SQL, Mission, State

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("sql", "condition"), [(OPEN_SQL, Q(state__in=OPEN)), (RUNNING_SQL, RUNNING), (QUEUED_SQL, QUEUED)]
)
def test_both_pick_the_same(sql, condition):
    """On every combination of what they look at; the rows are only in this statement, so no rule refuses them."""
    now = timezone.now()
    rows = [Mission(state=s, dispatched_at=d, queued_at=q) for s, d, q in product(State, (None, now), (None, now))]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT number FROM unnest(%s::int[], %s::text[], %s::timestamptz[], %s::timestamptz[])"
            f" m(number, state, dispatched_at, queued_at) WHERE {sql.format('m')}",
            [list(range(len(rows))), [str(r.state) for r in rows], [r.dispatched_at for r in rows], [r.queued_at for r in rows]],
        )  # fmt: skip
        found = {number for (number,) in cursor.fetchall()}
    picked = {n for n, row in enumerate(rows) if _fits(condition, row)}
    assert found == picked
    assert picked and len(picked) < len(rows)


def _fits(condition: Q, row: Mission) -> bool:
    """The condition on a row in memory: every part of these is a look-up joined by AND."""
    tests = {
        "in": lambda value, wanted: value in wanted,
        "isnull": lambda value, wanted: (value is None) is wanted,
        "": lambda value, wanted: value == wanted,
    }
    assert condition.connector == Q.AND
    return all(
        tests[lookup](getattr(row, column), wanted)
        for (column, _, lookup), wanted in ((name.partition("__"), wanted) for name, wanted in condition.children)
    )
