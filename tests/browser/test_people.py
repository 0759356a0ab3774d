"""People at the browser: locked out with words, own sessions, and access that goes while a page is open."""

import pytest
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User

from fleet.history import by_user
from fleet.people.actions import grant_access

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PASSWORD = "correct horse battery"


def test_wrong_passwords_a_pause_and_the_own_sessions(sign_in, web, supervisor):
    hasher = PBKDF2PasswordHasher()  # the server is not told of the quick one of tests
    User.objects.filter(pk=supervisor.pk).update(password=hasher.encode(PASSWORD, hasher.salt()))
    page = sign_in(User.objects.get(pk=supervisor.pk))
    stranger = page.context.browser.new_context(base_url=web.url).new_page()
    stranger.goto("/login/")
    for _ in range(settings.AXES_FAILURE_LIMIT):
        stranger.fill("#id_username", "Ana")
        stranger.fill("#id_password", "wrong")
        stranger.get_by_role("button", name="Sign in").click()
    stranger.get_by_role("heading", name="Too many wrong passwords").wait_for()
    assert "15 minutes" in stranger.inner_text("main")
    page.goto("/account/")  # who is signed in goes on
    assert page.locator(".sessions li").count() == 1 and "this one" in page.inner_text(".sessions")
    page.get_by_role("link", name="Change password").click()
    page.fill("#id_old_password", PASSWORD)
    for field in ("1", "2"):
        page.fill(f"#id_new_password{field}", "another horse battery")
    page.get_by_role("button", name="Change password").click()
    page.get_by_role("status").filter(has_text="Your password is changed").wait_for()
    for where in (page, stranger):
        assert where.evaluate("document.documentElement.scrollWidth <= innerWidth")
    stranger.context.close()


def test_an_admin_adds_a_person_and_takes_a_site_away_while_they_look(sign_in, admin_person, robot, site, other_site):
    page = sign_in(admin_person)
    page.goto("/admin/auth/user/")
    page.get_by_role("link", name="Add").first.click()
    page.get_by_label("User name").fill("Uma")
    page.get_by_label("Role").select_option("supervisor")
    page.get_by_label("Hall 1").check()
    page.get_by_label("Hall 2").check()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password, once more").fill(PASSWORD)
    page.get_by_role("button", name="Add the person").click()
    page.get_by_role("heading", name="Uma").wait_for()
    uma = User.objects.get(username="Uma")
    theirs = sign_in(uma)
    theirs.goto("/fleet/")
    theirs.locator("#robot-RB-001").wait_for()
    theirs.locator("#link-state", has_text="Live").wait_for()
    grant_access(uma, role="supervisor", sites=[other_site], by=by_user(admin_person))
    theirs.locator("#robot-RB-001").wait_for(state="detached")
