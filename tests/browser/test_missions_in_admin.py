"""First-day tasks with missions in a real browser, from login to result, with the number of clicks and keyed-in texts."""

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from playwright.sync_api import expect

from fleet.history import by_user
from fleet.robots import actions as robots
from missions import actions, drawing_up
from missions.facts import Accepted, Cancelled, Delivered, StepCompleted
from missions.models import Mission, State
from tests.actors import STEPS, tell

pytestmark = pytest.mark.browser
LIST = "/admin/missions/mission/"
HOSTILE = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>'


class Hand:
    """A person's hand: counts clicks, choices and texts."""

    def __init__(self, page) -> None:
        self.page, self.count = page, 0

    def click(self, what) -> None:
        self.count += 1
        what.click()

    def type(self, what, text: str) -> None:
        self.count += 1
        what.fill(text)

    def choose(self, what, value: str) -> None:
        self.count += 1
        what.select_option(value)

    def press(self, key: str) -> None:
        self.count += 1
        self.page.keyboard.press(key)


PASSWORD = "correct horse battery"


def sign_on(hand: Hand, person) -> None:
    person.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt")  # the server does not know the tests' quick one
    person.save(update_fields=["password"])
    page = hand.page
    page.context.clear_cookies()
    page.goto("/login/?next=/admin/")
    hand.type(page.get_by_label("User name"), person.username)
    hand.type(page.get_by_label("Password"), PASSWORD)
    hand.press("Enter")
    page.wait_for_url(lambda url: url.endswith("/admin/") and "login" not in url)


def row(page, number: int):
    ready = "[data-step]:not([hidden]):has([data-handle]:not([hidden]))"  # the script has put the rows in order
    return page.locator(ready).nth(number - 1)


def test_fetch_from_dock_a_to_shelf_3_is_drawn_up_and_run(sign_in, supervisor, robot):
    page = sign_in(supervisor)
    hand = Hand(page)
    sign_on(hand, supervisor)
    hand.click(page.get_by_role("link", name="Draw up a mission"))
    hand.type(page.get_by_label("Title"), "Fetch from Dock A to Shelf 3")
    for number, kind, place in ((1, "pick", "Dock A"), (2, "drop", "Shelf 3")):
        if number > 1:
            hand.click(page.get_by_role("button", name="Add a step"))
        hand.choose(row(page, number).locator(".step-head select"), kind)
        hand.type(row(page, number).locator("[data-input=place] input"), place)
    expect(page.locator("#robot-says")).to_contain_text("Now it would go to Ella")
    hand.click(page.get_by_role("button", name="Save and run"))
    page.wait_for_url("**/change/")
    expect(page.locator(".messagelist")).to_contain_text("Dispatched to Ella")
    mission = Mission.objects.get()
    assert [(s.command, s.params["place"]) for s in mission.steps.all()] == [("pick", "Dock A"), ("drop", "Shelf 3")]
    assert mission.robot_id == "RB-001" and mission.dispatched_at
    assert hand.count == 11


def test_why_a_mission_waits_is_two_clicks_away(sign_in, supervisor, dispatched, robot):
    by = by_user(supervisor)
    pk = drawing_up.draft_mission(title="Mission M", site=robot.site_id, robot=robot, steps=STEPS, by=by)
    actions.queue_mission(pk, by=by)
    page = sign_in(supervisor)
    hand = Hand(page)
    sign_on(hand, supervisor)
    hand.click(page.get_by_role("navigation", name="Drover").get_by_role("link", name="Missions"))
    hand.click(page.get_by_role("link", name="Waiting 1"))
    line = page.locator("#result_list tbody tr")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("Ella is busy with “Fetch”")
    assert hand.count == 5
    hand.click(line.get_by_role("link", name="Mission M"))
    expect(page.locator(".why")).to_contain_text("Waiting since")
    expect(page.locator(".why")).to_contain_text("Ella is busy with “Fetch”")


def choose_all(page) -> None:
    page.wait_for_load_state()  # before that the list's own script may set the box back
    page.locator("#action-toggle").check()


def test_many_are_cancelled_and_what_is_refused_says_why(sign_in, supervisor, dispatched, robot):
    by = by_user(supervisor)
    tell(dispatched, Delivered(), Accepted(1))
    for title in ("One", "Two"):
        drawing_up.draft_mission(title=title, site=robot.site_id, robot=robot, steps=STEPS, by=by)
    page = sign_in(supervisor)
    page.goto(LIST)
    choose_all(page)
    page.locator("select[name=action]").select_option("pause")  # which only one of them can do
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="Pause: 3 missions")).to_be_visible()
    page.get_by_role("button", name="Pause 3 missions").click()
    said = page.locator(".messagelist")
    expect(said).to_contain_text("Pause: 1 asked to pause, 2 refused.")
    expect(said).to_contain_text("“Two”: refused. It is not dispatched yet.")
    choose_all(page)
    page.locator("select[name=action]").select_option("cancel")
    page.get_by_role("button", name="Go").click()
    page.get_by_label("Reason").fill("wrong shift")
    page.get_by_role("button", name="Cancel 3 missions").click()
    expect(said).to_contain_text("2 cancelled")
    expect(said).to_contain_text("1 stopping")
    assert Mission.objects.filter(state=State.ABORTED, abort_detail="wrong shift").count() == 2


