"""What all tests share: history is checked after every test that wrote, and rows of transactional ones go after them."""

import gc

import pytest
from django.conf import settings
from django.db import connection
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


OF_MIGRATE = ("django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions")
EMPTY = f"""
DO $$
DECLARE found regclass; filled boolean; guarded name;
BEGIN
  SET LOCAL session_replication_role = replica;
  FOR found IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
    AND relname <> ALL ('{{{",".join(OF_MIGRATE)}}}')
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', found) INTO filled;
    CONTINUE WHEN NOT filled;
    EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', found);
    EXECUTE format('DELETE FROM %s', found);
    FOR guarded IN SELECT tgname FROM pg_trigger WHERE tgrelid = found AND NOT tgisinternal LOOP
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %s', found, guarded);
    END LOOP;
  END LOOP;
END $$"""


def _empty(self: TransactionTestCase) -> None:
    """After a transactional test its rows go, and those that migrate made stay; all of it in one statement.

    Django's flush would empty every table and make permissions and roles anew, which is dearer than most tests; the
    triggers refuse either, as they should. Foreign keys are not looked at meanwhile: all of them lose both ends.
    """
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)
    if triggers.problems():  # the test took some away; one that may not was told so by `history_holds`
        triggers.create()


TransactionTestCase._fixture_teardown = _empty
