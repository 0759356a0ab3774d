"""What all tests share: history is checked after every test that wrote, and a flush may truncate history."""

import gc

import pytest
from django.conf import settings
from django.test import TransactionTestCase

from fleet import triggers
from fleet.models import Event
from missions import invariants

settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # tests make many users

pytest_plugins = ["tests.actors"]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: looking through it for garbage again and again is a twentieth of the quick tier."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def history_holds(request: pytest.FixtureRequest):
    """I9 and its neighbours hold at the end of every test that writes missions or robots.

    A test that breaks rows on purpose is marked `tampers`.
    """
    wants = {"db", "transactional_db", "django_db_setup"} & set(request.fixturenames)
    uses = bool(wants) or request.node.get_closest_marker("django_db") is not None
    if uses:
        transactional = "transactional_db" in request.fixturenames or (
            (mark := request.node.get_closest_marker("django_db")) and mark.kwargs.get("transaction")
        )
        request.getfixturevalue("transactional_db" if transactional else "db")
    yield
    if uses and not request.node.get_closest_marker("tampers") and Event.objects.exists():
        assert invariants.check() == []
        assert triggers.problems() == []


_teardown = TransactionTestCase._fixture_teardown


def _flush_without_triggers(self: TransactionTestCase) -> None:
    """Django empties every table after a transactional test; the triggers refuse that, as they should."""
    triggers.drop()
    _teardown(self)
    triggers.create()


TransactionTestCase._fixture_teardown = _flush_without_triggers