def test_an_open_page_follows_its_mission_and_leaves_alone_what_is_in_use(sign_in, supervisor, dispatched):
    page = sign_in(supervisor)
    page.goto(f"{LIST}{dispatched.pk}/change/")
    page.evaluate("window.sameDocument = true")
    until = page.locator("time[data-until]").first
    first = until.inner_text()
    page.locator("summary", has_text="Cancel").click()
    reason = page.get_by_label("Reason")
    reason.fill("half a sent")
    tell(dispatched, Delivered(), Accepted(1), StepCompleted(1, 1, 1, "picked up"))
    expect(page.locator("#mission-head")).to_contain_text("1/3")
    expect(page.locator(".steps")).to_contain_text("picked up")
    expect(page.locator(".timeline")).to_contain_text("Step 1 completed")
    assert reason.input_value() == "half a sent"
    assert reason.evaluate("(input) => input === document.activeElement")
    page.keyboard.type("ence")
    assert reason.input_value() == "half a sentence"
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)  # the buttons are in use: not yet
    page.keyboard.press("Escape")
    page.locator("h1").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert until.inner_text() != first
    tell(dispatched, Cancelled(1))
    expect(page.locator("#mission-head")).to_contain_text("Aborted")
    expect(page.get_by_text("It has ended: nothing is due.")).to_be_visible()
    assert page.evaluate("window.sameDocument") is True


def test_a_page_that_hears_nothing_says_so(sign_in, supervisor, dispatched):
    page = sign_in(supervisor)
    page.expected.append("ERR_FAILED")
    page.route("**/now/*", lambda route: route.abort())
    page.goto(f"{LIST}{dispatched.pk}/change/")
    expect(page.locator("#link-says")).to_contain_text("No answer from Drover since")
    page.unroute("**/now/*")
    expect(page.locator("#link-says")).to_have_text("This page follows the mission.")


def test_on_a_phone_the_filters_are_within_reach(sign_in, supervisor, dispatched):
    page = sign_in(supervisor, viewport={"width": 390, "height": 844})
    page.goto(LIST)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Filters").click()
    assert page.locator("#changelist-filter").evaluate("(nav) => nav.getBoundingClientRect().top < innerHeight")
    page.goto(f"{LIST}?q=Fetch")
    found = page.locator("#changelist-search .quiet")
    expect(found).to_have_text("1 found (show all)")
    assert (found.bounding_box() or {})["height"] < 30, "one line"


def test_text_of_people_is_text_on_every_mission_page(sign_in, supervisor, admin_person, robot):
    by = by_user(supervisor)
    robots.edit_robot(robot.pk, name=HOSTILE[:150], site=robot.site_id, brand=robot.brand_id, by=by)
    steps = [{"command": "pick", "params": {"place": "Dock A", "load": HOSTILE}}]
    more = {"site": robot.site_id, "steps": steps, "by": by}
    first = drawing_up.draft_mission(title=HOSTILE, robot="RB-001", **more)
    second = drawing_up.draft_mission(title="2" + HOSTILE, after=[first], **more)
    actions.cancel_mission(first, by=by, reason=HOSTILE)
    page = sign_in(supervisor)
    for url in (LIST, f"{LIST}{first}/change/", f"{LIST}{second}/change/", f"{LIST}{second}/edit/", f"{LIST}add/"):
        page.goto(url)
        page.wait_for_timeout(300)
        assert page.locator("img[src=x], [onerror]").count() == 0, url
        assert page.evaluate("window.owned") is None, url
    page.goto(f"{LIST}{second}/edit/")
    row(page, 1).locator("[data-input=place] input").fill(HOSTILE[:180])
    expect(row(page, 1).locator("[data-errors$=place]")).to_contain_text("Step 1, place: <img src=x")
    assert page.evaluate("window.owned") is None
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(LIST)
    choose_all(page)
    page.locator("select[name=action]").select_option("rerun")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Rerun all steps 2 missions").click()
    expect(page.locator(".messagelist")).to_contain_text("1 drawn up again, 1 refused")
    assert page.locator("img[src=x]").count() == 0 and page.evaluate("window.owned") is None
