"""Stop of many on the fleet page: one click, an answer at once, a line per robot; from old pages, keys and phones as well."""

import signal

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from fleet.models import Hold
from fleet.robots import actions as robots
from fleet.robots.facts import Due
from fleet.robots.stopping import stop_robot
from tests.actors import SYSTEM, online
from tests.browser.test_live_page import Words, card, is_live, opened

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_live_redis")]


@pytest.fixture
def hall_2(other_site, brand):
    """Three robots in Hall 2."""
    for pk, name in (("RB-021", "Uma"), ("RB-022", "Vito"), ("RB-023", "Wim")):
        robots.enrol_robot(id=pk, name=name, site=other_site, brand=brand, by=SYSTEM)
        online(pk)
    return other_site


def held() -> set[str]:
    return set(Hold.objects.filter(released_at=None).values_list("robot_id", flat=True))


def line(page: Page, robot_id: str):
    return page.locator(f"[id='stopped-{robot_id}']")


def test_the_keyboard_keeps_its_place_when_the_button_goes(sign_in, admin_person, robot, hall_2):
    """And who only hears the page is told whose Stop it is, and once that the page is live."""
    stop_robot("RB-021", by=SYSTEM)
    Words().stands("RB-021")
    page = opened(sign_in(admin_person))
    uma = card(page, "RB-021")
    release = uma.get_by_role("button", name="Release…")
    release.focus()
    page.keyboard.press("Enter")
    page.locator("#ask [value=yes]").focus()
    page.keyboard.press("Enter")
    expect(release).to_have_count(0)
    expect(uma).to_be_focused()
    expect(uma.get_by_role("button", name="Stop Uma", exact=True)).to_have_count(1)
    expect(page.locator("#link-news")).to_have_text("Live")


def test_stop_everything_in_hall_2_and_release_two(sign_in, admin_person, robot, hall_2):
    page = opened(sign_in(admin_person))
    page.get_by_role("link", name="Hall 2").click()
    is_live(page)
    page.locator("#stop-all").click()
    expect(page.locator("#stops h2")).to_contain_text("Stop, Hall 2")
    expect(page.locator("#stops .sum")).to_have_text("3 stopping")
    expect(page.locator("#told")).to_have_text("Stopping 3 robots.")
    assert held() == {"RB-021", "RB-022", "RB-023"}  # and nobody in Hall 1
    Words().stands("RB-021")
    expect(line(page, "RB-021")).to_contain_text("Stands since")
    online("RB-022", "offline", timezone.now())
    expect(line(page, "RB-022")).to_contain_text("Offline: cannot be told; will be told when it is back")
    Words().say("RB-023", Due("stop"), -0.5)  # half a minute later it has said nothing
    expect(line(page, "RB-023")).to_contain_text("it may still be moving")
    expect(page.locator("#stops .sum")).to_have_text("1 not confirmed · 1 offline · 1 standing")
    expect(card(page, "RB-023").locator(".says")).to_contain_text(
        "Stop not confirmed: it may still be moving. Asked by Ada"
    )

    page.locator("#stops .why input").fill("spill")
    page.locator("#stops .keep").click()
    expect(card(page, "RB-021").locator(".says")).to_contain_text("spill")
    for robot_id in ("RB-021", "RB-022"):
        card(page, robot_id).hover()
        card(page, robot_id).locator(".pick").check()
    page.get_by_role("button", name="Release selected").click()
    expect(page.locator("#ask")).to_contain_text("Release Uma, Vito? They may get work and move again.")
    page.locator("#ask [value=yes]").click()
    expect(page.locator("#told")).to_have_text("Released 2 robots.")
    expect(line(page, "RB-021")).to_have_text("UmaReleased")
    assert held() == {"RB-023"}
    expect(page.locator("#chosen")).to_be_hidden()
    page.locator("#stop-again").click()  # only who does not stand for certain is asked, not who was released
    expect(page.locator("#told")).to_contain_text("Stopping")
    assert held() == {"RB-023"}


def test_a_selection_survives_pushes_and_is_stopped(sign_in, supervisor, robot, other_robot):
    page = opened(sign_in(supervisor))
    card(page).focus()
    page.keyboard.press("Space")
    card(page, "RB-002").focus()
    page.keyboard.press("Space")
    expect(page.locator("#chosen")).to_contain_text("2 selected")
    robots.retire_robot("RB-002", by=SYSTEM)
    expect(page.locator("#chosen")).to_contain_text("1 selected")
    robots.edit_robot("RB-001", name="Renamed", site=robot.site_id, brand=robot.brand_id, by=SYSTEM)
    expect(card(page).locator("h3")).to_have_text("Renamed")
    expect(card(page).locator(".pick")).to_be_checked()
    page.get_by_role("button", name="Stop selected").click()
    expect(page.locator("#told")).to_have_text("Stopping 1 robot.")
    assert held() == {"RB-001"}
    expect(page.locator("#chosen")).to_be_hidden()


