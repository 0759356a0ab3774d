"""What the person on call does, on a copy that runs: commands of the pages, figures, logs, stores that are full or frozen."""

import http.cookiejar
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from telemetry.watching.health import LIMIT_S
from tests.eventually import eventually
from tests.run.copies import ROOT, Copy, command_line
from tests.tools import tool

pytestmark = pytest.mark.processes
DOCS = [ROOT / "docs" / "operations.md", *sorted((ROOT / "docs" / "trouble").glob("*.md"))]
COMMANDS = sorted(
    {
        line.removeprefix("$ ")
        for page in DOCS
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.M | re.S)
        for line in block.splitlines()
        if line.split()[1] not in ("df", "timedatectl")  # the machine's, not ours
    },
    key=lambda command: (" --check" in command, command),  # a backup is made before it is looked at
)


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    path = Path(tempfile.mkdtemp(prefix="drover-run-"))
    path.chmod(0o755)
    running = Copy(path / "var", LOG_FORMAT="json", DROVER_DEMO_MISSIONS="1", DROVER_SPEED_UP="10")
    try:
        yield running.until_ready()
    finally:
        running.stop()
        shutil.rmtree(path)


def figures(text: str) -> dict[str, float]:
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in "#")}


def environment(copy: Copy) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (copy.var / "environment").read_text().splitlines())


def of_worker(copy: Copy) -> str:
    (file,) = (copy.var / "metrics").glob("worker-*")
    with urllib.request.urlopen(f"http://{file.read_text().strip()}/metrics", timeout=20) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_pages_works(copy, command):
    program, *rest = shlex.split(command.partition(" | ")[0])
    if program == "manage.py":
        folder = copy.var.parent / "backups"
        rest = [word.replace("/tmp/drover-backups", str(folder)) for word in rest]  # noqa: S108
        result = copy.manage(*rest)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.strip()
        return
    if program == "psql":  # the machine may have none: what it is to ask is asked
        with psycopg.connect(environment(copy)["DATABASE_URL"]) as connection:
            assert connection.execute(rest[rest.index("-c") + 1]).fetchone()
        return
    assert (program, rest[0]) == ("curl", "-s")
    if "var/metrics" in command:
        tool("curl")
        command = command.replace("var/metrics", str(copy.var / "metrics"))
        text = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=10, check=True).stdout
    else:
        status, text = copy.get(urllib.parse.urlsplit(rest[1]).path.lstrip("/"))
        assert status == 200
    if " | grep " in command:
        pattern = shlex.split(command)[-1]
        assert any(re.search(pattern, line) for line in text.splitlines()), text


def test_status_says_how_full_both_redis_are(copy):
    screen = copy.manage("status").stdout
    assert re.search(r"^redis +durable: \d+ MB of 512 MB \(\d+ %\), noeviction$", screen, re.M), screen
    assert re.search(r"^ +live: \d+ MB of 128 MB \(\d+ %\), volatile-lru$", screen, re.M), screen


def test_figures_of_web_and_worker_count_what_robots_do(copy):
    def applied() -> bool:
        found = figures(of_worker(copy))
        return found["drover_received_to_applied_seconds_count"] > 5 and found['drover_robots{presence="online"}'] == 2

    eventually(applied, what="the worker to have applied messages")
    worker = figures(of_worker(copy))
    assert worker["drover_partitions_owned"] == 8
    assert len([name for name in worker if name.startswith("drover_backlog_age_seconds{")]) == 8
    assert worker["drover_site_known"] == 1
    text = copy.get("metrics")[1]
    assert figures(text)["drover_robot_links"] == 2
    for everything in (text, of_worker(copy)):
        for name in ("RB-00", "Hall", "Dock", "admin"):
            assert not re.search(rf"\b{name}", everything)  # a table is called django_admin_log


