"""Restore drill: a site that runs is backed up, lives on, is lost as a whole, and comes back from the file.

Only the robots survive, with what they remember: they have talked to the site after the backup.
"""

import os
import shutil
import signal
import time
from pathlib import Path

import psycopg
import pytest

from fleet.backups import restore
from telemetry.generation import SPAN
from tests.eventually import eventually
from tests.run.copies import Copy, still_alive

pytestmark = pytest.mark.processes
BUSY = {"DROVER_ROBOTS": "2", "DROVER_DEMO_MISSIONS": "1", "DROVER_SPEED_UP": "20"}


def ask(copy: Copy, query: str, *arguments: object) -> list[tuple]:
    environment = dict(line.split("=", 1) for line in (copy.var / "environment").read_text().splitlines())
    with psycopg.connect(environment["DATABASE_URL"]) as connection:
        return connection.execute(query, arguments).fetchall()


def succeeded(copy: Copy, after: int = 0) -> int:
    return ask(copy, "SELECT count(*) FROM fleet_event WHERE kind = 'mission.succeeded' AND id > %s", after)[0][0]


def test_everything_is_lost_and_comes_back(start, folder):
    var, file = folder / "var", folder / "night.zip"
    first = start(var, **BUSY).until_ready()
    eventually(lambda: succeeded(first) >= 2, 90, "two missions to succeed")
    backup = first.manage("backup", str(file))
    assert backup.returncode == 0, backup.stderr
    known = {table.name: table.rows for table in restore.check_file(file).tables}
    eventually(lambda: succeeded(first) >= 4, 90, "missions to go on after the backup")
    last_id = ask(first, "SELECT max(id) FROM fleet_event")[0][0]

    family = first.family()  # the disaster
    os.killpg(first.make.pid, signal.SIGKILL)
    eventually(lambda: not still_alive(family), what="everything to be gone")
    robots = keep_robots(var, folder / "robots")
    shutil.rmtree(var)
    var.mkdir()
    for thing in robots:
        shutil.move(thing, var / thing.name)

    began = time.monotonic()
    second = start(var, restore=file, **BUSY)
    second.until_ready()
    took_s = time.monotonic() - began
    assert "All invariants hold." in second.output
    assert "passwords of the backup (night.zip)" in second.output
    rows = ask(second, "SELECT count(*) FROM fleet_event WHERE id <= %s", last_id)[0][0]
    assert rows == known["fleet_event"], "what happened after the backup is lost, and nothing else"

    def back() -> bool:
        links = ask(second, "SELECT session, gateway FROM telemetry_link")
        return len(links) == 2 and all(session > SPAN and gateway for session, gateway in links)

    eventually(back, what="both robots to be linked again, above all sessions that they had")
    eventually(lambda: succeeded(second, last_id + restore.EVENT_ID_JUMP) >= 2, 120, "new missions to succeed")
    checked = second.manage("check_invariants")
    assert (checked.returncode, checked.stdout) == (0, "All invariants hold.\n"), checked.stdout + checked.stderr
    stuck = ask(
        second,
        "SELECT id FROM missions_mission WHERE next_due_at < now() - interval '30 seconds'",
    )
    assert stuck == [], "no mission of the time of the backup hangs"
    assert "Traceback" not in second.output
    second.stop()
    again = start(var, restore=file, **BUSY)  # somebody repeats the line: the site that is there is not overwritten
    assert again.until_ended() != 0
    assert "not empty" in again.output or "holds" in again.output
    assert "Traceback" not in again.output
    print(f"restore drill: restored and serving {took_s:.1f} s after the start, {known['fleet_event']} events")


def keep_robots(var: Path, aside: Path) -> list[Path]:
    """Tokens and disks of the simulated robots: they are not the site's."""
    aside.mkdir()
    return [Path(shutil.move(var / name, aside / name)) for name in ("robots.json", "robots")]


def test_a_backup_that_is_not_there_is_said_before_anything_is_started(start, folder):
    copy = start(folder / "var", restore=folder / "nothing.zip")
    assert copy.until_ended() != 0
    assert "There is no backup" in copy.output
    assert not (folder / "var" / "postgres").exists()
