"""The mission form in a real browser: typed rows, their order by keys and by drag, what is said while one types, and
that nothing is lost; with and without scripts."""

import pytest
from playwright.sync_api import expect

from missions.models import Mission
from tests.eventually import eventually

pytestmark = pytest.mark.browser
ADD = "/admin/missions/mission/add/"


def visible(page, number: int):
    """The row of a step, counted from 1 as people do."""
    return page.locator("[data-step]:not([hidden])").nth(number - 1)


def command(row, kind: str, **inputs: str) -> None:
    row.locator(".step-head select").select_option(kind)
    for field, value in inputs.items():
        row.locator(f"[data-input={field}] input").fill(value)


def shown(page) -> list[str]:
    """Commands of the rows with their first input, top to bottom."""
    return page.evaluate(
        "[...document.querySelectorAll('[data-step]:not([hidden])')].map((row) => row.querySelector('select').value + ' '"
        " + (row.querySelector('[data-input]:not([hidden]) input')?.value ?? ''))"
    )


def steps_of(mission: Mission) -> list[tuple]:
    return [(s.command, s.params.get("place", s.params.get("seconds"))) for s in mission.steps.all()]


@pytest.fixture
def form(sign_in, supervisor, robot):
    page = sign_in(supervisor)
    page.goto(ADD)
    return page


def fetch(page) -> None:
    """Three steps: navigate Dock A, wait 2, navigate Shelf 3."""
    page.get_by_label("Title").fill("From a browser")
    command(visible(page, 1), "navigate", place="Dock A")
    page.get_by_role("button", name="Add a step").click()
    command(visible(page, 2), "wait", seconds="2")
    page.get_by_role("button", name="Add a step").click()
    command(visible(page, 3), "navigate", place="Shelf 3")


def save(page) -> Mission:
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/change/")
    return Mission.objects.get()


def test_inputs_follow_the_command(form):
    assert form.locator("[data-step]:not([hidden])").count() == 1
    assert form.get_by_label("Site").input_value(), "who works at one site need not say which"
    row = visible(form, 1)
    for name, inputs in (
        ("wait", ["Wait for (s)"]),
        ("pick", ["Place", "Load"]),
        ("charge", ["Place", "Charge to (%)"]),
    ):
        command(row, name)
        labels = row.locator("[data-input]:visible label").all_inner_texts()
        assert labels == inputs
    assert row.locator("[data-input=until_percent] input").get_attribute("placeholder") == "100"
    assert "drives to the charger" in row.locator("[data-help]").inner_text()
    command(row, "navigate", place="Dock A")
    form.get_by_role("button", name="Add a step").click()
    command(visible(form, 2), "pick")
    place = visible(form, 2).locator("[data-input=place] input")
    expect(place).to_have_value("Dock A")  # where it has driven to
    place.fill("Shelf 3")
    command(visible(form, 2), "drop")
    expect(place).to_have_value("Shelf 3")


def test_a_robot_says_who_is_free_and_what_it_cannot_do(form):
    options = form.get_by_label("Robot").locator("option").all_inner_texts()
    assert options[0].startswith("Choose for me")
    assert options[1].startswith("RB-001, Ella: free")
    command(visible(form, 1), "custom", name="beep")
    form.get_by_label("Robot").select_option("RB-001")
    expect(visible(form, 1).locator("[data-errors$=command]")).to_contain_text(
        "Step 1, command: Robots of this brand cannot do custom; they can do charge"
    )
    assert "Custom (this robot cannot)" in visible(form, 1).locator("option").all_inner_texts()
    command(visible(form, 1), "charge")
    expect(visible(form, 1).locator("[data-errors$=command]")).to_be_empty()


def test_order_by_buttons_keys_and_drag_is_announced_and_stored(form):
    fetch(form)
    news = form.locator("#step-news")
    visible(form, 3).get_by_label("Move this step up").click()
    assert shown(form) == ["navigate Dock A", "navigate Shelf 3", "wait 2"]
    assert news.inner_text() == "Navigate is now step 2 of 3."
    visible(form, 2).locator("[data-handle]").focus()
    form.keyboard.press("ArrowDown")
    assert shown(form) == ["navigate Dock A", "wait 2", "navigate Shelf 3"]
    assert news.inner_text() == "Navigate is now step 3 of 3."
    form.keyboard.press("ArrowUp")
    form.keyboard.press("ArrowUp")
    assert shown(form) == ["navigate Shelf 3", "navigate Dock A", "wait 2"]
    assert visible(form, 1).locator("[data-handle]").evaluate("(handle) => handle === document.activeElement")
    visible(form, 2).locator("[data-input=place] input").focus()
    form.keyboard.press("Alt+ArrowDown")
    assert shown(form) == ["navigate Shelf 3", "wait 2", "navigate Dock A"]

    handle, target = visible(form, 3).locator("[data-handle]"), visible(form, 1).bounding_box()
    handle.hover()
    form.mouse.down()
    form.mouse.move(target["x"] + 20, target["y"] + 5, steps=8)
    form.mouse.up()
    assert shown(form) == ["navigate Dock A", "navigate Shelf 3", "wait 2"]
    assert news.inner_text() == "Navigate is now step 1 of 3."
    assert steps_of(save(form)) == [("navigate", "Dock A"), ("navigate", "Shelf 3"), ("wait", 2.0)]


