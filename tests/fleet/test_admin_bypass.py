"""Who may do what in admin (I1, I11): every role against every address that changes something; refused changes nothing."""

from contextlib import contextmanager

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.urls import reverse

from fleet.history import by_user
from fleet.models import Brand, Event, Hold, Place, Robot, RobotCredential, Site
from fleet.robots import credentials, stopping
from missions.models import Mission
from tests.actors import user
from tests.fleet.pictures import png

pytestmark = pytest.mark.django_db
ROLES = ("admin", "supervisor", "auditor", "outsider", "anonymous")
MISSION, ROBOT = "/admin/missions/mission/{mission}/", "/admin/fleet/robot/RB-001/"

STEER, MANAGE, NOBODY = {"admin", "supervisor"}, {"admin"}, set()
DRAFT = {
    "title": "T", "site": "{site}", "robot": "RB-001", "priority": "0", "timeout_s": "60",
    "steps-TOTAL_FORMS": "1", "steps-INITIAL_FORMS": "0", "steps-0-command": "navigate", "steps-0-place": "Dock A",
}  # fmt: skip
FORGED = {"state": "success", "version": "1", "dispatched_at_0": "2026-01-01", "_save": "1", "post": "yes"}

# what is posted where, and who may
POSTS = [
    ("/admin/missions/mission/add/", DRAFT, STEER),
    (MISSION + "edit/", {**DRAFT, "version": "1"}, STEER),
    (MISSION + "dispatch/", {"version": "1"}, STEER),
    (MISSION + "cancel/", {"reason": "r"}, STEER),
    (MISSION + "change/", {**DRAFT, **FORGED}, NOBODY),
    (MISSION + "delete/", {"post": "yes"}, NOBODY),
    (ROBOT + "stop/", {}, STEER),
    (ROBOT + "release/", {"number": "{hold}"}, STEER),
    (ROBOT + "retire/", {}, MANAGE),
    (ROBOT + "issue/", {"once": "0" * 32}, MANAGE),
    (ROBOT + "maintain/", {"reason": "brakes", "until": ""}, STEER),
    (ROBOT + "revoke/", {"number": "{credential}"}, MANAGE),
    (ROBOT + "edit/", {"name": "New", "site": "{site}", "brand": "{brand}"}, MANAGE),
    ("/admin/fleet/robot/add/", {"id": "RB-9", "name": "N", "site": "{site}", "brand": "{brand}"}, MANAGE),
    (ROBOT + "change/", {"name": "X", "mode": "idle", **FORGED}, NOBODY),
    (ROBOT + "delete/", {"post": "yes"}, NOBODY),
    ("/admin/fleet/event/add/", {"aggregate": "robot:RB-001", "seq": "9", "kind": "robot.retired", "data": "{}"}, NOBODY),
    ("/admin/fleet/event/{event}/change/", {"data": "{}", "_save": "1"}, NOBODY),
    ("/admin/fleet/event/{event}/delete/", {"post": "yes"}, NOBODY),
    ("/admin/fleet/command/add/", {"robot": "RB-001", "kind": "robot.release", "body": "{}"}, NOBODY),
    ("/admin/missions/deadletter/add/", {"reason": "x"}, NOBODY),
    ("/admin/fleet/site/add/", {"name": "New"}, MANAGE),
    ("/admin/fleet/site/{site}/delete/", {"post": "yes"}, NOBODY),
    ("/admin/fleet/place/add/", {"site": "{site}", "name": "P", "x": "1", "y": "1", "theta": "0"}, MANAGE),
    (
        "/admin/fleet/brand/add/",
        {"name": "B", "driver": "native", "capabilities": "navigate", "suspect_after_s": "9", "offline_after_s": "20",
         "abandon_after_s": "60", "charge_until_pct": "80"},
        MANAGE,
    ),
    ("/admin/fleet/site/{site}/edit/", {"name": "New"}, MANAGE),
    ("/admin/fleet/site/{site}/map/", {"x": "0", "y": "0", "m_per_px": "0.05", "rotation": "0", "picture": "{picture}"}, MANAGE),
    ("/admin/fleet/place/{place}/edit/", {"name": "P", "x": "1", "y": "1", "theta": "0"}, MANAGE),
    ("/admin/fleet/place/{free_place}/remove/", {}, MANAGE),
    (
        "/admin/fleet/brand/{brand}/edit/",
        {"name": "B", "driver": "native", "capabilities": "navigate", "suspect_after_s": "9", "offline_after_s": "20",
         "abandon_after_s": "60", "charge_until_pct": "80"},
        MANAGE,
    ),
    ("/admin/fleet/site/{site}/change/", {"name": "X", **FORGED}, NOBODY),
    ("/admin/fleet/place/{place}/change/", {"name": "X", **FORGED}, NOBODY),
    ("/admin/fleet/brand/{brand}/change/", {"name": "X", **FORGED}, NOBODY),
    ("/admin/fleet/brand/{brand}/delete/", {"post": "yes"}, NOBODY),
    ("/admin/fleet/place/{place}/delete/", {"post": "yes"}, NOBODY),
    ("/admin/auth/user/add/", {"username": "eve", "password1": "correct horse battery", "role": "",
                               "password2": "correct horse battery", "is_superuser": "on"}, MANAGE),
    ("/admin/auth/group/add/", {"name": "gods"}, NOBODY),
]  # fmt: skip


