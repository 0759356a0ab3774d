"""The first day of a supervisor: each task from the sign-in page to its result, with its clicks counted."""

import pytest
from playwright.sync_api import expect

from tests.browser.first_day.tasks import counted
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.processes]
LONG = ("wait", {"seconds": 900})  # at ten times the speed 90 s: longer than any of these tests


def step(page, number: int):
    ready = "[data-step]:not([hidden]):has([data-handle]:not([hidden]))"  # the script has put the rows in order
    return page.locator(ready).nth(number - 1)


def command(hand, number: int, kind: str, **inputs: str) -> None:
    row = step(hand.page, number)
    hand.choose(row.locator(".step-head select"), kind)
    for name, value in inputs.items():
        hand.fill(row.locator(f"[data-input={name}] input"), value)


def card(page, robot: str):
    return page.locator(f"[id='robot-{robot}']")


def test_fetch_from_dock_a_to_shelf_3(day, visit):
    with counted("Draw up and run “fetch from Dock A to Shelf 3”, see it succeed", visit("supervisor")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.link("Draw up a mission")
        hand.fill("Title", "Fetch from Dock A to Shelf 3")
        hand.choose("Site", "North Hall")
        command(hand, 1, "Pick", place="Dock A")
        hand.button("Add a step")
        command(hand, 2, "Drop", place="Shelf 3")
        hand.button("Save and run")
        expect(page.locator(".messagelist")).to_contain_text("Dispatched to")
        expect(page.locator("#mission-head")).to_contain_text("Success")  # the page follows by itself
    mission = "mission:" + day.mission("Fetch from Dock A to Shelf 3")
    assert day.happened(mission, "mission.drafted")[0] == "user supervisor"
    assert day.happened(mission, "mission.succeeded")[0].startswith("robot ")


def test_why_it_waits(day, visit):
    day.free("RB-003")
    busy = day.draft("Count the shelves", LONG, robot="RB-003")
    day.until(busy, "executing")
    waiting = day.draft("Mission M", ("navigate", {"place": "Dock B"}), robot="RB-003")
    with counted("Find out why mission M waits", visit("supervisor")) as hand:
        row = hand.page.locator(f"[id='mission-{waiting}']")
        expect(row).to_contain_text("Picker 3 is busy with “Count the shelves”")
    assert day.api("GET", f"/missions/{waiting}")["waits_for"] in row.inner_text()  # the same words for programs
    day.end(waiting)
    day.end(busy)


def test_stop_hall_2_and_release_two(day, visit):
    day.free("RB-002", "RB-004", "RB-006")
    with counted("Stop everything in hall 2 and release two", visit("yara")) as hand:
        page = hand.page
        expect(page.locator("#link-state")).to_have_attribute("data-state", "live")
        hand.button("Stop all")
        expect(page.locator("#stops .sum")).to_have_text("3 standing")
        for robot in ("RB-002", "RB-004"):
            hand.click(card(page, robot).locator(".pick"))
        hand.button("Release selected")
        hand.click(page.locator("#ask [value=yes]"))
        expect(page.locator("#told")).to_have_text("Released 2 robots.")
    for robot in ("RB-002", "RB-004", "RB-006"):
        assert day.happened(f"robot:{robot}", "robot.hold_opened")[0] == "user yara"
        assert day.happened(f"robot:{robot}", "robot.stop_confirmed")[0].startswith("robot ")
    held = [robot for robot in ("RB-001", "RB-002", "RB-004", "RB-006") if day.api("GET", f"/robots/{robot}")["holds"]]
    assert held == ["RB-006"]
    day.api("POST", "/robots/RB-006/release")


def test_out_of_service_until_monday(day, visit):
    day.free("RB-005")
    with counted("Take a robot out of service until Monday, with a reason", visit("supervisor")) as hand:
        page = hand.page
        card(page, "RB-005").hover()
        hand.click(card(page, "RB-005").get_by_role("link", name="Open"))
        hand.unfold("Maintenance…")
        hand.fill("Why", "brakes")
        monday = page.locator("[name=until][value=monday]")
        if not monday.is_checked():  # on a Sunday it is what is chosen already
            hand.click(monday)
        hand.button("Take it out of service")
        expect(page.get_by_text("Ends by itself on Monday")).to_be_visible()
    who, what = day.happened("robot:RB-005", "robot.hold_opened")
    assert (who, what["holds"][0]["why"]) == ("user supervisor", "brakes")
    day.api("POST", "/robots/RB-005/release")


def test_cancel_with_a_reason(day, visit):
    day.free("RB-003")
    mission = day.draft("Bring the wrong pallet", LONG, robot="RB-003")
    day.until(mission, "executing")
    with counted("Cancel a running mission with a reason; the robot confirms", visit("supervisor")) as hand:
        hand.link("Bring the wrong pallet")
        hand.unfold("Cancel…")
        hand.fill("Reason", "wrong pallet")
        hand.button("Cancel this mission")
        expect(hand.page.locator("#mission-head")).to_contain_text("Aborted: cancelled by a person")
        expect(hand.page.locator("#mission-head")).to_contain_text("wrong pallet")
    assert day.happened(f"mission:{mission}", "mission.stop_requested")[0] == "user supervisor"
    who, _ = day.happened(f"mission:{mission}", "mission.aborted")
    assert who == "robot Picker 3", "the robot has confirmed"


def test_run_the_unfinished_steps_again(day, visit):
    day.free("RB-003")
    mission = day.draft("Tour", ("wait", {"seconds": 1}), ("wait", {"seconds": 60}), robot="RB-003")
    eventually(lambda: day.api("GET", f"/missions/{mission}")["steps_done"] == 1, what="one step done")
    day.end(mission)
    day.free("RB-003")
    with counted("Run only the unfinished steps of an aborted mission again", visit("supervisor")) as hand:
        hand.link("Admin", exact=True)
        hand.link("Went wrong in 24 h")
        hand.link("Tour")
        hand.unfold("Rerun unfinished…")
        hand.click(hand.page.locator("details[open] button", has_text="Make the new mission"))
        hand.button("Run", exact=True)
        expect(hand.page.locator("#mission-head")).to_contain_text("Success")
    again = day.api("GET", f"/missions/{day.mission('Tour')}")
    assert (again["origin"], again["origin_kind"]) == (mission, "rerun")
    assert [(s["command"], s["params"]) for s in again["steps"]] == [("wait", {"seconds": 60})]
    assert day.happened(f"mission:{again['id']}", "mission.drafted")[0] == "user supervisor"


def test_approve_what_somebody_else_drew_up(day, visit):
    mission = day.draft("Move the acid", ("navigate", {"place": "Dock B"}), needs_approval=True, run=False)
    with counted("Approve a mission that somebody else drew up, and run it", visit("nora")) as hand:
        hand.link("Admin", exact=True)
        hand.link("1 mission to be approved")
        hand.link("Move the acid")
        hand.button("Approve")
        hand.button("Run", exact=True)
        expect(hand.page.locator("#mission-head")).to_contain_text("Success")
    assert day.happened(f"mission:{mission}", "mission.approved")[0] == "user nora"
    assert day.happened(f"mission:{mission}", "mission.drafted")[0].startswith("api ")


def test_a_template_and_a_mission_from_it(day, visit):
    with counted("Make a template, and a mission from it", visit("nora")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("Missions")
        hand.link("Templates")
        hand.link("Draw up a template")
        hand.fill(page.locator("#id_name"), "Bring to a shelf")
        hand.fill("Title of its missions", "Bring it to {shelf}")
        hand.fill(page.locator("table.parameters tbody tr").first.get_by_placeholder("name"), "shelf")
        command(hand, 1, "Navigate", place="{shelf}")
        hand.button("Save the template")
        hand.link("New mission from it")
        hand.choose("Shelf", "Shelf 2")
        hand.button("Save and run")
        expect(page.locator("#mission-head")).to_contain_text("Success")
    mission = day.api("GET", f"/missions/{day.mission('Bring it to Shelf 2')}")
    assert (mission["origin_kind"], mission["steps"][0]["params"]) == ("template", {"place": "Shelf 2"})
    assert day.happened(f"mission:{mission['id']}", "mission.drafted")[0] == "user nora"
    template = day.ask("SELECT template_id FROM missions_mission WHERE id = %s", mission["id"])[0][0]
    assert day.happened(f"template:{template}", "template.drafted")[0] == "user nora"


def test_acknowledge_and_find_it_again(day, visit):
    with counted("Acknowledge an alert and find it again", visit("supervisor")) as hand:
        page = hand.page
        hand.click(page.locator("#alarms summary"))
        line = page.locator("#alerts li", has_text="Gate 4 stays open")
        hand.click(line.get_by_role("button", name="Acknowledge"))
        expect(line).to_contain_text("acknowledged by supervisor")
        hand.click(line.get_by_role("link"))
        expect(page.locator("dd", has_text="by supervisor")).to_be_visible()
    query = "SELECT acknowledged_by, acknowledged_at FROM fleet_alert WHERE text = 'Gate 4 stays open'"
    assert [(who, bool(at)) for who, at in day.ask(query)] == [("supervisor", True)]


def test_pause_and_resume_from_the_live_page(day, visit):
    day.free("RB-001")
    mission = day.draft("Inventory", LONG, robot="RB-001")
    day.until(mission, "executing")
    with counted("Pause and resume from the live page", visit("supervisor")) as hand:
        mine = card(hand.page, "RB-001")
        mine.hover()
        hand.click(mine.get_by_role("button", name="Pause"))
        expect(mine).to_contain_text("Paused")
        hand.click(mine.get_by_role("button", name="Resume"))
        expect(mine.get_by_role("button", name="Pause")).to_be_visible()
    assert day.happened(f"mission:{mission}", "mission.pause_requested")[0] == "user supervisor"
    assert day.happened(f"mission:{mission}", "mission.resumed")[0] == "robot Mule 1"
    day.end(mission)


def test_a_new_password_and_no_other_devices(day, visit):
    phone = visit("pia").page
    expect(phone.locator("#link-state")).to_have_attribute("data-state", "live")
    new = "seven herons in the reeds"
    with counted("Change the password and sign out other devices", visit("pia")) as hand:
        hand.link("pia")
        hand.link("Change password")
        hand.fill("Old password", day.password("pia"))
        hand.fill("New password", new)
        hand.fill("New password confirmation", new)
        hand.button("Change password")
        expect(hand.page.locator(".told")).to_be_visible()
    expect(phone.locator("#link-state")).to_contain_text("Signed out")
    visit("pia", signs_in=False).signs_in(new)
    number = day.ask("SELECT id FROM auth_user WHERE username = 'pia'")[0][0]
    assert day.happened(f"person:{number}", "person.password_changed")[0] == "user pia"