def test_rows_are_duplicated_and_removed(form):
    fetch(form)
    visible(form, 1).get_by_label("Duplicate this step").click()
    assert shown(form) == ["navigate Dock A", "navigate Dock A", "wait 2", "navigate Shelf 3"]
    visible(form, 2).locator("[data-input=place] input").fill("Charger 1")
    visible(form, 3).get_by_label("Remove this step").click()
    assert form.locator("#step-news").inner_text() == "Step 3 removed. 3 left."
    assert steps_of(save(form)) == [("navigate", "Dock A"), ("navigate", "Charger 1"), ("navigate", "Shelf 3")]


def test_what_is_wrong_is_said_while_one_types_next_to_the_field(form):
    form.locator("#step-news").wait_for(state="attached")
    fetch(form)
    place = visible(form, 3).locator("[data-input=place] input")
    place.fill("Mars")
    said = visible(form, 3).locator("[data-errors$=place]")
    expect(said).to_have_text("Step 3, place: Mars is no place of this site. Choose one of the list.")
    assert place.get_attribute("aria-invalid") == "true"
    assert form.locator("ul.errorlist li").count() == 1, "what is not entered yet is not an error yet"
    visible(form, 3).get_by_label("Move this step up").click()
    expect(visible(form, 2).locator("[data-errors$=place]")).to_contain_text("Step 2, place: Mars")
    visible(form, 2).locator("[data-input=place] input").fill("Shelf 3")
    expect(form.locator("ul.errorlist li")).to_have_count(0)
    assert steps_of(save(form)) == [("navigate", "Dock A"), ("navigate", "Shelf 3"), ("wait", 2.0)]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_nothing_is_lost_by_an_error(sign_in, supervisor, robot, scripts):
    page = sign_in(supervisor, java_script_enabled=scripts)
    page.goto(ADD)
    page.get_by_label("Site").select_option("Hall 1")
    if not scripts:
        page.get_by_label("Robot").select_option("RB-001")
    command(visible(page, 1), "navigate", place="Mars")
    page.get_by_role("button", name="Save", exact=True).click()
    note = page.get_by_role("alert")
    expect(note).to_contain_text("Title: This is needed.")
    expect(note).to_contain_text("Step 1, place: Mars is no place of this site.")
    expect(visible(page, 1).locator("[data-errors$=place]")).to_contain_text("Step 1, place: Mars is no place")
    assert visible(page, 1).locator("[data-input=place] input").input_value() == "Mars"
    visible(page, 1).locator("[data-input=place] input").fill("Dock A")
    page.get_by_label("Title").fill("Now right")
    mission = save(page)
    assert (mission.title, steps_of(mission)) == ("Now right", [("navigate", "Dock A")])


def test_leaving_asks_when_something_would_be_lost(form):
    asked = []
    form.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    form.goto("/admin/")
    assert asked == []
    form.goto(ADD)
    form.get_by_label("Title").fill("Half done")
    form.goto("/admin/")
    assert asked == ["beforeunload"]
    form.goto(ADD)
    fetch(form)
    save(form)
    assert asked == ["beforeunload"]


def test_the_form_works_without_scripts(sign_in, supervisor, robot):
    page = sign_in(supervisor, java_script_enabled=False)
    page.goto(ADD)
    page.get_by_label("Title").fill("No script")
    page.get_by_label("Robot").select_option("RB-001")
    for number, place, order in ((1, "Shelf 3", "2"), (4, "Dock A", "1")):
        command(visible(page, number), "navigate", place=place)
        page.locator(f"[name=steps-{number - 1}-ORDER]").fill(order)
    page.get_by_role("button", name="Save and run").click()
    page.wait_for_url("**/change/")
    mission = Mission.objects.get()
    assert steps_of(mission) == [("navigate", "Dock A"), ("navigate", "Shelf 3")]
    assert mission.dispatched_at
    page.locator("summary", has_text="Cancel").click()
    page.get_by_label("Reason").fill("wrong aisle")
    page.get_by_role("button", name="Cancel this mission").click()
    eventually(lambda: Mission.objects.get().abort_detail == "wrong aisle", timeout_s=5)
