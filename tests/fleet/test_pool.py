"""The requests of a web process share connections to the database; what stops robots waits for none of them."""

import threading

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import RequestFactory

from fleet.web import pool
from tests.access import table


@pytest.mark.parametrize(("path", "waits"), [
    ("/fleet/stop?site=1", False), ("/fleet/robots/RB-001/stop", False), ("/admin/fleet/site/1/stop_all/", False),
    ("/api/v1/missions/x/cancel", False), ("/fleet/release", True), ("/fleet/robots/stop/release", True),
])  # fmt: skip
def test_who_waits_for_no_connection(path, waits):
    assert pool.never_waits(RequestFactory().post(path)) is not waits
    assert not pool.never_waits(RequestFactory().get(path))


def test_every_stop_and_cancel_of_the_site_is_among_them():
    posts = {
        route.rstrip("/").rpartition("/")[2] for route, line in table.LINES.items() if line.post != table.NOT_ALLOWED
    }
    assert {name for name in posts if "stop" in name or "cancel" in name} == pool.NEVER_WAIT


@pytest.mark.django_db(transaction=True)
def test_requests_share_what_there_is_and_a_stop_has_its_own(monkeypatch):
    """One connection, which one request holds: the next gives up in time, a stop is served, and it goes on afterwards."""
    before = connection.settings_dict
    connection.close()
    connection.settings_dict = {**before, "OPTIONS": {**before["OPTIONS"]}}
    monkeypatch.setattr(settings, "DB_CONNECTIONS", 1)
    monkeypatch.setattr(pool, "WAIT_S", 0.3)
    pool.install()
    shared, found = connection.settings_dict, {}

    def request(name: str, *, own: bool = False) -> None:
        connection.settings_dict = shared
        if own:
            pool.own(0)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            found[name] = "served"
        except OperationalError as error:
            found[name] = type(error.__cause__).__name__
        finally:
            connection.close()

    def meanwhile(name: str, **how) -> None:
        thread = threading.Thread(target=request, args=(name,), kwargs=how)
        thread.start()
        thread.join(20)

    try:
        connection.ensure_connection()
        meanwhile("page")
        meanwhile("stop", own=True)
        connection.close()
        meanwhile("next page")
    finally:
        connection.close()
        connection.close_pool()
        connection.settings_dict = before
    assert found == {"page": "PoolTimeout", "stop": "served", "next page": "served"}
