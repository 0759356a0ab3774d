"""`make run`, a real browser, robots in processes of their own: one mission from admin to success, seen live."""

import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from tests.eventually import PATIENCE_S, eventually
from tests.run.copies import Copy

pytestmark = [pytest.mark.browser, pytest.mark.processes]

TITLE = "Fetch the spare wheel"
STEPS = (("navigate", {"place": "Dock B"}), ("wait", {"seconds": "12"}), ("navigate", {"place": "Dock A"}))
FROZEN_S = 5.0  # longer than the step that is under way would take (3 s)

# keeps what the page shows of one mission, each time it changes
RECORD = """
(id) => {
  window.shown = [];
  const look = () => {
    const row = document.getElementById(`mission-${id}`);
    if (!row) return;
    const now = [row.dataset.state, row.querySelector('.step').textContent, row.querySelector('.says b').textContent];
    if (JSON.stringify(now) !== JSON.stringify(window.shown.at(-1))) window.shown.push(now);
  };
  look();
  new MutationObserver(look).observe(document.getElementById('missions'),
    {subtree: true, childList: true, attributes: true, characterData: true});
}
"""


@pytest.fixture(scope="module")
def copy():
    """A calm site: two robots, no missions of the demo's own."""
    folder = Path(tempfile.mkdtemp(prefix="drover-e2e-"))
    folder.chmod(0o755)
    copy = Copy(folder / "var", DROVER_ROBOTS="2", DROVER_DEMO_MISSIONS="0", DROVER_SPEED_UP="4")
    try:
        yield copy.until_ready()
        assert "Traceback" not in copy.output, copy.output
    finally:
        copy.stop()
        shutil.rmtree(folder)


@pytest.fixture
def visit(chromium, copy):
    """`visit(user)` gives a page of somebody who has signed in through the form."""
    contexts = []

    def visit(user: str):
        context = chromium.new_context(base_url=copy.url)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append(context)
        page = context.new_page()
        page.goto("/login/")
        page.get_by_label("User name").fill(user)
        page.get_by_label("Password").fill(copy.password(user))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/fleet/")
        return page

    yield visit
    for context in contexts:
        context.close()


def draw_up(page) -> str:
    """Draw up the mission in admin; its id."""
    page.goto("/admin/missions/mission/add/")
    page.get_by_label("Title").fill(TITLE)
    page.locator("select[name=site]").select_option(label="North Hall")
    page.locator("select[name=robot]").select_option("RB-001")
    rows = page.locator("[data-step]:visible")
    for number, (command, params) in enumerate(STEPS):
        if rows.count() == number:
            page.get_by_role("button", name="Add a step").click()
        row = rows.nth(number)
        row.locator(".step-head select").select_option(command)
        for name, value in params.items():
            row.locator(f"[name$=-{name}]").fill(value)
    page.get_by_role("button", name="Save", exact=True).click()
    return re.search(r"[0-9a-f-]{36}", page.url)[0]


def test_a_mission_goes_from_admin_to_success_before_the_eyes_of_a_supervisor(copy, visit):
    eventually(lambda: "2 online" in copy.manage("status").stdout, what="both robots online")
    web, worker = copy.pid("daphne", "fleet.asgi"), copy.pid("manage.py worker")
    robot, other_robot = (copy.pid("telemetry.simulator.robot", robot_id) for robot_id in ("RB-001", "RB-002"))
    assert len({web, worker, robot, other_robot}) == 4
    admin, board = visit("admin"), visit("supervisor")
    mission = draw_up(admin)

    traffic = {"sockets": [], "requests": []}
    board.on("websocket", lambda socket: traffic["sockets"].append(socket.url))
    board.goto("/fleet/")
    board.wait_for_selector("#link-state[data-state=live]")
    board.on("request", lambda request: traffic["requests"].append(f"{request.method} {request.url}"))
    board.evaluate(RECORD, mission)
    board.evaluate("window.sameDocument = true")

    def shown() -> list[list[str]]:
        return board.evaluate("window.shown")

    def is_shown(state: str, step: str) -> bool:
        board.wait_for_timeout(50)  # lets the page work
        return any(seen[:2] == [state, step] for seen in shown())

    eventually(lambda: shown() and shown()[0][0] == "pending", what="the mission on the board, waiting")
    admin.get_by_role("button", name="Run", exact=True).click()
    eventually(lambda: is_shown("executing", "1/3"))
    eventually(lambda: is_shown("executing", "2/3"))

    os.kill(robot, signal.SIGSTOP)
    board.wait_for_timeout(500)  # what it had said before is applied
    frozen, since = shown(), time.monotonic()
    while time.monotonic() < since + FROZEN_S:
        board.wait_for_timeout(200)
        assert [seen[:2] for seen in shown()] == [seen[:2] for seen in frozen]
    os.kill(robot, signal.SIGCONT)

    eventually(lambda: is_shown("executing", "3/3"))
    eventually(lambda: shown()[-1][0] == "success", what="success on the board")

    states = [state for state, _, _ in shown()]
    assert states[0] == "pending"
    assert set(states) <= {"pending", "executing", "step_completed", "success"}
    steps = [int(step.partition("/")[0]) for state, step, _ in shown() if state == "executing"]
    assert steps == sorted(steps)
    assert set(steps) == {1, 2, 3}

    assert len(traffic["sockets"]) == 1
    assert traffic["sockets"][0].endswith("/live/ws")
    assert traffic["requests"] == []  # no polling, no navigation
    assert board.evaluate("window.sameDocument")

    edges_are_in_the_history(admin, mission)
    assert "All invariants hold" in copy.manage("check_invariants").stdout


EDGES = [
    ("new", "pending"),
    ("pending", "executing"),
    *([("executing", "step_completed"), ("step_completed", "executing")] * 2),
    ("executing", "step_completed"),
    ("step_completed", "success"),
]
CAUSES = {"Mule 1": "message:", "admin": "request:", "queue": ("request:", "queue:")}  # at once, or a moment later


def edges_are_in_the_history(admin, mission: str) -> None:
    """Every edge, and who and why for each event."""
    admin.reload()
    entries = admin.locator("#history li.entry")
    found = [
        {
            "edge": entry.locator(".edge").all_inner_texts(),
            "actor": entry.locator("p.quiet span").first.inner_text(),
            "cause": entry.locator("code.id").all_inner_texts(),
        }
        for entry in entries.all()
    ]
    edges = [tuple(part.strip() for part in e["edge"][0].split("→")) for e in found if e["edge"]]
    assert edges == EDGES
    assert {e["actor"] for e in found} == {"admin", "queue", "Mule 1"}
    for event in found:
        assert event["cause"][0].startswith(CAUSES[event["actor"]]), event
