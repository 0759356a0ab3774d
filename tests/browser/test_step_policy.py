"""What happens when a step goes wrong, in a real browser: closed and in one line, the same words while one chooses and
after saving, and usual times of the chosen robot; and a mission's page that says its steps."""

import pytest
from playwright.sync_api import expect

from fleet.brands.actions import edit_brand
from missions.facts import Accepted, StepCompleted
from missions.models import Mission
from missions.step_policy import of
from missions.step_wording import course_words
from tests.actors import SYSTEM, tell
from tests.browser.test_mission_form import command, form, save, visible  # noqa: F401  (form: a fixture)

pytestmark = pytest.mark.browser


def says(row) -> str:
    return row.locator("[data-policy-says]").inner_text()


def test_one_line_says_it_while_one_chooses_and_the_same_is_stored(form):  # noqa: F811
    form.get_by_label("Title").fill("From a browser")
    row = visible(form, 1)
    expect(row.locator("[data-policy]")).to_be_hidden()
    command(row, "navigate", place="Dock A")
    assert says(row) == "after a timeout or a failure the mission is aborted."
    expect(row.locator("[name$=-timeout_retries]")).to_be_hidden()
    row.get_by_text("If it goes wrong").click()
    expect(row.locator("[name$=-repeatable] option").first).to_have_text("As usual: yes")
    row.locator("[name$=-timeout_retries]").fill("2")
    row.locator("[name$=-timeout_then]").select_option("skip")
    row.locator("[name$=-failure_retries]").fill("1")
    words = "after a timeout 2 more tries, then the step is skipped; after a failure 1 more try, then the mission is aborted."
    assert says(row) == words
    row.get_by_label("Duplicate this step").click()
    assert says(visible(form, 2)) == words
    steps = save(form).steps.all()
    assert [course_words(of(step)) for step in steps] == [words, words]
    form.goto(f"/admin/missions/mission/{Mission.objects.get().pk}/edit/")
    assert says(visible(form, 1)) == words


def test_what_cannot_be_is_said_where_it_is_chosen(form):  # noqa: F811
    row = visible(form, 1)
    command(row, "pick", place="Dock A")
    row.get_by_text("If it goes wrong").click()
    expect(row.locator("[data-policy-input=confirm]")).to_be_hidden()
    row.locator("[name$=-timeout_retries]").fill("1")
    expect(row.locator("[data-errors$=timeout_retries]")).to_contain_text("It is not repeatable")
    row.locator("[name$=-repeatable]").select_option("yes")
    expect(row.locator("[data-errors$=timeout_retries]")).to_be_empty()


def test_usual_times_are_those_of_the_chosen_robot(sign_in, supervisor, robot, brand):
    edit_brand(brand.pk, step_timeouts={"navigate": 77}, mission_timeout_s=1234, offline_policy="wait", by=SYSTEM)
    page = sign_in(supervisor)
    page.goto("/admin/missions/mission/add/")
    command(visible(page, 1), "navigate", place="Dock A")
    page.get_by_label("Robot", exact=True).select_option("RB-001")
    expect(visible(page, 1).locator("[name$=-timeout_s]")).to_have_attribute("placeholder", "77")
    expect(page.locator("[name=timeout_s]")).to_have_attribute("placeholder", "1234")
    expect(page.locator("[name=offline_policy] option").first).to_have_text(
        "As the robot's brand says: wait for the robot"
    )


def test_a_missions_page_follows_its_steps(sign_in, supervisor, dispatched):
    page = sign_in(supervisor)
    page.goto(f"/admin/missions/mission/{dispatched.pk}/change/")
    steps = page.locator("table.steps tbody tr")
    expect(steps).to_have_count(3)
    tell(dispatched, Accepted(1), StepCompleted(1, 1, 1, ""))
    expect(steps.nth(0)).to_contain_text("Completed")
    expect(steps.nth(1)).to_contain_text("Under way")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out on a phone"
