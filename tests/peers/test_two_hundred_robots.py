"""100 native and 100 foreign robots on one broker, all with a mission, through a killed gateway and a restarted broker."""

import json
import subprocess
import sys
import time
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from fleet.brands.actions import create_brand
from fleet.models import Event, Robot
from fleet.robots import actions as fleet_actions
from fleet.robots import credentials
from fleet.running.tether import tied
from missions import actions, drawing_up
from missions.models import FINAL, Mission
from telemetry import snapshots
from telemetry.simulator import foreign_robots
from tests.actors import SYSTEM
from tests.eventually import eventually
from tests.peers.test_foreign_robots import Hall, drive, nothing_is_doubled

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

EACH = 100
BACK_S = 30.0
BROKER_AWAY_S = 2.0
LEGS = {"N": 6, "V": 12}  # foreign robots drive faster
PLACES = [("Dock A", 1.0, 2.0), ("Shelf 3", 9.0, 4.0)]


@pytest.fixture
def native_robots(site, broker, tmp_path):
    """100 of Drover's own, over MQTT."""
    brand = create_brand("Own", capabilities=["navigate"], by=SYSTEM)
    configs = []
    for n in range(EACH):
        id = f"N-{n:03}"
        fleet_actions.enrol_robot(id=id, name=id, site=site, brand=brand, by=SYSTEM)
        token = credentials.issue_credential(id, by=SYSTEM)
        configs.append({"id": id, "token": token, "url": broker.url, "capabilities": ["navigate"], "places": PLACES})
    log = tmp_path / "native.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.peers.native_robots"], stdin=subprocess.PIPE, stdout=out, stderr=out,
            cwd=settings.BASE_DIR, preexec_fn=tied(),
        )  # fmt: skip
    try:
        assert process.stdin
        process.stdin.write(json.dumps(configs).encode() + b"\n")
        process.stdin.close()
        eventually(lambda: "ready" in log.read_text(), what="native robots are there")
        yield [config["id"] for config in configs]
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


@pytest.fixture
def hall(site, robots, gateway, start_worker):
    start_worker(grace_s=2.0)
    return Hall(site, robots)


@pytest.fixture
def foreign_hundred(hall, robots):
    """vda-5050-lib's, in two processes."""
    serials = [f"{n:04}" for n in range(EACH)]
    for serial in serials:
        fleet_actions.enrol_robot(
            id=f"V-{serial}", name=serial, site=hall.site, brand=hall.brand,
            address=f"{foreign_robots.MANUFACTURER}/{serial}", by=SYSTEM,
        )  # fmt: skip
    for some in (serials[::2], serials[1::2]):
        robots([{"serial": serial, "x": 1, "y": 2} for serial in some], visualizationMs=2000, stateMs=10000)
    return [f"V-{serial}" for serial in serials]


def test_they_come_back_and_lose_no_mission(hall, native_robots, foreign_hundred, gateway, broker):
    everybody = [*native_robots, *foreign_hundred]
    came = until(lambda: online() == len(everybody), 240, "all are online")
    until_then = Event.objects.latest("id").pk  # a robot that was never heard is offline, and rightly
    drafted = [draft(hall, robot) for robot in everybody]
    for mission in drafted:
        actions.dispatch_mission(mission, by=SYSTEM)
    begun = until(lambda: in_state(drafted, "pending") == 0, 240, "all have begun")
    at_the_kill = under_way(drafted)
    gateway.kill()
    back = Back(everybody)
    gateway.start()
    after_kill = until(back, BACK_S, "all are back after the gateway was killed")
    at_the_restart = under_way(drafted)
    broker.stop()
    time.sleep(BROKER_AWAY_S)
    back = Back(everybody)
    broker.start()
    after_restart = until(back, BACK_S, "all are back after the broker's restart")
    done = until(lambda: in_state(drafted, *FINAL) == len(drafted), 360, "all missions have ended")
    figures = {
        "first online": came, "begun": begun, "back after the gateway's death": after_kill,
        "back after the broker's return": after_restart, "ended": done,
        "missions under way at the death": at_the_kill, "at the restart": at_the_restart,
    }  # fmt: skip
    print("\n" + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))
    assert min(at_the_kill, at_the_restart) > EACH // 4, "the missions were too short to prove anything"
    assert dict(Mission.objects.values_list("pk", "state")) == dict.fromkeys(drafted, "success")
    nothing_is_doubled(hall)
    assert not [data for data in links(after=until_then) if data["presence"] == "offline"]
    until(lambda: online() == len(everybody), 240, "all are online in the end")


def draft(hall: Hall, robot: str) -> UUID:
    steps = [drive(PLACES[n % 2 - 1][0]) for n in range(LEGS[robot[0]])]
    pk = drawing_up.draft_mission(title="There and back", site=hall.site, robot=robot, steps=steps, by=SYSTEM)
    hall.missions.append(pk)
    return pk


def until(so, timeout_s: float, what: str) -> float:
    """Seconds until it was so. Each look sees what is there now."""
    began = time.monotonic()

    def now() -> bool:
        connection.close()
        return bool(so())

    eventually(now, timeout_s, what)
    return time.monotonic() - began


def online() -> int:
    return Robot.objects.filter(presence="online").count()


def in_state(missions: list[UUID], *states: str) -> int:
    return Mission.objects.filter(pk__in=missions, state__in=states).count()


class Back:
    """Robots that were heard after `since`, and stood as online then; each as soon as it was so."""

    def __init__(self, robots: list[str]) -> None:
        self._missing, self._since = set(robots), timezone.now()

    def __call__(self) -> bool:
        heard = snapshots.last_received(sorted(self._missing))
        online = set(Robot.objects.filter(presence="online").values_list("pk", flat=True))
        assert heard is not None
        self._missing -= {robot for robot, at in heard.at.items() if at > self._since and robot in online}
        assert not self._missing, f"{len(self._missing)} are missing, such as {sorted(self._missing)[:3]}"
        return True


def under_way(missions: list[UUID]) -> int:
    return len(missions) - in_state(missions, *FINAL)


def links(after: int) -> list[dict]:
    told = Event.objects.filter(kind="robot.presence_changed", pk__gt=after)
    return [json.loads(data) for data in told.values_list("data", flat=True)]
