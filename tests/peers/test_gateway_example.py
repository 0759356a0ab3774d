"""docs/examples/robot_mqtt.py against a real broker, the gateway and a worker; what docs/protocol.md says of it."""

import asyncio
import signal
import sys

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from fleet.robots import credentials, stopping
from missions import actions as mission_actions
from missions import drawing_up
from missions.models import Mission
from telemetry import snapshots
from tests.actors import SYSTEM, online
from tests.eventually import eventually_async
from tests.peers.brokers import Mosquitto
from tests.peers.gateways import running
from tests.telemetry.conftest import clock, durable, worker  # noqa: F401
from tests.telemetry.robots_talk import work

pytestmark = pytest.mark.django_db(transaction=True)
EXAMPLE = settings.BASE_DIR / "docs" / "examples" / "robot_mqtt.py"
STEPS = [
    {"command": "navigate", "params": {"place": "Dock A"}},
    {"command": "pick", "params": {"place": "Dock A", "load": "pallet 7"}},
]


@pytest.fixture
def mosquitto(tmp_path):
    with redis.Redis.from_url(settings.LIVE_REDIS_URL) as live:
        live.flushdb()
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker


def dispatch(robot):
    online("RB-001", at=timezone.now())
    made = drawing_up.draft_mission(title="Fetch", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    mission_actions.dispatch_mission(made, by=SYSTEM)


async def test_the_example_drives_stops_and_begins_anew_with_another_gateway(mosquitto, robot, ask, worker, clock):  # noqa: F811
    token = await ask(lambda: credentials.issue_credential("RB-001", by=SYSTEM))

    async def until(wanted, what):
        async def step():
            clock.now = timezone.now()
            await ask(lambda: work(worker, clock))
            return await ask(wanted)

        await eventually_async(step, what=what)

    await ask(lambda: work(worker, clock))
    await ask(dispatch, robot)
    device = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), f"127.0.0.1:{mosquitto.port}", "RB-001", "pw", token
    )
    try:
        async with running(mosquitto.url):
            await until(lambda: Mission.objects.get().state == "success", "the mission succeeds")
        async with running(mosquitto.url):
            await ask(lambda: stopping.stop_robot("RB-001", by=SYSTEM, why="blocked aisle"))
            await until(lambda: robot.holds.get().confirmed_at, "it stands")
            device.send_signal(signal.SIGKILL)  # the will
            await eventually_async(lambda: snapshots.last_received(["RB-001"]).gone, what="the will is heard")
    finally:
        if device.returncode is None:
            device.kill()
        await device.wait()


async def test_the_example_stays_away_when_its_token_is_wrong(mosquitto, robot):
    async with running(mosquitto.url):
        device = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), f"127.0.0.1:{mosquitto.port}", "RB-001", "pw", "drover_wrong",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(30):
            _, said = await device.communicate()
    assert said.decode() == "turned away, a person has to look: the token is wrong or revoked\n"
    assert device.returncode == 1


def test_the_example_fits_on_a_page():
    assert len(EXAMPLE.read_text().splitlines()) <= 80
