"""Sessions: everybody sees their own and ends them; admins those of the people they manage."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from fleet.models import Event, SessionRecord
from fleet.people import sessions
from tests.actors import user

PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; rv:133.0) Gecko/20100101 Firefox/133.0"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) AppleWebKit/605.1 Version/18.0 Mobile/15E148 Safari/604.1"


def signed_in(person: User, agent: str = FIREFOX) -> Client:
    client = Client(HTTP_USER_AGENT=agent)
    assert client.post("/login/", {"username": person.username, "password": PASSWORD}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def test_everybody_sees_their_own_and_which_is_this_one(supervisor, auditor):
    desk, phone, other = signed_in(supervisor), signed_in(supervisor, PHONE), signed_in(auditor)
    page = desk.get("/account/").content.decode()
    assert page.index("Firefox on Windows") and page.index("Safari on iPhone") and page.count("this one") == 1
    assert page.count("127.0.0.1") == 2 and page.count("<li>") == 2
    assert is_in(phone) and other.get("/account/").content.decode().count("<li>") == 1


def test_one_session_is_ended_and_the_others_go_on(supervisor):
    desk, phone = signed_in(supervisor), signed_in(supervisor, PHONE)
    record = SessionRecord.objects.get(device=PHONE)
    desk.post(f"/account/sessions/{record.pk}/end")
    assert is_in(desk) and not is_in(phone)
    ended = Event.objects.get(kind="person.session_revoked")
    assert "Safari on iPhone" in ended.data and ended.actor_name == "Ana"


def test_all_others_are_ended(supervisor):
    desk, *others = [signed_in(supervisor, agent) for agent in (FIREFOX, PHONE, "curl/8")]
    desk.post("/account/sessions/others/end")
    assert is_in(desk) and not any(is_in(other) for other in others)


def test_nobody_ends_the_session_of_somebody_else(supervisor, auditor):
    mine, theirs = signed_in(supervisor), signed_in(auditor)
    record = SessionRecord.objects.get(user=auditor)
    assert mine.post(f"/account/sessions/{record.pk}/end").status_code == 404
    assert is_in(theirs)


def test_an_admin_sees_and_ends_sessions_of_people_they_manage(supervisor, admin_person, other_site):
    person, admin = signed_in(supervisor, PHONE), signed_in(admin_person)
    page = f"/admin/auth/user/{supervisor.pk}/"
    assert "Safari on iPhone" in admin.get(f"{page}change/").content.decode()
    number = SessionRecord.objects.get(user=supervisor).pk
    stranger = signed_in(user("Oskar", "admin", other_site))
    assert stranger.post(f"{page}end/", {"number": number}).status_code == 404 and is_in(person)
    admin.post(f"{page}end/", {"number": number})
    assert not is_in(person)
    person = signed_in(supervisor)
    admin.post(f"{page}end/")
    assert not is_in(person) and is_in(admin)


def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(supervisor, settings):
    desk, phone = signed_in(supervisor), signed_in(supervisor, PHONE)
    new = {"old_password": PASSWORD, "new_password1": "another horse battery", "new_password2": "another horse battery"}
    page = desk.get("/account/password/").content.decode()
    assert "between" not in page
    assert "live/sending" in page, "a second click would come to a session that is over"
    assert f'data-cookie="{settings.CSRF_COOKIE_NAME}"' in page
    assert desk.post("/account/password/", {**new, "old_password": "wrong"}).status_code == 200
    assert is_in(phone)
    assert desk.post("/account/password/", new).status_code == 302
    assert desk.get("/account/").content.decode().count("<li>") == 1  # before the phone asks, and Django looks itself
    assert is_in(desk) and not is_in(phone)
    assert Event.objects.filter(kind="person.password_changed", actor_name="Ana").count() == 1


def test_who_is_deactivated_is_out_and_stays_out(supervisor, admin_person):
    person, admin = signed_in(supervisor), signed_in(admin_person)
    admin.post(f"/admin/auth/user/{supervisor.pk}/deactivate/")
    assert not is_in(person)
    admin.post(f"/admin/auth/user/{supervisor.pk}/reactivate/")
    assert not is_in(person)  # the old session is not revived
    assert is_in(signed_in(supervisor))


def test_last_seen_is_written_once_a_minute(supervisor, monkeypatch, django_assert_num_queries):
    client = signed_in(supervisor)
    before = timezone.now() - timedelta(hours=1)
    SessionRecord.objects.update(last_seen_at=before)
    is_in(client)
    assert SessionRecord.objects.get().last_seen_at == before
    monkeypatch.setattr(sessions, "SEEN_EVERY_S", 0.0)
    is_in(client)
    assert SessionRecord.objects.get().last_seen_at > before


def test_a_session_that_expired_is_not_shown(supervisor):
    client = signed_in(supervisor)
    signed_in(supervisor, PHONE)
    key = SessionRecord.objects.get(device=PHONE).key
    Session.objects.filter(pk=key).update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/account/").content.decode().count("<li>") == 1


def test_signing_out_ends_this_session(supervisor):
    client = signed_in(supervisor)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/").status_code == 302
    assert not is_in(client) and not sessions.sessions_of(supervisor).exists()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox on Windows"),
        (PHONE, "Safari on iPhone"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0 Safari/537.36 Edg/131.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/131.0 Mobile Safari/537.36", "Chrome on Android"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("", "an unknown device"),
    ],
)
def test_a_device_in_words(agent, words):
    assert sessions.device_in_words(agent) == words
