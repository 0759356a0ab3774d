"""Many rows at once: arrays as text say what lists say, objects are what the ORM makes, updates hit what they name."""

import uuid
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from fleet import rows
from fleet.models import Robot

pytestmark = pytest.mark.django_db

ARRAYS = [
    ("text", ["plain", "", "two words", "comma, {brace}", "NULL", None, "ünï–✓"]),
    ("text", ['a "quote"', "back\\slash", "line\nbreak", "tab\t", "\x7f"]),
    ("text", ['{"says": "a \\"word\\"", "lines": "one\\ntwo"}', "\\n", '\\"', "\\\\"]),
    ("uuid", [uuid.UUID(int=7), None]),
    ("bigint", [0, -1, 2**53 + 1, None]),
    ("double precision", [0.1, -1e300]),
    ("boolean", [True, False, None]),
    ("timestamptz", [datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC), None]),
    ("text", []),
]


@pytest.mark.parametrize(("kind", "values"), ARRAYS)
def test_an_array_is_read_as_it_was_given(kind, values):
    with connection.wrap_database_errors:
        [found] = rows.ask(f"SELECT %s::{kind}[]", [rows.array(values)]).fetchone()
    assert found == values


def test_json_goes_as_text_whatever_it_escapes():
    """A list would be written value by value, and an event's data always hold quotes."""
    assert isinstance(rows.array(['{"says": "one\\ntwo"}']), str)
    assert isinstance(rows.array(["a real\nbreak"]), list)


def test_objects_are_what_the_orm_makes(robot, other_robot):
    found = rows.fill(Robot, rows.select(Robot, "id", [robot.pk, other_robot.pk, "none"], 'ORDER BY "id"'))
    expected = list(Robot.objects.order_by("id"))
    assert [vars(r) | {"_state": None} for r in found] == [vars(r) | {"_state": None} for r in expected]
    assert all(r._state.db == "default" and not r._state.adding for r in found)
    assert found[0].site.name == expected[0].site.name


def test_an_answer_in_a_pipeline_is_that_of_its_own_question():
    with rows.pipeline():
        answers = [rows.ask("SELECT %s::int", [n]) for n in range(5)]
        assert answers[3].fetchone() == (3,)
    assert [answer.fetchone() for n, answer in enumerate(answers) if n != 3] == [(n,) for n in (0, 1, 2, 4)]


def test_an_error_in_a_pipeline_is_the_first_one(robot):
    from django.db import IntegrityError

    with pytest.raises(IntegrityError, match="robot_needs_event|event of its own"), transaction.atomic():  # noqa: SIM117
        with connection.wrap_database_errors, rows.pipeline():
            rows.ask("UPDATE fleet_robot SET name = 'forged'")
            rows.ask("SELECT 1")
