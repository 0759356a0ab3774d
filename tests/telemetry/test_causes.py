"""What a store raises is told apart: read-only, full, away; and what is our own fault is none of these."""

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from telemetry.watching.causes import CAUSES, of_database, span


def raised(sql: str) -> Exception:
    with pytest.raises(DatabaseError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    return caught.value


def state(code: str, text: str = "it was so") -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION '{text}' USING ERRCODE = '{code}'; END $$"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sql", "cause"),
    [
        ("SET TRANSACTION READ ONLY; CREATE TABLE x (y int)", "database_read_only"),
        (state("53100"), "database_full"),
        (state("58030", "could not write: No space left on device"), "database_full"),
        (state("XX000", "PANIC: No space left on device"), "database_full"),
        (state("57P01", "terminating connection"), "database_down"),
        (state("57P03", "the database system is starting up"), "database_down"),
        (state("57014", "canceling statement due to user request"), None),
        (state("40P01", "deadlock detected"), None),
        (state("53300", "too many clients already"), None),
        ("SELECT 1/0", None),
        ("SELECT nothing", None),
    ],
)
def test_by_sqlstate(sql, cause):
    told = of_database(raised(sql))
    assert (told and told[0]) == cause
    if told:
        assert f"docs/trouble/{CAUSES[told[0]].page}" in told[1]


def test_a_connection_that_cannot_be_made():
    error = OperationalError("connection failed: Connection refused")
    error.__cause__ = psycopg.OperationalError("connection failed")
    assert of_database(error)[0] == "database_down"


def test_other_errors_are_not_the_databases():
    assert of_database(ValueError("no")) is None


def test_why_is_told_wherever_the_database_is():
    """Its address stands before the reason, and may be long."""
    where = f'connection failed: connection to server on socket "/srv/{"hall/" * 30}.s.PGSQL.5432" failed: FATAL: '
    name, text = of_database(OperationalError(f"{where}could not write init file: No space left on device"))
    assert name == "database_full" and "No space left on device)" in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (119, "119 s"), (180, "3 min"), (7199, "120 min"), (7200, "2 h"), (172_800, "2 days"), (31_622_400, "366 days")],
)  # fmt: skip
def test_a_span_is_told_in_a_unit_that_fits(seconds, said):
    """A robot whose clock is a year off was "527040 min ahead"."""
    assert span(seconds) == said
