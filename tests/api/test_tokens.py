"""API tokens: who they act for, what they let through, when they end, and what history keeps of them."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone

from fleet.models import ApiToken, Event
from fleet.people.actions import grant_access
from fleet.people.roles import ROLES
from fleet.people.tokens import SCOPES, issue_token, revoke_token, token_of
from fleet.refusals import Refused
from fleet.robots.credentials import digest_of
from tests.actors import SYSTEM, user
from tests.api.conftest import Caller

# method, path, body, permission
CALLS = [
    ("GET", "/missions", None, "missions.view_mission"),
    ("GET", "/missions/{mission}", None, "missions.view_mission"),
    ("GET", "/missions/{mission}/events", None, "missions.view_mission"),
    ("POST", "/missions", {"title": "A", "site": 1, "steps": [], "run": False}, "missions.add_mission"),
    ("POST", "/missions/{mission}/run", {}, "missions.dispatch_mission"),
    ("POST", "/missions/{mission}/cancel", {}, "missions.cancel_mission"),
    ("POST", "/missions/{mission}/pause", None, "missions.pause_mission"),
    ("POST", "/missions/{mission}/resume", {}, "missions.resume_mission"),
    ("POST", "/missions/{mission}/rerun", {"run": False}, "missions.add_mission"),
    ("GET", "/sites", None, "fleet.view_site"),
    ("GET", "/sites/{site}/places", None, "fleet.view_place"),
    ("GET", "/robots", None, "fleet.view_robot"),
    ("GET", "/robots/RB-001", None, "fleet.view_robot"),
    ("POST", "/robots/RB-001/stop", {}, "fleet.stop_robot"),
    ("POST", "/robots/RB-001/release", None, "fleet.release_robot"),
    ("POST", "/sites/{site}/stop", {}, "fleet.stop_robot"),
]
NAMES = [f"{method} {path}" for method, path, *_ in CALLS]


def call(caller: Caller, mission, method, path, body):
    return caller(method, path.format(mission=mission.pk, site=mission.site_id), body)


def scope_of(permission: str) -> str:
    return next(name for name, (_, lets) in SCOPES.items() if permission in lets)


@pytest.mark.parametrize(("method", "path", "body", "permission"), CALLS, ids=NAMES)
def test_a_call_needs_its_scope_and_names_it(caller, supervisor, mission, method, path, body, permission):
    needed = scope_of(permission)
    without = caller(supervisor, *(set(SCOPES) - {needed}))
    answer = call(without, mission, method, path, body)
    assert (answer.status_code, needed in answer.said["detail"]) == (403, True)
    assert call(caller(supervisor, needed), mission, method, path, body).status_code != 403


@pytest.mark.parametrize(("method", "path", "body", "permission"), CALLS, ids=NAMES)
def test_a_call_needs_its_persons_permission(caller, supervisor, mission, method, path, body, permission):
    program = caller(supervisor)
    app, _, codename = permission.partition(".")
    Group.objects.get(name="supervisor").permissions.remove(
        Permission.objects.get(content_type__app_label=app, codename=codename)
    )
    answer = call(program, mission, method, path, body)
    assert (answer.status_code, "Ana" in answer.said["detail"]) == (403, True)


@pytest.mark.parametrize(("method", "path", "body", "permission"), CALLS, ids=NAMES)
@pytest.mark.parametrize("token", ["", "drover_api_wrong", "x" * 5000, "ünïcode"])
def test_without_a_valid_token_nothing_is_told(mission, token, method, path, body, permission):
    answer = call(Caller(token), mission, method, path, body)
    assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert "Fetch" not in answer.content.decode()


@pytest.mark.parametrize(("method", "path", "body", "permission"), CALLS, ids=NAMES)
def test_other_sites_do_not_exist(other_program, mission, method, path, body, permission):
    if path == "/missions" and method == "POST":
        body = {**body, "site": mission.site_id, "steps": [{"command": "wait", "params": {"seconds": 1}}]}
    answer = call(other_program, mission, method, path, body)
    assert answer.status_code == (200 if path in ("/missions", "/sites", "/robots") and method == "GET" else 404)
    for secret in ("Fetch", "Ella", "Hall 1"):
        assert secret not in answer.content.decode()


def test_every_scope_lets_through_only_what_some_role_may():
    known = set().union(*ROLES.values())
    for _, lets in SCOPES.values():
        assert lets <= known


def test_a_token_ends_with_its_revocation_its_time_and_its_person(caller, supervisor):
    program = caller(supervisor, "robots:read")
    number = ApiToken.objects.get().number
    assert program("GET", "/robots").status_code == 200
    assert token_of(program.token, timezone.now())
    now = timezone.now()  # at the very moment as well
    for end in ({"expires_at": now}, {"revoked_at": now}):
        token = ApiToken.objects.create(
            person_id=supervisor.pk, number=900 + len(end), label="x", scopes=["robots:read"], digest=None,
            issued_at=now, **end,
        )  # fmt: skip
        ApiToken.objects.filter(pk=token.pk).update(digest=digest_of("drover_api_x"))
        assert token_of("drover_api_x", now) is None
        token.delete()
    User.objects.filter(pk=supervisor.pk).update(is_active=False)
    assert program("GET", "/robots").status_code == 401
    User.objects.filter(pk=supervisor.pk).update(is_active=True)
    assert program("GET", "/robots").status_code == 200
    assert revoke_token(supervisor.pk, number, by=SYSTEM)
    assert not revoke_token(supervisor.pk, number, by=SYSTEM)
    assert program("GET", "/robots").status_code == 401


def test_a_token_follows_its_persons_sites_at_once(program, supervisor, mission, other_site):
    assert program("GET", f"/missions/{mission.pk}").status_code == 200
    grant_access(supervisor, role="supervisor", sites=[other_site], by=SYSTEM)
    assert program("GET", f"/missions/{mission.pk}").status_code == 404


def test_history_holds_the_token_but_not_the_secret(supervisor):
    secret = issue_token(supervisor, label="call button", scopes=["missions:write"], by=SYSTEM)
    event = Event.objects.get(aggregate=f"person:{supervisor.pk}", kind="person.token_issued")
    assert "call button" in event.data
    assert secret not in event.data
    assert ApiToken.objects.get().digest not in event.data


@pytest.mark.parametrize(
    "wrong",
    [
        {"label": " "}, {"label": "a\x00"}, {"label": "x" * 201}, {"scopes": []}, {"scopes": ["everything"]},
        {"expires_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
    ids=["blank", "NUL", "long", "no scope", "unknown scope", "past"],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_refused(supervisor, wrong):
    good = {"label": "x", "scopes": ["missions:read"]}
    with pytest.raises(Refused):
        issue_token(supervisor, **{**good, **wrong}, by=SYSTEM)
    assert not ApiToken.objects.exists()


def test_who_has_no_role_gets_no_token(outsider):
    with pytest.raises(Refused):
        issue_token(outsider, label="x", scopes=["missions:read"], by=SYSTEM)


def test_use_is_noted_to_the_minute(caller, supervisor, django_assert_num_queries):
    program = caller(supervisor, "robots:read")
    program("GET", "/robots")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    program("GET", "/robots")
    assert ApiToken.objects.get().last_used_at == first


# in admin


def issue(client, **data):
    form = {"label": "call button", "scopes": ["missions:read"], **data}
    return client.post("/admin/fleet/apitoken/add/", form, follow=True)


def test_the_secret_is_shown_once_and_a_reload_makes_no_second(client, supervisor):
    client.force_login(supervisor)
    page = issue(client).content.decode()
    assert "drover_api_" in page
    token = ApiToken.objects.get()
    assert "drover_api_" not in client.get(f"/admin/fleet/apitoken/{token.pk}/change/").content.decode()
    assert ApiToken.objects.count() == 1


def test_everybody_has_their_own_and_who_manages_people_sees_all(
    client, site, supervisor, other_supervisor, admin_person
):
    client.force_login(supervisor)
    issue(client)
    token = ApiToken.objects.get()
    client.force_login(other_supervisor)
    assert client.get(f"/admin/fleet/apitoken/{token.pk}/change/").status_code == 404
    assert client.post(f"/admin/fleet/apitoken/{token.pk}/revoke/").status_code == 404
    assert "call button" not in client.get("/admin/fleet/apitoken/").content.decode()
    client.force_login(User.objects.create_superuser("root"))
    issue(client, label="of the whole fleet")
    client.force_login(user("Hanna", "admin", site))
    seen = client.get("/admin/fleet/apitoken/").content.decode()
    assert "call button" in seen and "of the whole fleet" not in seen
    client.force_login(admin_person)
    assert "call button" in client.get("/admin/fleet/apitoken/").content.decode()
    client.post(f"/admin/fleet/apitoken/{token.pk}/revoke/")
    assert ApiToken.objects.get(pk=token.pk).revoked_at


def test_an_auditor_issues_none(client, auditor):
    client.force_login(auditor)
    assert issue(client).status_code == 403
    assert not ApiToken.objects.exists()