def test_x_stops_the_robot_that_has_the_focus_unless_switched_off(sign_in, supervisor, robot, other_robot):
    page = opened(sign_in(supervisor))
    page.keyboard.press("x")  # no card has the focus
    page.keyboard.press("j")
    page.keyboard.press("j")
    name = page.evaluate("document.activeElement.dataset.name")
    page.keyboard.press("k")
    other = page.evaluate("document.activeElement.dataset.name")
    assert other != name
    page.locator("#find").fill("x")  # typing is typing
    page.locator("#find").fill("")
    assert not held()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.locator("#acting-keys").uncheck()
    page.reload()  # the browser keeps it
    is_live(page)
    assert not page.locator("#acting-keys").is_checked()
    chosen = page.locator(f".card[data-name='{name}']")
    chosen.focus()
    page.keyboard.press("x")
    assert page.locator(".doing").count() == 0
    page.keyboard.press("?")
    page.locator("#acting-keys").check()
    page.keyboard.press("Escape")
    assert not held()
    page.locator(f".card[data-name='{other}']").focus()
    page.keyboard.press("Control+x")  # the browser's own
    chosen.focus()
    page.keyboard.press("x")
    expect(chosen.locator(".says")).to_contain_text("Stopping…")
    assert len(held()) == 1


def test_an_old_page_still_stops_after_the_server_was_started_anew(sign_in, supervisor, web, robot):
    page = opened(sign_in(supervisor))
    page.expected += ["ERR_CONNECTION_REFUSED", "WebSocket connection to", "htmx:ws:error", "ERR_"]
    page.route("**/live/ws*", lambda route: route.abort())
    web.stop(signal.SIGKILL)
    expect(page.locator("#link-state")).to_have_attribute("data-state", "stale")
    page.locator("#stop-all").click()  # nobody is there: it is tried again by itself
    expect(page.locator("#told")).to_contain_text("has not reached the server yet")
    expect(page.locator("#told")).to_contain_text("did not reach the server. Press it again.")
    expect(line(page, "RB-001")).to_contain_text("Not asked to stop. Press Stop again.")
    web.start()
    page.locator("#stop-all").click()
    expect(page.locator("#told")).to_have_text("Stopping 1 robot.")
    assert held() == {"RB-001"}


def test_a_page_from_before_another_sign_in_still_stops_and_one_without_says_so(sign_in, supervisor, web, robot):
    page = opened(sign_in(supervisor))
    page.evaluate("document.cookie = document.getElementById('act').dataset.cookie + '=' + 'n'.repeat(32) + '; path=/'")
    page.locator("#stop-all").click()
    expect(page.locator("#told")).to_have_text("Stopping 1 robot.")
    page.expected += ["401", "4401", "htmx:ws"]
    Client().force_login(supervisor)
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.locator("#stop-all").click()
    expect(page.locator("#told")).to_contain_text("You are signed out. Sign in again, then repeat it.")
    expect(page.locator("#told a")).to_have_attribute("href", "/login/?next=/fleet/")
    expect(line(page, "RB-001")).to_contain_text("Not asked to stop")


def test_on_a_phone_stop_all_is_pressed_and_held(sign_in, supervisor, robot):
    page = opened(sign_in(supervisor, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True))
    stop = page.locator("#stop-all")
    expect(stop).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    stop.tap()
    expect(page.locator("#told")).to_have_text("Press and hold to stop.")
    assert not held()
    box = stop.bounding_box()
    finger = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [finger]})
    expect(page.locator("#stops .sum")).to_have_text("1 stopping")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("#told")).to_have_text("Stopping 1 robot.")
    assert held() == {"RB-001"}


def test_with_no_robot_stop_all_can_be_pressed_and_says_so(sign_in, supervisor, site):
    page = opened(sign_in(supervisor))
    page.locator("#stop-all").click()
    expect(page.locator("#told")).to_have_text("There is no robot to stop here.")


def test_what_became_of_it_is_still_there_after_a_reload(sign_in, supervisor, robot):
    page = opened(sign_in(supervisor))
    at_once = page.evaluate("""() => {
        const { dataset } = document.getElementById('robot-RB-001');
        Object.assign(dataset, { stop: 'stands', stopAt: new Date(Date.now() - 3_600_000).toISOString() });
        document.getElementById('stop-all').click();
        return document.querySelector('#stopped-RB-001 span').textContent;
    }""")
    assert at_once == "Stopping…", "what it said to an earlier stop counts for nothing"
    expect(page.locator("#told")).to_have_text("Stopping 1 robot.")
    Words().stands("RB-001")
    page.reload()
    expect(line(page, "RB-001")).to_contain_text("Stands since")
    page.get_by_role("button", name="Close").first.click()
    expect(page.locator("#stops")).to_be_hidden()
    page.reload()
    is_live(page)
    expect(page.locator("#stops")).to_be_hidden()
    assert held() == {"RB-001"}


def test_an_auditor_is_offered_no_stop(sign_in, auditor, robot):
    page = opened(sign_in(auditor))
    expect(page.locator("#stop-all")).to_be_hidden()
    expect(page.locator(".pick").first).to_be_hidden()