@pytest.fixture
def world(robot, other_robot, mission, admin_person):
    """A robot with a hold and a credential, and a mission that is drawn up for it. Returns ids for the table."""
    by = by_user(admin_person)
    credentials.issue_credential("RB-001", by=by)
    stopping.stop_robot("RB-001", by=by)
    stopping.release_robot("RB-001", by=by)
    mission_id = mission.pk
    return {
        "mission": mission_id, "site": robot.site_id, "brand": robot.brand_id, "event": Event.objects.first().pk,
        "place": Place.objects.get(site=robot.site, name="Dock A").pk,
        "free_place": Place.objects.get(site=robot.site, name="Charger 1").pk,
        "hold": Hold.objects.get().number, "credential": RobotCredential.objects.get().number,
    }  # fmt: skip


def state_of_all() -> dict:
    """Everything that a bypass could have changed."""
    return {
        "missions": list(Mission.objects.order_by("pk").values()),
        "robots": list(Robot.objects.order_by("pk").values()),
        "events": list(Event.objects.order_by("pk").values_list("pk", "aggregate", "seq")),
        "holds": list(Hold.objects.order_by("pk").values()),
        "credentials": list(RobotCredential.objects.order_by("pk").values()),
        "sites": list(Site.objects.order_by("pk").values()),
        "places": list(Place.objects.order_by("pk").values()),
        "brands": list(Brand.objects.order_by("pk").values()),
        "users": list(User.objects.order_by("pk").values("username", "is_superuser", "is_staff", "password")),
        "groups": sorted(Group.objects.values_list("name", flat=True)),
    }


def signed_in(role: str) -> Client:
    client = Client()
    if role != "anonymous":
        client.force_login(user(f"the {role}", *({role} - {"outsider"})))
    return client


