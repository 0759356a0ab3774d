"""A transactional test leaves nothing, what is left open is found at once; what is quick is there."""

import socket
import sys

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

from fleet import triggers
from tests.conftest import EMPTY, OF_MIGRATE, left_open, quick_with_database


@pytest.mark.django_db(transaction=True)
def test_a_transactional_test_leaves_nothing_but_what_migrate_made(dispatched, admin_person):
    assert not triggers.problems()
    groups = Group.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)
        for table in set(connection.introspection.table_names()) - set(OF_MIGRATE):
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            assert cursor.fetchone() == (0,), table
    assert not triggers.problems()
    assert (Group.objects.count(), User.objects.count()) == (groups, 0)


def test_what_a_test_leaves_open_is_found_when_it_ends(monkeypatch):
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: found.append(str(about.exc_value)))
    steps = left_open()
    next(steps)
    ring = [socket.socket()]
    ring.append(ring)  # as a transport and its protocol hold each other
    del ring
    assert not found
    next(steps, None)
    assert len(found) == 1 and "unclosed <socket" in found[0]


def test_files_that_are_quick_are_there(request):
    assert [path for path in quick_with_database() if not path.exists()] == []
    assert request.node.get_closest_marker("thorough") is None
