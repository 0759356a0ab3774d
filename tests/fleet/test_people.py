"""People: who manages whom, how access is given, and what their history says."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from fleet.history import by_user, sentence
from fleet.models import Event
from fleet.people import access
from fleet.people.actions import deactivate, edit_person, grant_access, reactivate, set_password
from missions import invariants
from tests.actors import SYSTEM, user

NEW = {"username": "Uma", "password1": "another horse battery", "password2": "another horse battery"}


@pytest.fixture
def hall_admin(site) -> User:
    return user("Hanna", "admin", site)


def kinds(person: User) -> list[str]:
    return list(Event.objects.filter(aggregate=f"person:{person.pk}").order_by("seq").values_list("kind", flat=True))


def test_an_admin_of_one_site_gives_that_site_and_no_other(client, hall_admin, site, other_site):
    client.force_login(hall_admin)
    form = client.get("/admin/auth/user/add/").content.decode()
    assert "Hall 1" in form and "Hall 2" not in form and "all_sites" not in form
    for more in ({"sites": [other_site.pk]}, {"sites": [site.pk, other_site.pk]}, {"all_sites": "on"}):
        assert client.post("/admin/auth/user/add/", {**NEW, "role": "supervisor", **more}).status_code == 200
        assert not User.objects.filter(username="Uma").exists()
    client.post("/admin/auth/user/add/", {**NEW, "role": "admin", "sites": [site.pk]})
    assert access.sites_of(User.objects.get(username="Uma")) == {site.pk}


def test_an_admin_of_one_site_sees_nobody_with_more(
    client, hall_admin, supervisor, other_supervisor, admin_person, site, other_site
):
    both = user("Bea", "auditor", site, other_site)
    root = User.objects.create_superuser("root")
    client.force_login(hall_admin)
    seen = client.get("/admin/auth/user/").content.decode()
    assert "Ana" in seen and "Hanna" in seen
    for hidden in (other_supervisor, admin_person, both, root):
        assert f">{hidden.username}<" not in seen
        for page in ("change", "edit", "password"):
            assert client.get(f"/admin/auth/user/{hidden.pk}/{page}/").status_code == 404
        assert client.post(f"/admin/auth/user/{hidden.pk}/deactivate/").status_code == 404
    assert User.objects.filter(is_active=False).count() == 0


def test_nobody_changes_their_own_access(client, hall_admin, site, other_site):
    client.force_login(hall_admin)
    own = f"/admin/auth/user/{hall_admin.pk}/"
    said = client.post(f"{own}edit/", {"username": "Hanna", "role": "supervisor", "sites": [site.pk]})
    assert "ask another admin" in said.content.decode()
    client.post(f"{own}deactivate/")
    again = User.objects.get(pk=hall_admin.pk)
    assert again.is_active and [g.name for g in again.groups.all()] == ["admin"]
    client.post(f"{own}edit/", {"username": "Hanna", "role": "admin", "sites": [site.pk], "email": "h@example.com"})
    assert User.objects.get(pk=hall_admin.pk).email == "h@example.com"


def test_a_role_without_a_site_is_refused_with_what_to_do(client, admin_person):
    client.force_login(admin_person)
    answer = client.post("/admin/auth/user/add/", {**NEW, "role": "supervisor"})
    assert "Choose at least one site" in answer.content.decode()


@pytest.mark.parametrize("weak", ["short", "password1234", "123456789012", "uma@example.com"])
def test_a_weak_password_is_refused(client, admin_person, weak):
    client.force_login(admin_person)
    data = {**NEW, "password1": weak, "password2": weak, "role": "", "email": "uma@example.com"}
    assert client.post("/admin/auth/user/add/", data).status_code == 200
    assert not User.objects.filter(username="Uma").exists()


def test_everything_about_a_person_is_in_their_history(supervisor, admin_person, site):
    by = by_user(admin_person)
    edit_person(supervisor, by=by, email="ana@example.com", last_name="Kovač")
    deactivate(supervisor, by=by)
    deactivate(supervisor, by=by)  # nothing new
    reactivate(supervisor, by=by)
    set_password(supervisor, "another horse battery", by=by)
    grant_access(supervisor, role="", by=by)
    assert kinds(supervisor) == [
        "person.access_changed", "person.edited", "person.deactivated", "person.reactivated", "person.password_changed",
        "person.access_changed",
    ]  # fmt: skip
    edited = Event.objects.get(aggregate=f"person:{supervisor.pk}", kind="person.edited")
    assert (sentence(edited), edited.actor_name) == ("Edited: last name, e-mail", "Ada")
    assert all("battery" not in data for data in Event.objects.values_list("data", flat=True))


def test_a_page_of_a_person_says_who_where_and_what_happened(client, admin_person, supervisor):
    Client().force_login(supervisor)
    client.force_login(admin_person)
    page = client.get(f"/admin/auth/user/{supervisor.pk}/change/").content.decode()
    for words in ("Supervisor", "Hall 1", "Access: supervisor, Hall 1", "Signed in from", "an unknown device"):
        assert words in page
    assert client.get("/admin/auth/user/").content.decode().count("Supervisor") >= 1


@pytest.mark.tampers
def test_a_role_that_was_given_past_the_door_is_found(supervisor, auditor, admin_person):
    assert invariants.check() == []
    supervisor.groups.add(Group.objects.get(name="admin"))
    auditor.groups.clear()
    User.objects.filter(pk=admin_person.pk).update(is_staff=False)
    stranger = user("Stranger")
    stranger.groups.set(Group.objects.filter(name="admin"))
    found = "\n".join(invariants.check())
    for person in (supervisor, auditor, admin_person, stranger):
        assert f"I11 person:{person.pk} " in found


@pytest.mark.tampers
def test_a_single_permission_is_found(supervisor):
    from django.contrib.auth.models import Permission

    supervisor.user_permissions.add(Permission.objects.get(codename="delete_user"))
    assert [text.partition(" has")[0] for text in invariants.check()] == [f"I11 person:{supervisor.pk}"]


def test_groups_cannot_be_changed_by_anybody(admin_person):
    for person in (admin_person, User.objects.create_superuser("root")):
        client = Client()
        client.force_login(person)
        group = Group.objects.get(name="auditor")
        assert client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "gods"}).status_code == 403
        assert client.get("/admin/auth/group/add/").status_code == 403
    grant_access(admin_person, role="admin", all_sites=True, by=SYSTEM)
