"""Stop with both Redis gone, frozen or killed: page, click, command, the robot's word; its link stays open (I13)."""

import json
import signal
import subprocess
import sys
import time

import pytest

from fleet.models import Command, Event, Hold
from fleet.robots import credentials
from fleet.running.tether import tied
from missions import invariants
from telemetry.models import Link
from telemetry.stream import Streams
from tests.actors import SYSTEM
from tests.chaos.conftest import OwnValkey
from tests.chaos.person import Person
from tests.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def redises(tmp_path_factory, environment, settings):
    """The durable and the live one, both this test's own."""
    made = [OwnValkey(tmp_path_factory.mktemp(name)) for name in ("durable", "live")]
    for valkey, variable in zip(made, ("REDIS_URL", "LIVE_REDIS_URL"), strict=True):
        valkey.start()
        environment[variable] = valkey.url
        setattr(settings, variable, valkey.url)
    streams = Streams(settings.REDIS_URL)
    streams.ensure_groups(range(settings.PARTITIONS))  # a worker has been here: none who comes sees streams as lost
    streams.close()
    yield made
    for valkey in made:
        valkey.process.send_signal(signal.SIGCONT)
        valkey.kill()


@pytest.fixture
def port(redises, web):
    """A web process of this test, on those."""
    return web


@pytest.fixture
def connected(port, robot, environment, tmp_path):
    """A simulated robot on its socket, as a process."""
    config = {
        "url": f"ws://127.0.0.1:{port}/robot/v1/ws", "id": robot.pk, "token": credentials.issue_credential(robot.pk, by=SYSTEM),
        "capabilities": ["navigate"], "places": [["Dock A", 1, 2, 0]], "start": "Dock A",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "telemetry.simulator.robot", robot.pk], cwd=tmp_path, stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=environment | {"DROVER_VAR": str(tmp_path)}, preexec_fn=tied(),
    )  # fmt: skip
    process.stdin.write(json.dumps(config).encode() + b"\n")
    process.stdin.flush()
    eventually(lambda: Link.objects.get(pk=robot.pk).gateway, what="the robot is connected")
    yield Link.objects.get(pk=robot.pk)
    process.kill()
    process.communicate()


@pytest.mark.quiet
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_a_stop_reaches_the_robot_within_two_seconds_and_its_word_comes_back(
    redises, port, connected, supervisor, start_worker, how
):
    person = Person(supervisor, port)
    assert person.ask("/fleet/")[0] == 200  # warm
    for valkey in redises:
        valkey.process.send_signal(signal.SIGSTOP) if how == "frozen" else valkey.kill()
    for path in ("/login/", "/fleet/"):
        status, _, took = person.ask(path)
        assert (status, took < 3) == (200, True), path

    began = time.monotonic()
    status, body, took = person.ask("/fleet/stop?site=all", b"")
    assert (status, json.loads(body)["robots"]) == (200, {"RB-001": "stopping"})
    eventually(lambda: Command.objects.filter(kind="robot.stop", sent_at__isnull=False).exists(), what="it is sent")
    sent = time.monotonic() - began
    assert sent < 2.0
    eventually(lambda: Hold.objects.get().confirmed_at, what="the robot's word is written")
    assert Link.objects.get(pk="RB-001").session == connected.session  # the link never broke
    assert Event.objects.filter(kind="robot.stop_confirmed").count() == 1
    print(
        f"{how}: answered after {took:.2f} s, sent after {sent:.2f} s, confirmed after {time.monotonic() - began:.2f} s"
    )

    for valkey in redises:
        valkey.process.send_signal(signal.SIGCONT) if how == "frozen" else valkey.start()
    start_worker()
    assert "Stopped by" in person.ask("/fleet/")[1]
    assert json.loads(person.ask("/fleet/release", b"robots=RB-001")[1])["robots"] == {"RB-001": "released"}
    eventually(lambda: Command.objects.get(kind="robot.release").state == "delivered", what="the worker goes on")
    assert Link.objects.get(pk="RB-001").session == connected.session
    assert Event.objects.filter(kind="robot.stop_confirmed").count() == 1  # what it repeats counts once
    assert invariants.check() == []
