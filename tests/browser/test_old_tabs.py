"""Tabs that stayed open while the session ended, or somebody signed in elsewhere: nothing typed is lost, stop works."""

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Page, expect

from fleet.models import Hold
from missions.models import Mission
from tests.browser.test_mission_form import ADD, fetch

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def signs_in_elsewhere(page: Page, person, url: str) -> None:
    """In another tab of the same browser: a new session, a new CSRF secret."""
    client = Client()
    client.force_login(person)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    fresh = ((settings.SESSION_COOKIE_NAME, session), (settings.CSRF_COOKIE_NAME, "n" * 32))
    page.context.add_cookies([{"name": name, "value": value, "url": url} for name, value in fresh])


def test_a_form_that_was_open_while_the_session_ended_is_saved_after_a_new_sign_in(sign_in, supervisor, robot, web):
    page = sign_in(supervisor)
    page.expected += ["403"]  # the check as one types, with a token of before
    page.clock.install()
    page.goto(ADD)
    fetch(page)
    page.clock.fast_forward(61_000)
    Session.objects.all().delete()
    save = page.get_by_role("button", name="Save", exact=True)
    save.click()
    expect(page.locator("#not-sent")).to_contain_text("You are signed out. What you typed is still here.")
    assert page.locator("#not-sent a").get_attribute("target") == "_blank"
    signs_in_elsewhere(page, supervisor, web.url)
    save.click()
    page.wait_for_url("**/change/")
    assert Mission.objects.get().steps.count() == 3


def test_stop_in_admin_works_from_a_page_of_before_a_new_sign_in(sign_in, supervisor, robot, web):
    page = sign_in(supervisor)
    page.goto("/admin/fleet/robot/RB-001/change/")
    signs_in_elsewhere(page, supervisor, web.url)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("Stopping RB-001")
    assert Hold.objects.filter(released_at=None, kind="stopped").count() == 1


def test_a_button_pressed_after_the_session_ended_says_that_nothing_was_done(sign_in, supervisor, robot, web):
    page = sign_in(supervisor)
    page.goto("/admin/fleet/robot/RB-001/change/")
    Session.objects.all().delete()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_url("**/login/?next=/admin/fleet/robot/RB-001/change/")
    expect(page.locator("body")).to_contain_text("Not done: you had been signed out. Sign in, then do it again.")
    assert not Hold.objects.exists()


def test_what_was_typed_while_drover_is_away_is_saved_when_it_is_back(sign_in, supervisor, robot, web):
    page = sign_in(supervisor)
    page.expected += ["net::ERR_FAILED"]
    page.clock.install()
    page.goto(ADD)
    fetch(page)
    page.clock.fast_forward(61_000)
    page.route("**/account/", lambda route: route.abort())
    save = page.get_by_role("button", name="Save", exact=True)
    save.click()
    expect(page.locator("#not-sent")).to_contain_text(
        "Drover does not answer at the moment. What you typed is still here."
    )
    page.unroute("**/account/")
    save.click()
    page.wait_for_url("**/change/")
    assert Mission.objects.get().steps.count() == 3


def test_cancel_with_a_reason_asks_nothing_first(sign_in, supervisor, mission, web):
    page = sign_in(supervisor)
    page.clock.install()
    page.goto(f"/admin/missions/mission/{mission.pk}/change/")
    page.locator("summary", has_text="Cancel…").click()
    page.get_by_label("Reason").fill("blocked aisle")
    page.clock.fast_forward(61_000)
    page.route("**/account/", lambda route: route.abort())
    page.get_by_role("button", name="Cancel this mission").click()
    expect(page.locator("#mission-head")).to_contain_text("blocked aisle")
    assert Mission.objects.get().state == "aborted"


TWICE = """(selector) => {
  let went = 0;
  window.addEventListener("submit", (event) => { went += 1; event.preventDefault(); });  // after everybody else
  for (const n of [1, 2]) document.querySelector(selector).click();
  return went;
}"""


def test_a_double_click_does_its_work_once_but_stop_always_goes(sign_in, supervisor, robot, web):
    page = sign_in(supervisor)
    page.clock.install()
    page.goto("/admin/fleet/apitoken/add/")
    page.get_by_label("Label").fill("warehouse system")
    page.locator("[name=scopes]").first.check()
    assert page.evaluate(TWICE, "#token_form .primary") == 1
    page.clock.fast_forward(9_000)
    page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")  # with Back
    assert page.evaluate(TWICE, "#token_form .primary") == 1
    page.clock.fast_forward(5_000)  # the time of the first click is over, that of the second is not
    assert page.evaluate(TWICE, "#token_form .primary") == 0
    page.clock.fast_forward(6_000)
    assert page.evaluate(TWICE, "#token_form .primary") == 1
    page.goto("/admin/fleet/robot/RB-001/change/")
    assert page.evaluate(TWICE, "form[action$='/stop/'] button") == 2
