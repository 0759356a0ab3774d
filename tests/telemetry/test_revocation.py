"""What is told at once to open pages: access that was taken away, and nothing else (I11)."""

from django.contrib.auth.models import Group, Permission

from fleet.people import sessions
from fleet.signals import person_changed
from telemetry.live import revocation
from tests.actors import SYSTEM


def test_permissions_that_are_given_are_told_to_nobody(db, monkeypatch, django_capture_on_commit_callbacks):
    told = []
    monkeypatch.setattr(revocation, "tell", lambda: told.append(1))
    group, permission = Group.objects.create(name="newcomers"), Permission.objects.get(codename="view_robot")
    with django_capture_on_commit_callbacks(execute=True):
        group.permissions.add(permission)  # as the first migrate does, when there may be no live Redis yet
    assert not told
    with django_capture_on_commit_callbacks() as after_the_commit:
        group.permissions.remove(permission)
        assert not told, "whoever looks before the commit still sees it"
    for tell in after_the_commit:
        tell()
    assert told


def test_a_session_that_is_ended_is_told_at_once(supervisor, client, monkeypatch, django_capture_on_commit_callbacks):
    client.force_login(supervisor)
    client.get("/account/")
    told = []
    monkeypatch.setattr(revocation, "tell", lambda: told.append(1))
    person_changed.disconnect(dispatch_uid="live.revocation.person")  # the event about it is told as well, by itself
    try:
        with django_capture_on_commit_callbacks(execute=True):
            assert sessions.end_sessions(sessions.sessions_of(supervisor), by=SYSTEM) == 1
    finally:
        revocation.connect()
    assert told
