"""The supervisor with small programs: what it restarts, what it gives up, in which order it stops, what it prints."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fleet.running import supervisor as module
from fleet.running.console import Console
from fleet.running.supervisor import Failed, Program, Supervisor
from tests.eventually import eventually, eventually_async

pytestmark = pytest.mark.processes


@pytest.fixture
async def supervisor(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_S", (0.02,))
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    console = Console(log)
    supervisor = Supervisor(console, {**os.environ, "HERE": str(tmp_path)})
    yield supervisor
    await supervisor.stop()
    console.close()
    os.close(log)


def python(name: str, code: str, **options) -> Program:
    return Program(name, [sys.executable, "-c", code], **{"up_after_s": 0.3, **options})


async def test_a_program_that_dies_early_five_times_is_given_up(supervisor):
    up = supervisor.start(python("bad", "print('no such thing'); raise SystemExit(3)"))
    with pytest.raises(Failed, match="bad ended 5 times before it was up"):
        await up
    assert supervisor.gave_up.done()
    assert supervisor.gave_up.result().tail == ["no such thing"] * 5


async def test_a_program_that_was_up_is_never_given_up(supervisor, tmp_path):
    """A store whose disk is full ends at each start, until somebody frees space."""

    async def ready() -> bool:
        return (tmp_path / "room").exists()

    code = (
        "import os, time; here = os.environ['HERE']; open(here + '/tries', 'a').write('x');"
        "[time.sleep(0.02) for _ in range(3000) if os.path.exists(here + '/room')]"
    )
    (tmp_path / "room").touch()
    await supervisor.start(python("store", code, ready=ready))
    (tmp_path / "room").unlink()
    tries = tmp_path / "tries"
    await eventually_async(lambda: tries.stat().st_size > module.EARLY_DEATHS + 2)
    assert not supervisor.gave_up.done()


async def test_a_program_is_not_given_up_while_a_store_below_it_recovers(supervisor, tmp_path):
    async def answers() -> bool:
        return (tmp_path / "recovered").exists()

    store = supervisor.start(python("store", "import time; time.sleep(60)", ready=answers))
    code = "import os; open(os.environ['HERE'] + '/tries', 'a').write('x'); raise SystemExit(3)"
    web = supervisor.start(python("web", code, tier=1))
    tries = tmp_path / "tries"
    await eventually_async(lambda: tries.exists() and tries.stat().st_size > module.EARLY_DEATHS + 1)
    assert not supervisor.gave_up.done()
    (tmp_path / "recovered").touch()
    await store
    with pytest.raises(Failed, match="web ended 5 times before it was up"):  # now it is its own fault
        await web


async def test_what_dies_on_a_store_that_is_away_for_long_is_not_tried_all_the_time(supervisor, tmp_path, monkeypatch):
    """A store is tried for ever, so all that stands on it may have nothing to stand on for ever."""
    monkeypatch.setattr(module, "BACKOFF_S", (0.01, 0.02, 60.0))

    async def never() -> bool:
        return False

    supervisor.start(python("store", "import time; time.sleep(60)", ready=never))
    supervisor.start(python("web", "raise SystemExit(3)", tier=1))
    log = tmp_path / "log"
    await eventually_async(lambda: "starting it again in 60 s" in log.read_text())
    assert log.read_text().count("web ended") == 3


async def test_a_program_that_was_up_and_cannot_be_started_is_tried_again(supervisor):
    """Memory, processes or room may be short at the moment."""

    tries: list[int] = []

    def room() -> None:
        tries.append(1)
        if 1 < len(tries) < 4:
            raise OSError(12, "Cannot allocate memory")

    await supervisor.start(python("store", "import time; time.sleep(60)", before=room))
    first = supervisor.pids()["store"]
    os.kill(first, signal.SIGKILL)
    await eventually_async(lambda: supervisor.pids().get("store", first) != first)
    assert not supervisor.gave_up.done()


async def test_a_program_that_is_not_vital_takes_nothing_down(supervisor):
    with pytest.raises(Failed):
        await supervisor.start(python("extra", "raise SystemExit(1)", vital=False))
    assert not supervisor.gave_up.done()


async def test_a_program_that_cannot_be_started_is_given_up(supervisor):
    with pytest.raises(Failed, match="could not be started"):
        await supervisor.start(Program("none", ["/no/such/program"]))


async def test_a_program_that_was_up_is_started_again_at_once_and_never_given_up(supervisor):
    await supervisor.start(python("web", "import time; time.sleep(60)"))
    for _ in range(module.EARLY_DEATHS + 1):
        old = supervisor.pids()["web"]
        os.kill(old, signal.SIGKILL)
        await eventually_async(lambda old=old: supervisor.pids().get("web", old) != old)
        await asyncio.sleep(0.4)  # it is up
    assert not supervisor.gave_up.done()


async def test_a_probe_decides_what_up_means(supervisor, tmp_path):
    async def ready() -> bool:
        return (tmp_path / "up").exists()

    up = supervisor.start(python("slow", "import time; time.sleep(60)", ready=ready))
    await asyncio.sleep(0.5)
    assert not up.done()
    (tmp_path / "up").touch()
    await asyncio.wait_for(up, 30)


LAST_WORD = """
import os, signal, sys, time
def end(*_):
    with open(os.environ["HERE"] + "/order", "a") as order: order.write(sys.argv[1] + " ")
    sys.exit()
