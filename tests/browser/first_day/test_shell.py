"""The first day of those who work in a shell: the integrator and whoever is on call. A command counts as a click."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from tests.browser.first_day.tasks import Shell, counted
from tests.eventually import eventually
from tests.run.copies import ROOT, Copy

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def test_a_mission_from_another_system(day, visit):
    day.free("RB-001")
    with counted("Create a mission from another system: issue a token, run the example", visit("supervisor")) as hand:
        page = hand.page
        hand.link("Admin", exact=True)
        hand.click(page.locator(".apps tr", has_text="API tokens").get_by_role("link", name="Add"))
        hand.fill("Label", "warehouse")
        hand.click(page.get_by_label("See missions"))
        hand.click(page.get_by_label("Draw up, run, pause and cancel missions"))
        hand.click(page.get_by_label("See sites, places and robots"))
        hand.button("Issue")
        hand.click(page.locator("[data-copy=token]"))
        token = page.evaluate("navigator.clipboard.readText()")
        ran = hand.types(
            f"DROVER_URL={day.url.rstrip('/')} DROVER_TOKEN={token} {sys.executable} docs/examples/follow_mission.py "
            "'North Hall' 'Shelf 3'"
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "success 1/1"
    mission = "mission:" + day.mission("Visit Shelf 3")
    assert day.happened(mission, "mission.drafted")[0] == "api warehouse for supervisor"
    assert day.happened(mission, "mission.succeeded")[0].startswith("robot ")


def test_last_nights_backup_is_restored(day, folder):
    """What becomes of robots and open missions after it is tests/run/test_restore_drill.py."""
    history = "SELECT id, aggregate, seq, encode(hash, 'hex') FROM fleet_event WHERE id <= %s ORDER BY id"
    var, file = folder / "var", folder / "night.zip"
    with counted("Restore last night's backup", Shell("on call", DROVER_VAR=str(day.copy.var))) as shell:
        newest = day.ask("SELECT max(id) FROM fleet_event")[0][0]
        backup = shell.types(f"{sys.executable} manage.py backup {file}")
        assert backup.returncode == 0, backup.stdout + backup.stderr
        shell.clicks += 1  # the next line, which goes on until Ctrl-C
        restored = Copy(var, restore=file, DROVER_ROBOTS="0")
        try:
            restored.until_ready()
            assert "All invariants hold." in restored.output
            environment = dict(line.split("=", 1) for line in (var / "environment").read_text().splitlines())
            assert day.ask(history, newest, of=environment["DATABASE_URL"]) == day.ask(history, newest)
        finally:
            restored.stop()


def test_a_robot_that_does_not_show_up(day):
    """Its token was mistyped. The page in docs/trouble leads from "nothing there" to that, by its own lines."""
    config = {"url": f"{day.url.replace('http', 'ws')}robot/v1/ws", "id": "RB-960", "token": "drover_mistyped"}
    told = shlex.quote(json.dumps(config | {"capabilities": [], "places": [], "start": ""}))
    robot = subprocess.Popen(
        ["bash", "-c", f"echo {told} | {sys.executable} -m telemetry.simulator.robot RB-960"], cwd=ROOT,
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert robot.stdout is not None
        assert "4401" in robot.stdout.readline(), "what the robot itself says"
        eventually(lambda: day.ask("SELECT 1 FROM telemetry_knock WHERE robot = 'RB-960'"), what="the knock to be kept")
        page = (ROOT / "docs/trouble/robot-does-not-show-up.md").read_text()
        assert re.search(r"close code 4401 \| its token is wrong", page)
        look = re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)[0]
        look = look.replace("manage.py", f"{sys.executable} manage.py").replace("http://127.0.0.1:8000/", day.url)
        lines = [line.removeprefix("$ ") for line in look.splitlines()]
        with counted(
            "A robot does not show up: find the cause", Shell("on call", DROVER_VAR=str(day.copy.var))
        ) as shell:
            status, ready, figures = (shell.types(line).stdout for line in lines)
    finally:
        os.killpg(robot.pid, signal.SIGTERM)
        robot.communicate(timeout=30)
    assert re.search(r"RB-960 from 127\.0\.0\.1: a token that we do not know", status), status
    assert json.loads(ready)["missing"] == {}, "it is not the site"
    assert int(re.search(r"^drover_unauthorised_total (\d+)", figures, re.M)[1]) >= 1
