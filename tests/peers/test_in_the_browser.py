"""`make run ROBOTS=vda` and a real browser: a mission drawn up in admin, driven by a robot that others wrote."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest

from fleet.running import foreign
from tests.browser.conftest import chromium  # noqa: F401
from tests.browser.test_end_to_end import RECORD
from tests.eventually import eventually
from tests.run.copies import Copy
from tests.tools import missing

pytestmark = [pytest.mark.browser, pytest.mark.processes]

STEPS = (("navigate", {"place": "Dock B"}), ("pick", {"place": "Dock B"}), ("drop", {"place": "Dock A"}))


@pytest.fixture
def copy():
    """A calm site with two foreign robots."""
    if lacks := foreign.missing():
        missing(lacks)
    folder = Path(tempfile.mkdtemp(prefix="drover-vda-"))
    folder.chmod(0o755)
    copy = Copy(folder / "var", ROBOTS="vda", DROVER_ROBOTS="2", DROVER_DEMO_MISSIONS="0", DROVER_SPEED_UP="2")
    try:
        yield copy.until_ready()
        assert "Traceback" not in copy.output, copy.output
        assert "ERROR" not in copy.output, copy.output
    finally:
        copy.stop()
        shutil.rmtree(folder)


@pytest.fixture
def visit(chromium, copy):  # noqa: F811
    """`visit(user)` gives a page of somebody who has signed in; its console stays clean."""
    contexts, said = [], []

    def visit(user: str):
        contexts.append(context := chromium.new_context(base_url=copy.url))
        page = context.new_page()
        page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto("/login/")
        page.get_by_label("User name").fill(user)
        page.get_by_label("Password").fill(copy.password(user))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/fleet/")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []


def test_a_foreign_robot_drives_what_was_drawn_up_in_admin(copy, visit):
    eventually(lambda: "2 online" in copy.manage("status").stdout, what="both robots online")
    admin, board = visit("admin"), visit("supervisor")
    admin.goto("/admin/missions/mission/add/")
    admin.get_by_label("Title").fill("Bring it to dock A")
    admin.locator("select[name=site]").select_option(label="North Hall")
    admin.locator("select[name=robot]").select_option("VA-002")
    rows = admin.locator("[data-step]:visible")
    for number, (command, params) in enumerate(STEPS):
        if rows.count() == number:
            admin.get_by_role("button", name="Add a step").click()
        rows.nth(number).locator(".step-head select").select_option(command)
        for name, value in params.items():
            rows.nth(number).locator(f"[name$=-{name}]").fill(value)
    admin.get_by_role("button", name="Save", exact=True).click()
    mission = re.search(r"[0-9a-f-]{36}", admin.url)[0]

    board.goto("/fleet/")
    board.wait_for_selector("#link-state[data-state=live]")
    board.evaluate(RECORD, mission)
    admin.get_by_role("button", name="Run", exact=True).click()

    def shown() -> list[list[str]]:
        board.wait_for_timeout(50)  # lets the page work
        return board.evaluate("window.shown")

    eventually(
        lambda: "Drive to Dock B" in board.locator("#robot-VA-002").inner_text(), 15, "the card says what it does"
    )
    eventually(lambda: shown()[-1][0] == "success", what="success on the board")
    steps = [int(step.partition("/")[0]) for state, step, _ in shown() if state == "executing"]
    assert steps == sorted(steps)
    assert set(steps) == {1, 2, 3}

    admin.reload()
    history = admin.locator("#history")
    for words in ("Virtual 2", "pending → executing", "step_completed → success"):
        assert words in history.inner_text(), history.inner_text()
    assert "All invariants hold" in copy.manage("check_invariants").stdout


def test_without_the_programs_our_own_robots_drive(copy_without_node):
    said = [line for line in copy_without_node.output.splitlines() if "foreign robots" in line]
    assert len(said) == 1
    assert "apt install nodejs npm mosquitto" in said[0]
    eventually(lambda: "2 online" in copy_without_node.manage("status").stdout, what="our own robots are online")


@pytest.fixture
def copy_without_node(tmp_path_factory):
    """A machine whose PATH has what make needs, and no Node."""
    folder = Path(tempfile.mkdtemp(prefix="drover-vda-"))
    folder.chmod(0o755)
    tools = folder / "bin"
    tools.mkdir()
    for name in ("make", "sh", "bash", "env", "cat", "useradd"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    copy = Copy(folder / "var", ROBOTS="vda", DROVER_ROBOTS="2", DROVER_DEMO_MISSIONS="0", PATH=str(tools))
    try:
        yield copy.until_ready()
    finally:
        copy.stop()
        shutil.rmtree(folder)
