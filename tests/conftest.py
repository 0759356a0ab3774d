"""What all tests share: history is checked after every test that wrote, and rows of transactional ones go after them."""

import gc
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase

from fleet import triggers
from fleet.models import Event
from missions import invariants

settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # tests make many users

HERE = Path(__file__).parent
pytest_plugins = ["tests.actors"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded for the tests stays: to look through all of it for garbage again and again is a quarter of collecting
    them, and a twentieth of the quick tier.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# `make test-quick` leaves out what needs a database, but for these files: one or two for each thing that stands on it
QUICK_WITH_DATABASE = {
    "api": ("missions_api",),
    "fleet": ("access", "admin_stop", "alerts", "history", "robot_words", "rows", "sites_and_maps", "stop", "what_tests_share"),
    "missions": (
        "deadlines", "implied_receipts", "life_of_a_mission", "one_way", "own_word", "queue_rules", "running_missions",
        "step_policies", "stop_before_final", "stopping", "suspending", "templates",
    ),
    "telemetry": ("fragments", "health", "presence", "relay", "snapshots", "stop_views", "worker"),
}  # fmt: skip


def quick_with_database() -> set[Path]:
    return {HERE / app / f"test_{name}.py" for app, names in QUICK_WITH_DATABASE.items() for name in names}


def needs_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db", "django_db_setup"}
    return item.get_closest_marker("django_db") is not None or bool(fixtures & set(getattr(item, "fixturenames", ())))


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    quick = quick_with_database()
    for item in items:
        if needs_database(item) and item.path not in quick:
            item.add_marker("thorough")


def open_files() -> int:
    """Files and sockets of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def left_open() -> Iterator[None]:
    """What was opened between its two steps, and nobody holds any more, is found."""
    before = open_files()
    yield
    if open_files() > before:
        gc.collect()


@pytest.fixture(autouse=True)
def closes_what_it_opens() -> Iterator[None]:
    """A socket or file that a test leaves open is an error of this test, not of the one in which it happens to be found."""
    yield from left_open()


@pytest.fixture(autouse=True)
def history_holds(request: pytest.FixtureRequest):
    """I9 and its neighbours hold at the end of every test that writes missions or robots.

    A test that breaks rows on purpose is marked `tampers`.
    """
    if uses := needs_database(request.node):
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