def sign_in(copy: Copy) -> list[str]:
    """A session, by the form; the cookies' values."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    page = browser.open(copy.url + "login/", timeout=20).read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    form = {"username": "admin", "password": kept(copy)["ADMIN_PASSWORD"], "csrfmiddlewaretoken": token}
    form["next"] = "/fleet/"
    answer = browser.open(copy.url + "login/?token=leak", urllib.parse.urlencode(form).encode(), timeout=20)
    assert answer.url.endswith("/fleet/")
    assert len(answer.headers["X-Request-Id"]) == 32
    browser.open(copy.url + "fleet/", timeout=20).read()
    return [token, *(cookie.value for cookie in jar)]


def kept(copy: Copy) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (copy.var / "secrets").read_text().splitlines())


def test_logs_are_json_and_no_secret_is_in_them(copy):
    secrets = sign_in(copy)
    with urllib.request.urlopen(
        urllib.request.Request(copy.url + "healthz", headers={"Authorization": "Bearer leaked-token"}), timeout=20
    ):
        pass
    robot = copy.pids("telemetry.simulator.robot")[0]
    os.kill(robot, signal.SIGKILL)  # it comes back, with its token
    eventually(lambda: len(copy.pids("telemetry.simulator.robot")) == 2 and robot not in copy.family())
    secrets += [robot["token"] for robot in copy.robots()]
    secrets += [kept(copy)["SECRET_KEY"], kept(copy)["ADMIN_PASSWORD"], "leaked-token"]
    objects = [json.loads(line) for line in copy.lines]
    for secret in secrets:
        assert secret not in copy.output
    assert {"telemetry.worker.loop", "drover", "robots"} <= {entry["logger"] for entry in objects}
    assert all({"time", "level", "logger", "message", "program"} <= entry.keys() for entry in objects)


@pytest.fixture
def durable(copy) -> Iterator[redis.Redis]:
    with redis.from_url(environment(copy)["REDIS_URL"]) as client:
        limit = client.config_get("maxmemory")["maxmemory"]
        yield client
        client.config_set("maxmemory", limit)


def test_a_durable_redis_that_is_full_is_named_and_loses_nothing(copy, durable):
    """docs/trouble/redis-is-full.md, from symptom to cure."""
    before = figures(copy.get("metrics")[1])["drover_not_stored_total"]
    durable.config_set("maxmemory", 1)
    _, text = eventually(lambda: (found := copy.get("readyz"))[0] == 503 and found)
    assert "refuses to write" in json.loads(text)["missing"]["durable redis"]
    robots = eventually(lambda: copy.pids("telemetry.simulator.robot"), what="robots run")
    os.kill(robots[0], signal.SIGKILL)  # a hello is followed by a critical message
    eventually(
        lambda: figures(copy.get("metrics")[1])["drover_not_stored_total"] > before, 30, "a robot not to be heard"
    )
    eventually(lambda: "full; robots are asked to wait" in copy.output, what="the log to say so")
    assert "refuses to write" in copy.manage("status").stdout
    durable.config_set("maxmemory", 0)
    eventually(copy.is_ready, what="ready again")
    eventually(lambda: figures(of_worker(copy))['drover_robots{presence="online"}'] == 2, what="both robots online")
    assert "All invariants hold" in copy.manage("check_invariants").stdout


def test_readyz_answers_while_postgresql_is_frozen(copy):
    """Within 3 s: it waits `LIMIT_S` for its checks. The rest is this machine, which has other tests to run."""
    assert LIMIT_S < 3
    server = next(pid for pid in copy.family() if "/bin/postgres" in command_line(pid))
    backends = [pid for pid in copy.family() if "postgres" in command_line(pid)]
    assert server in backends
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            began = time.monotonic()
            status, text = copy.get("readyz")
            assert time.monotonic() - began < 5 * LIMIT_S
            assert status == 503
            assert "does not answer" in json.loads(text)["missing"]["database"]
        assert copy.get("healthz")[0] == 200
        assert copy.get("metrics")[0] == 200
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    eventually(copy.is_ready, what="ready again")


def test_nobody_complained(copy):
    assert "Traceback" not in copy.output, copy.output
