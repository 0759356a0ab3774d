"""What is told at once to open pages: access that was taken away, and nothing else."""

from django.contrib.auth.models import Group, Permission

from telemetry.live import revocation


def test_permissions_that_are_given_are_told_to_nobody(db, monkeypatch, django_capture_on_commit_callbacks):
    told = []
    monkeypatch.setattr(revocation, "tell", lambda: told.append(1))
    group, permission = Group.objects.create(name="newcomers"), Permission.objects.get(codename="view_robot")
    with django_capture_on_commit_callbacks(execute=True):
        group.permissions.add(permission)  # as the first migrate does, when there may be no live Redis yet
    assert not told
    with django_capture_on_commit_callbacks(execute=True):
        group.permissions.remove(permission)
    assert told