@contextmanager
def undone():
    """What happens inside has not happened afterwards: one world serves every role."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.parametrize(("url", "data", "allowed"), POSTS, ids=[url.replace("/admin/", "") for url, _, _ in POSTS])
def test_who_may_post_what(world, url, data, allowed):
    data = {
        name: value.format(**world, picture="") if value.startswith("{") and value != "{}" else value
        for name, value in data.items()
    }
    url = url.format(**world)
    for role in ROLES:
        client = signed_in(role)
        if "picture" in data:
            data["picture"] = SimpleUploadedFile("plan.png", png())
        before = state_of_all()
        with undone():
            answer = client.post(url, data)
            after = state_of_all()
        if role in allowed:
            assert answer.status_code in (200, 302), role
            if not (url.endswith("release/")):  # that hold is released already: a sentence, and nothing to do
                assert after != before, role
        elif role == "anonymous":
            assert after == before, role
            assert answer.status_code == 302
            assert answer.url.startswith("/login/?next=/admin/")
        else:
            assert after == before, role
            assert answer.status_code == 403, role


@pytest.mark.parametrize("verb", ["dispatch", "pause", "resume", "cancel"])
def test_a_button_is_a_post_only(world, verb):
    for role in ROLES:
        client = signed_in(role)
        before = state_of_all()
        answer = client.get(f"/admin/missions/mission/{world['mission']}/{verb}/")
        assert answer.status_code == {"anonymous": 302, "outsider": 403}.get(role, 405), role
        assert state_of_all() == before, role


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_who_may_steer_what_a_robot_has(dispatched, verb):
    for role in ROLES:
        client = signed_in(role)
        before = state_of_all()
        with undone():
            answer = client.post(
                f"/admin/missions/mission/{dispatched.pk}/{verb}/", {"version": str(dispatched.version)}
            )
            after = state_of_all()
        assert answer.status_code == (403 if role in ("auditor", "outsider") else 302), role
        assert (after != before) == (role in STEER), role


def test_a_post_without_csrf_token_is_refused(world):
    client = Client(enforce_csrf_checks=True)
    client.force_login(user("Ana 2", "supervisor"))
    before = state_of_all()
    for url in (f"/admin/missions/mission/{world['mission']}/cancel/", ROBOT + "stop/", "/admin/missions/mission/add/"):
        assert client.post(url).status_code == 403
    assert state_of_all() == before


@pytest.mark.tampers
@pytest.mark.parametrize("verb", ["dispatch_mission", "cancel_mission", "pause_mission", "resume_mission"])
def test_each_button_asks_for_its_own_permission(world, verb):
    person = user("Tom", "supervisor")
    person.groups.clear()
    have = set(Group.objects.get(name="supervisor").permissions.values_list("codename", flat=True)) - {verb}
    person.user_permissions.set(Permission.objects.filter(codename__in=have))
    client = Client()
    client.force_login(person)
    before = state_of_all()
    url = f"/admin/missions/mission/{world['mission']}/"
    assert client.post(f"{url}{verb.split('_')[0]}/", {"version": "1"}).status_code == 403
    assert state_of_all() == before
    assert verb.split("_")[0] not in {b.verb for b in client.get(f"{url}change/").context["buttons"]}
    data = {**DRAFT, "site": world["site"], "_run": "1"}
    if verb == "dispatch_mission":
        assert client.post("/admin/missions/mission/add/", data).status_code == 403
        assert state_of_all() == before


@pytest.mark.parametrize("role", ["admin", "supervisor", "auditor"])
def test_viewers_can_open_every_page(world, role):
    client = signed_in(role)
    pages = ["/admin/", f"/admin/missions/mission/{world['mission']}/change/", ROBOT + "change/"]
    pages += [
        f"/admin/{name}/" for name in ("missions/mission", "fleet/robot", "fleet/site", "fleet/place", "fleet/brand")
    ]
    pages += [f"/admin/{name}/" for name in ("fleet/event", "fleet/command", "missions/deadletter")]
    pages += [f"/admin/fleet/{name}/{world[name]}/change/" for name in ("site", "place", "brand", "event")]
    for url in pages:
        assert client.get(url).status_code == 200, url
    history = client.get(f"/admin/missions/mission/{world['mission']}/history/")
    assert history.url.endswith("/change/#history")


admin.autodiscover()


@pytest.mark.parametrize("model", [m for m in admin.site._registry if m._meta.app_label in ("fleet", "missions")])
def test_no_list_deletes_or_edits(world, model):
    """Not even for a superuser: no bulk actions, no editable lists, no delete."""
    page = admin.site.get_model_admin(model)
    assert page.actions is None
    assert not page.list_editable
    assert not page.inlines
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    row = model.objects.first()
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    before = state_of_all()
    data = {
        "action": "delete_selected",
        "_selected_action": [row.pk if row else 1],
        "post": "yes",
        "form-TOTAL_FORMS": "1",
    }
    client.post(url, data)
    if row:
        delete = reverse(
            f"admin:{model._meta.app_label}_{model._meta.model_name}_delete", args=[admin.utils.quote(row.pk)]
        )
        assert client.post(delete, {"post": "yes"}).status_code == 403
    assert state_of_all() == before


# people: nobody gives, or takes over, more rights than their own

NEW = {"new_password1": "another horse battery", "new_password2": "another horse battery"}


def change(client: Client, person: User, **data: object):
    form = {"username": person.username, "all_sites": "on", **data}
    return client.post(f"/admin/auth/user/{person.pk}/edit/", form)


def test_an_admin_gives_roles_and_nothing_else(client, admin_person):
    client.force_login(admin_person)
    person = user("Tom")
    secret = Permission.objects.get(codename="delete_user")
    change(client, person, role="supervisor", is_superuser="on", user_permissions=[secret.pk], groups=[1, 2, 3])
    person = User.objects.get(pk=person.pk)
    assert (person.is_superuser, person.is_staff) == (False, True)
    assert [g.name for g in person.groups.all()] == ["supervisor"]
    assert not person.user_permissions.exists()


def test_a_new_person_gets_the_role_on_the_same_page_and_may_enter(client, admin_person, site):
    client.force_login(admin_person)
    new = {"username": "Uma", "password1": "another horse battery", "password2": "another horse battery"}
    client.post("/admin/auth/user/add/", {**new, "role": "supervisor", "sites": [site.pk]})
    person = User.objects.get(username="Uma")
    assert ([g.name for g in person.groups.all()], person.is_staff, person.is_superuser) == (
        ["supervisor"],
        True,
        False,
    )
    client.force_login(person)
    assert client.get("/admin/missions/mission/add/").status_code == 200


def test_a_role_given_later_opens_the_admin_pages(client, admin_person):
    client.force_login(admin_person)
    person = User.objects.create_user("Vic", password="correct horse battery")
    change(client, person, role="")
    assert not User.objects.get(pk=person.pk).is_staff
    change(client, person, role="auditor")
    assert User.objects.get(pk=person.pk).is_staff


@pytest.mark.tampers
@pytest.mark.parametrize("way", ["superuser", "permission", "group"])
def test_an_admin_cannot_touch_somebody_with_more_rights(client, admin_person, way):
    """Neither the page, nor the password: that would be taking over."""
    person = user("Root")
    more = Permission.objects.get(codename="delete_user")
    match way:
        case "superuser":
            person.is_superuser = True
            person.save()
        case "permission":
            person.user_permissions.add(more)
        case "group":
            group = Group.objects.create(name="gods")
            group.permissions.add(more)
            person.groups.add(group)
    client.force_login(admin_person)
    before = state_of_all()
    assert client.post(f"/admin/auth/user/{person.pk}/password/", NEW).status_code == 403
    assert change(client, person, email="eve@example.com").status_code == 403
    for verb in ("deactivate", "reactivate", "end", "unlock"):
        assert client.post(f"/admin/auth/user/{person.pk}/{verb}/").status_code == 403
    assert state_of_all() == before


def test_an_admin_can_set_the_password_of_an_equal_or_lesser(client, admin_person):
    client.force_login(admin_person)
    person = user("Tom", "supervisor")
    assert client.post(f"/admin/auth/user/{person.pk}/password/", NEW).status_code == 302
    assert User.objects.get(pk=person.pk).check_password("another horse battery")
