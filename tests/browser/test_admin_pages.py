"""Admin in a real browser: the mission form with and without scripts, buttons, and a console without a complaint."""

import pytest

from fleet import actions as robots
from fleet.history import by_user
from fleet.models import Event
from missions import actions as missions
from missions.facts import Accepted, Cancelled, Delivered
from missions.models import Mission
from tests.actors import tell
from tests.eventually import eventually

pytestmark = pytest.mark.browser
ADD = "/admin/missions/mission/add/"


def visible(page, number: int):
    return page.locator("[data-step]:not([hidden])").nth(number)


def command(row, name: str, **inputs: str) -> None:
    row.locator("select").select_option(name)
    for field, value in inputs.items():
        row.locator(f"[data-input={field}] input").fill(value)


def steps_of(mission: Mission) -> list[tuple]:
    return [(s.command, s.params.get("place", s.params.get("seconds"))) for s in mission.steps.all()]


def test_rows_follow_the_command_and_can_be_moved_and_removed(sign_in, supervisor, robot):
    page = sign_in(supervisor)
    page.goto(ADD)
    assert page.locator("[data-step]:not([hidden])").count() == 1
    page.get_by_label("Title").fill("From a browser")
    page.get_by_label("Robot").select_option("RB-001")
    assert page.get_by_label("Site").input_value() == str(robot.site_id)  # the robot's own
    assert visible(page, 0).locator("select option:disabled").all_inner_texts() == ["Custom"]  # not of this brand
    command(visible(page, 0), "wait", seconds="2.5")
    assert visible(page, 0).locator("[data-input]:visible").count() == 1
    for _ in range(3):
        page.get_by_role("button", name="Add a step").click()
    command(visible(page, 1), "navigate", place="Shelf 3")
    command(visible(page, 2), "charge")
    command(visible(page, 3), "navigate", place="Dock A")
    visible(page, 3).get_by_label("Move this step up").click()
    visible(page, 2).get_by_label("Move this step up").click()
    visible(page, 3).get_by_label("Remove this step").click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/change/")
    assert steps_of(Mission.objects.get()) == [("wait", 2.5), ("navigate", "Dock A"), ("navigate", "Shelf 3")]


def test_a_place_of_another_site_is_refused_before_it_is_sent(sign_in, supervisor, mission):
    page = sign_in(supervisor)
    page.goto(f"/admin/missions/mission/{mission.pk}/edit/")
    place = visible(page, 0).locator("[data-input=place] input")
    assert place.input_value() == "Dock A"
    place.fill("Mars")
    page.get_by_role("button", name="Save", exact=True).click()
    assert (
        place.evaluate("input => input.validationMessage") == "Mars is no place of this site. Choose one of the list."
    )
    place.fill("Shelf 3")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/change/")
    assert steps_of(Mission.objects.get())[0] == ("navigate", "Shelf 3")


def test_the_form_works_without_scripts(sign_in, supervisor, robot):
    page = sign_in(supervisor, java_script_enabled=False)
    page.goto(ADD)
    page.get_by_label("Title").fill("No script")
    page.get_by_label("Site").select_option("Hall 1")
    page.get_by_label("Robot").select_option("RB-001")
    for number, place, order in ((0, "Shelf 3", "2"), (3, "Dock A", "1")):
        command(page.locator("[data-step]").nth(number), "navigate", place=place)
        page.locator(f"[name=steps-{number}-ORDER]").fill(order)
    page.get_by_role("button", name="Save and dispatch").click()
    page.wait_for_url("**/change/")
    mission = Mission.objects.get()
    assert steps_of(mission) == [("navigate", "Dock A"), ("navigate", "Shelf 3")]
    assert mission.dispatched_at
    page.locator("summary", has_text="Cancel").click()
    page.get_by_label("Reason").fill("wrong aisle")
    page.get_by_role("button", name="Cancel this mission").click()
    eventually(lambda: Mission.objects.get().abort_detail == "wrong aisle", timeout_s=5)


def test_a_page_that_says_stopping_learns_how_it_ended(sign_in, supervisor, dispatched):
    """Without a reload, but never under an unfolded question."""
    tell(dispatched, Delivered(), Accepted(1))
    missions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="blocked aisle")
    page = sign_in(supervisor)
    page.goto(f"/admin/missions/mission/{dispatched.pk}/change/")
    said = page.locator(".page-head .said")
    assert "Stopping" in said.inner_text()
    page.locator("summary", has_text="Cancel").click()
    tell(dispatched, Cancelled(1))
    page.wait_for_timeout(2000)
    assert "Stopping" in said.inner_text()
    page.keyboard.press("Escape")
    page.locator(".page-head .said", has_text="Aborted: cancelled by a person").wait_for(timeout=5000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_the_content_security_policy(sign_in, admin_person, dispatched, scheme):
    robots.stop_robot("RB-001", by=by_user(admin_person), why="<img src=x onerror=alert(1)>")
    page = sign_in(admin_person, color_scheme=scheme)
    for url in (
        "/admin/", "/admin/missions/mission/", f"/admin/missions/mission/{dispatched.pk}/change/", ADD,
        "/admin/fleet/robot/", "/admin/fleet/robot/RB-001/change/", "/admin/fleet/event/", f"/admin/fleet/event/{Event.objects.latest('id').pk}/change/",
        "/admin/auth/user/", f"/admin/auth/user/{admin_person.pk}/change/", "/admin/fleet/brand/add/",
    ):  # fmt: skip
        answer = page.goto(url)
        assert (answer.status, page.url.removeprefix(answer.url)) == (200, ""), url
        assert page.evaluate("window.violations") == [], url
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{url} scrolls sideways"