signal.signal(signal.SIGTERM, end)
open(os.environ["HERE"] + "/" + sys.argv[1], "w").close()
time.sleep(60)
"""


async def test_what_all_stand_on_stops_last(supervisor, tmp_path):
    for tier, name in enumerate(("store", "web", "worker")):
        supervisor.start(Program(name, [sys.executable, "-c", LAST_WORD, name], tier=tier))
    await eventually_async(lambda: all((tmp_path / name).exists() for name in ("store", "web", "worker")))
    await supervisor.stop()
    *above, last = (tmp_path / "order").read_text().split()
    assert (set(above), last) == ({"worker", "web"}, "store")


async def test_a_program_that_does_not_stop_is_killed_with_all_that_it_started(supervisor, tmp_path):
    code = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "60"])
with open(os.environ["HERE"] + "/child", "w") as file: file.write(str(child.pid))
time.sleep(60)
"""
    supervisor.start(python("deaf", code, stop_within_s=0.2))
    await eventually_async(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    began = time.monotonic()
    await supervisor.stop()
    assert time.monotonic() - began < 15  # it and its child would be there for 60 s
    child = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    await eventually_async(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z")


async def test_once_says_what_went_wrong(supervisor):
    await supervisor.once("fine", sys.executable, "-c", "pass")
    with pytest.raises(Failed, match="migrate ended with exit code 4") as caught:
        await supervisor.once("migrate", sys.executable, "-c", "print('disk full'); raise SystemExit(4)")
    assert caught.value.tail == ["disk full"]


async def test_the_log_has_a_line_per_line_behind_its_name_and_nothing_that_drives_a_terminal(supervisor, tmp_path):
    await supervisor.once("talker", sys.executable, "-c", r"print('one\x1b[2J\x07\ntwo'); print('x' * 2**21)")
    await asyncio.sleep(0.2)

    def text() -> str:
        return (tmp_path / "log").read_text()

    await eventually_async(lambda: "very long line" in text())
    lines = [line.split(" ", 1)[1] for line in text().splitlines()]
    assert lines[:2] == ["talker     one[2J", "talker     two"]
    assert "\x1b" not in text()


def test_a_reader_that_stops_reading_holds_up_nothing():
    reading, writing = os.pipe()
    console = Console(writing)
    began = time.monotonic()
    for _ in range(50_000):
        console.line("web", "x" * 100)
    console.close(0.1)
    assert time.monotonic() - began < 30  # it took 0.3 s
    os.close(reading)
    eventually(console._queue.empty, what="what waits to be dropped, once nobody can read it")
    os.close(writing)
