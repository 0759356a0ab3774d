"""Signing in: what is kept of it, what a guesser meets, and how an admin helps."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from fleet.models import Event
from fleet.people.sessions import address_of

PASSWORD = "correct horse battery"


def sign_in(client: Client, name: str, password: str = PASSWORD, **extra: object):
    return client.post("/login/", {"username": name, "password": password}, **extra)


def kinds(person: User) -> list[str]:
    return list(Event.objects.filter(aggregate=f"person:{person.pk}").order_by("seq").values_list("kind", flat=True))[
        1:
    ]


def test_signing_in_and_out_is_in_the_history(client, supervisor):
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
    assert sign_in(client, "Ana", HTTP_USER_AGENT=agent).status_code == 302
    client.post("/logout/")
    assert kinds(supervisor) == ["person.signed_in", "person.signed_out"]
    entered = Event.objects.get(kind="person.signed_in")
    assert "Firefox on Linux" in entered.data and "127.0.0.1" in entered.data and entered.actor_name == "Ana"


def test_a_guesser_is_locked_out_with_words_and_writes_little(client, supervisor, monkeypatch):
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        assert sign_in(client, "Ana", "wrong").status_code == 200
    locked = sign_in(client, "Ana", "wrong")
    assert locked.status_code == 429 and locked["Retry-After"] == "900"
    page = locked.content.decode()
    assert (
        "15 minutes" in page and "An admin can unlock you" in page and "unsafe" not in locked["Content-Security-Policy"]
    )
    assert sign_in(client, "Ana").status_code == 429  # the right one does not help now
    assert "_auth_user_id" not in client.session
    assert kinds(supervisor) == ["person.sign_in_failed", "person.locked_out"]
    monkeypatch.setattr("fleet.people.sign_in.FAILED_EVERY", timedelta(0))  # later
    sign_in(Client(REMOTE_ADDR="192.0.2.9"), "Ana", "wrong")
    assert kinds(supervisor)[2:] == ["person.sign_in_failed"]


def test_others_and_other_addresses_are_not_locked_out(client, supervisor, auditor):
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(client, "Ana", "wrong")
    assert sign_in(Client(), "Otto").status_code == 302
    assert sign_in(Client(REMOTE_ADDR="192.0.2.9"), "Ana").status_code == 302


def test_it_ends_by_itself_and_guessing_on_does_not_make_it_longer(client, supervisor):
    for _ in range(settings.AXES_FAILURE_LIMIT + 3):
        sign_in(client, "Ana", "wrong")
    first = AccessAttempt.objects.get()
    assert first.failures_since_start == settings.AXES_FAILURE_LIMIT
    AccessAttempt.objects.update(attempt_time=timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1))
    assert sign_in(client, "Ana").status_code == 302


def test_an_admin_unlocks(client, admin_person, supervisor):
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(Client(), "Ana", "wrong")
    client.force_login(admin_person)
    page = f"/admin/auth/user/{supervisor.pk}/"
    assert "Unlock" in client.get(f"{page}change/").content.decode()
    client.post(f"{page}unlock/")
    assert kinds(supervisor)[-1] == "person.unlocked"
    assert "Unlock" not in client.get(f"{page}change/").content.decode()
    assert sign_in(Client(), "Ana").status_code == 302


@pytest.mark.parametrize("name", ["nobody-like-this", "", "Ana\0"])
def test_a_guess_at_nobody_writes_no_history(client, supervisor, name):
    assert sign_in(client, name, "wrong").status_code == 200
    assert kinds(supervisor) == []


def test_a_deactivated_person_cannot_enter(client, supervisor):
    User.objects.filter(pk=supervisor.pk).update(is_active=False)
    assert sign_in(client, "Ana").status_code == 200
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "192.0.2.1", "127.0.0.1"),  # anybody can write that
        (1, "192.0.2.1", "192.0.2.1"),
        (1, "10.9.9.9, 192.0.2.1", "192.0.2.1"),  # what stands before was written by the client
        (2, "10.9.9.9, 192.0.2.1, 10.0.0.1", "192.0.2.1"),
        (1, "", "127.0.0.1"),
        (1, "not-an-address", ""),
        (1, "2001:db8::1", "2001:db8::1"),
    ],
)
def test_behind_proxies_the_address_is_what_the_outermost_of_ours_saw(rf, settings, proxies, forwarded, address):
    settings.PROXIES = proxies
    assert address_of(rf.get("/", HTTP_X_FORWARDED_FOR=forwarded)) == address


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    ("wanted", "then"),
    [("/fleet/?site=1", "/fleet/%3Fsite%3D1"), ("", "/admin/"), ("//evil.example/", "/admin/"), ("https://evil.example", "/admin/")],
)  # fmt: skip
def test_the_usual_address_of_a_sign_in_leads_to_ours_and_then_on(client, supervisor, method, wanted, then):
    for signed_in in (False, True):
        if signed_in:
            client.force_login(supervisor)
        answer = getattr(client, method)("/admin/login/", query_params={"next": wanted})
        assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={then}")


@pytest.mark.parametrize("name", ["a" * 151, "a" * 5000, "a\r\nb\x1b[31m", "a\x00b"])
def test_a_name_that_nobody_can_have_is_refused_like_any_wrong_one(client, db, name):
    answer = sign_in(client, name)
    assert answer.status_code == 200 and "do not fit" in answer.content.decode()


def test_a_sign_in_page_that_was_open_while_somebody_signed_in_and_out_leads_to_a_fresh_one(supervisor):
    """Its token is of before; a line of plain text was all that came back."""
    client = Client(enforce_csrf_checks=True)
    client.get("/login/")
    old = client.cookies[settings.CSRF_COOKIE_NAME].value
    client.cookies[settings.CSRF_COOKIE_NAME] = "n" * 32  # another tab has signed in meanwhile
    form = {"username": "Ana", "password": "correct horse battery", "csrfmiddlewaretoken": old}
    answer = client.post("/login/?next=/admin/", form)
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/admin/")
    assert client.post("/logout/", {"csrfmiddlewaretoken": old})["Location"] == "/login/"
    client.force_login(supervisor)
    assert client.post("/login/?next=/admin/", form, follow=True).redirect_chain[-1][0] == "/admin/"
