"""The first day of an admin: each task from the sign-in page to its result, with its clicks counted."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from tests.browser.first_day.day import PASSWORD
from tests.browser.first_day.tasks import counted
from tests.fleet.pictures import png
from tests.run.copies import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@contextlib.contextmanager
def typed(line: str):
    """The command line runs in a shell, as it was copied."""
    line = line.replace(".venv/bin/python", sys.executable)
    shell = subprocess.Popen(["bash", "-c", line], cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield shell
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(30)


def clipboard(page) -> str:
    return page.evaluate("navigator.clipboard.readText()")


def test_enrol_a_robot_and_see_it_connect(day, visit):
    with counted("Enrol a robot, copy its command line, see it connect", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.link("Enrol a robot")
        hand.fill("Id", "RB-901")
        hand.fill("Name", "Nina")
        hand.choose("Site", "North Hall")
        hand.choose("Brand", "Mule 300")
        hand.button("Enrol")
        hand.button("Issue a token")
        hand.click(page.locator("[data-copy=command-line]"))
        with typed(clipboard(page)):
            expect(page.locator("#connection")).to_contain_text("Connected.")
            robot = day.api("GET", "/robots/RB-901")
            assert (robot["presence"], robot["mode"]) == ("online", "idle")
    assert day.happened("robot:RB-901", "robot.enrolled")[0] == "user admin"
    assert day.happened("robot:RB-901", "robot.credential_issued")[0] == "user admin"


def test_a_supervisor_for_one_site(day, visit):
    with counted("Add a supervisor for one site, who sees only that", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("People")
        hand.link("Add a person")
        hand.fill("User name", "sol")
        hand.choose("Role", "Supervisor")
        hand.click(page.get_by_label("South Yard"))
        hand.fill("Password", PASSWORD)
        hand.fill("Password, once more", PASSWORD)
        hand.button("Add the person")
        expect(page.locator(".messagelist")).to_contain_text("Sol is added.")
    number = day.ask("SELECT id FROM auth_user WHERE username = 'sol'")[0][0]
    who, what = day.happened(f"person:{number}", "person.access_changed")
    assert (who, what["role"], what["where"]) == ("user admin", "supervisor", "South Yard")
    sol = visit("sol", signs_in=False)
    sol.signs_in(PASSWORD)
    expect(sol.page.locator("[id='robot-RB-002']")).to_be_visible()
    assert sol.page.locator("[id='robot-RB-001']").count() == 0
    assert "North Hall" not in sol.page.content()
    assert sol.page.goto("/admin/fleet/robot/RB-001/change/").status == 404


def test_access_is_taken_away(day, visit):
    board = visit("tess").page
    expect(board.locator("#link-state")).to_have_attribute("data-state", "live")
    with counted("Take access away; the open page closes", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("People")
        hand.link("tess")
        hand.unfold("Deactivate…")
        hand.click(page.locator("details[open] button", has_text="Deactivate"))
        expect(page.locator(".messagelist")).to_contain_text("Tess is deactivated and signed out everywhere.")
    expect(board.locator("#link-state")).to_contain_text("Signed out")
    number = day.ask("SELECT id FROM auth_user WHERE username = 'tess'")[0][0]
    assert day.happened(f"person:{number}", "person.deactivated")[0] == "user admin"
    board.goto("/fleet/")
    assert "/login/" in board.url


def test_import_with_one_wrong_row(day, visit):
    file = (
        "id,name,site,brand\nRB-981,Ida,North Hall,Mule 300\nRB-982,Jon,Mars,Mule 300\nRB-983,Kim,North Hall,Mule 300\n"
    )
    with counted("Import robots from CSV, one row of it wrong", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("Robots")
        hand.link("Import")
        hand.attach(page.get_by_label("CSV file"), "robots.csv", file.encode())
        hand.button("See what it would do")
        expect(page.get_by_text("Row 3, site: there is no site “Mars”")).to_be_visible()
        hand.button("Import 2 rows")
        expect(page.get_by_role("heading", name="What it did")).to_be_visible()
    made = day.ask("SELECT id FROM fleet_robot WHERE id LIKE 'RB-98_' ORDER BY id")
    assert [robot for (robot,) in made] == ["RB-981", "RB-983"]
    assert day.happened("robot:RB-981", "robot.enrolled")[0] == "user admin"


def test_a_map_with_its_places(day, visit):
    with counted("Upload a site map and see the places on it", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.click(page.locator(".apps").get_by_role("link", name="Sites", exact=True))
        hand.link("South Yard")
        hand.link("Add a map", exact=True)
        hand.attach(page.get_by_label("Picture"), "plan.png", png())
        hand.button("Save the map")
        drawing = page.locator(".site-map")
        expect(drawing.get_by_role("link", name="Bay 2")).to_be_visible()
        assert page.evaluate("(url) => fetch(url).then((a) => a.ok)", drawing.locator("image").get_attribute("href"))
    who, _ = day.happened(f"site:{day.sites['South Yard']}", "site.map_set")
    assert who == "user admin"


def test_a_robot_that_knocked(day, visit):
    knock = urllib.request.Request(
        f"{day.url}robot/v1/events", b'{"type": "hello", "robot": "RB-950"}', {"Authorization": "Bearer drover_old"}
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(knock, timeout=10)
    with counted("Enrol a robot that knocked, and read its last messages", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("Robots")
        hand.link("Robots that knocked")
        hand.click(page.locator("tr", has_text="RB-950").get_by_role("link", name="Enrol this robot"))
        assert page.get_by_label("Id", exact=True).input_value() == "RB-950"
        hand.choose("Site", "North Hall")
        hand.choose("Brand", "Courier 50")
        hand.button("Enrol")
        hand.button("Issue a token")
        hand.click(page.locator("[data-copy=curl-line]"))
        with typed(clipboard(page)):
            expect(page.locator("#connection")).to_contain_text("Connected.")
        hand.link("its last messages")
        expect(page.locator("main")).to_contain_text("hello")
        expect(page.locator("main")).to_contain_text("Welcome")
    assert day.happened("robot:RB-950", "robot.enrolled")[0] == "user admin"


def test_another_credential_and_the_end_of_a_robot(day, visit):
    with counted("Revoke a credential, issue another, retire the robot", visit("admin")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.menu("Robots")
        hand.link("RB-970")
        hand.unfold("Revoke…")
        hand.click(page.locator("details[open] button", has_text="Revoke #"))
        hand.link("Issue a credential…")
        hand.button("Issue a token")
        hand.link("To the page of RB-970")
        hand.unfold("Retire…")
        hand.click(page.locator("details[open] button", has_text="Retire"))
        expect(page.locator(".messagelist")).to_contain_text("RB-970 is retired.")
    kinds = [kind for kind, who, _ in day.history("robot:RB-970") if who == "user admin"]
    assert kinds == ["robot.credential_revoked", "robot.credential_issued", "robot.retired"]
    assert day.ask("SELECT retired_at FROM fleet_robot WHERE id = 'RB-970'")[0][0]
