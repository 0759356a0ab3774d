"""Robots that others wrote (vda-5050-lib over Mosquitto), driven through a real gateway and worker."""

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from fleet.brands.actions import create_brand
from fleet.models import Event, Hold, Robot, Site
from fleet.robots import actions as fleet_actions
from fleet.robots import stopping
from missions import actions, drawing_up, invariants
from missions.models import FINAL, DeadLetter, Mission
from telemetry import snapshots
from telemetry.simulator import foreign_robots
from tests.actors import SYSTEM
from tests.eventually import eventually
from tests.peers.conftest import Process
from tests.peers.scenarios import Story, play

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]

TIME_LAPSE = 4  # of the robots, whose actions take 5 s and who drive 2 m/s
CALM = {"timeLapse": 1}


def drive(place: str, **more: Any) -> dict[str, Any]:
    return {"command": "navigate", "params": {"place": place}} | more


def pick(place: str = "Shelf 3") -> dict[str, Any]:
    return {"command": "pick", "params": {"place": place}}


def drop(place: str = "Dock A") -> dict[str, Any]:
    return {"command": "drop", "params": {"place": place}}


FAR = [drive("Shelf 3"), drive("Dock A"), drive("Shelf 3"), drive("Dock A")]
EVERYTHING = [
    drive("Dock A"), pick(), {"command": "wait", "params": {"seconds": 2}}, drop(), drive("Charger 1"),
    {"command": "charge", "params": {"until_percent": 95}},
]  # fmt: skip


class Hall:
    """The site that the stories share, with one foreign robot each."""

    def __init__(self, site: Site, start_robot: Callable[..., Process]) -> None:
        self.site, self._start = site, start_robot
        self.brand = create_brand(
            "Coaty", driver="vda5050", capabilities=foreign_robots.CAPABILITIES,
            profile=foreign_robots.PROFILE,
            suspect_after_s=35, offline_after_s=65, by=SYSTEM,
        )  # fmt: skip
        self.missions: list[UUID] = []

    def robot(self, serial: str, process: dict[str, Any] | None = None, **config: Any) -> "Peer":
        """Enrolled, and its process started. Both are told in foreign/robot.js: `config` of a robot, `process` of all in it."""
        fleet_actions.enrol_robot(
            id=f"V-{serial}", name=f"Foreign {serial}", site=self.site, brand=self.brand, address=f"coatyio/{serial}",
            by=SYSTEM,
        )  # fmt: skip
        return Peer(
            self,
            f"V-{serial}",
            self._start([{"serial": serial} | config], **{"timeLapse": TIME_LAPSE} | (process or {})),
        )


class Peer:
    """One foreign robot as the site sees it."""

    def __init__(self, hall: Hall, robot_id: str, process: Process) -> None:
        self.hall, self.id, self.process = hall, robot_id, process

    def give(self, title: str, steps: list[dict[str, Any]]) -> UUID:
        pk = drawing_up.draft_mission(title=title, site=self.hall.site, robot=self.id, steps=steps, by=SYSTEM)
        actions.queue_mission(pk, by=SYSTEM)
        self.hall.missions.append(pk)
        return pk

    @property
    def row(self) -> Robot:
        return Robot.objects.get(pk=self.id)

    def is_online(self) -> bool:
        return self.row.presence == "online"

    def moves(self) -> bool:
        """By what it tells of itself."""
        facts = snapshots.last_known([self.id]).get(self.id)
        return facts is not None and bool(facts.speed)

    def stands(self) -> bool:
        facts = snapshots.last_known([self.id]).get(self.id)
        return facts is not None and facts.speed == 0


def state(mission: UUID) -> str:
    return str(Mission.objects.values_list("state", flat=True).get(pk=mission))


def step(mission: UUID) -> int:
    """Number of the step that is under way."""
    row = Mission.objects.get(pk=mission)
    return row.current_step if row.state not in FINAL else 0


def has_ended(mission: UUID, how: str) -> bool:
    row = Mission.objects.get(pk=mission)
    assert row.state not in FINAL or row.state == how, f"{row.state} {row.abort_reason} {row.abort_detail}"
    return row.state == how


def kinds(mission: UUID) -> list[str]:
    return list(Event.objects.filter(aggregate=f"mission:{mission}").order_by("seq").values_list("kind", flat=True))


@pytest.fixture
def hall(site, robots, gateway, start_worker):
    start_worker(grace_s=2.0)
    return Hall(site, robots)


# --- what is told


def everything(hall: Hall) -> Story:
    peer = hall.robot("0001", battery=90)
    yield "it is online", peer.is_online
    mission = peer.give("Everything", EVERYTHING)
    yield "it has done everything", partial(has_ended, mission, "success"), 240
    steps = Counter(kind for kind in kinds(mission) if kind.startswith("mission.step_"))
    assert steps["mission.step_completed"] == len(EVERYTHING), kinds(mission)
    assert not steps.keys() & {"mission.step_failed", "mission.step_skipped", "mission.step_retried"}


def paused_and_resumed(hall: Hall) -> Story:
    peer = hall.robot("0002", CALM)
    yield "it is online", peer.is_online
    mission = peer.give("Pause", FAR)
    yield "it drives", lambda: step(mission) and peer.moves()
    actions.pause_mission(mission, by=SYSTEM)
    yield "it says that it is paused", lambda: Mission.objects.filter(pk=mission, paused_at__isnull=False).exists()
    yield "it stands", lambda: peer.row.mode == "paused" and peer.stands()
    actions.resume_mission(mission, by=SYSTEM)
    yield "it has arrived", partial(has_ended, mission, "success"), 240
    assert kinds(mission).count("mission.paused") == kinds(mission).count("mission.resumed") == 1


def cancelled_mid_drive(hall: Hall) -> Story:
    peer = hall.robot("0003", CALM)
    yield "it is online", peer.is_online
    mission = peer.give("Cancel while it drives", FAR)
    yield "it drives", lambda: step(mission) and peer.moves()
    actions.cancel_mission(mission, by=SYSTEM)
    yield "it has ended", partial(has_ended, mission, "aborted")
    assert Mission.objects.get(pk=mission).stop_confirmed
    again = peer.give("After that", [drive("Dock A")])
    yield "it takes the next one", partial(has_ended, again, "success")


def cancelled_mid_action(hall: Hall) -> Story:
    peer = hall.robot("0004", CALM)  # a pick takes 5 s
    yield "it is online", peer.is_online
    mission = peer.give("Cancel while it picks", [pick("Charger 1"), drop()])
    yield "it picks", lambda: step(mission) == 1 and peer.row.mode == "running"
    actions.cancel_mission(mission, by=SYSTEM)
    yield "it has ended", partial(has_ended, mission, "aborted")
    assert Mission.objects.get(pk=mission).stop_confirmed


def stopped_and_released(hall: Hall) -> Story:
    peer = hall.robot("0005", CALM)
    yield "it is online", peer.is_online
    mission = peer.give("Stop", FAR)
    yield "it drives", lambda: step(mission) and peer.moves()
    stopping.stop_robot(peer.id, by=SYSTEM)
    yield "it says that it stands", lambda: Hold.objects.filter(robot=peer.id, confirmed_at__isnull=False).exists()
    yield "it stands", peer.stands
    stopping.release_robot(peer.id, by=SYSTEM)
    if state(mission) not in FINAL:
        actions.resume_mission(mission, by=SYSTEM)
    yield "it has arrived", partial(has_ended, mission, "success"), 240


def first_order_lost(hall: Hall) -> Story:
    peer = hall.robot("0006", deaf=1)
    yield "it is online", peer.is_online
    mission = peer.give("Lost", [drive("Dock A")])
    yield "it has arrived all the same", partial(has_ended, mission, "success")
    assert kinds(mission).count("mission.started") == 1


def frozen_for(seconds: float, serial: str) -> Callable[[Hall], Story]:
    def story(hall: Hall) -> Story:
        peer = hall.robot(serial)
        yield "it is online", peer.is_online
        peer.process.freeze()
        mission, until = (
            peer.give(f"Frozen {seconds:g} s", [drive("Dock A"), drive("Shelf 3")]),
            time.monotonic() + seconds,
        )
        yield "the frost is over", lambda: time.monotonic() > until, seconds + 5
        peer.process.thaw()
        yield "it has arrived", partial(has_ended, mission, "success"), 240
        assert kinds(mission).count("mission.started") == 1

    return story


def killed(hall: Hall) -> Story:
    peer = hall.robot("0009", CALM)
    yield "it is online", peer.is_online
    mission = peer.give("Killed", FAR)
    yield "it drives", lambda: step(mission) and peer.moves()
    peer.process.kill()
    yield "it is missed", lambda: peer.row.presence == "suspect"
    peer.process.start()  # it remembers nothing
    yield "it is back", peer.is_online
    yield "nothing hangs: the mission ends, or goes on", lambda: state(mission) in FINAL, 400
    again = peer.give("After that", [drive("Dock A")])
    yield "it takes the next one", partial(has_ended, again, "success"), 240


STORIES: dict[str, Callable[[Hall], Story]] = {
    "everything": everything,
    "paused and resumed": paused_and_resumed,
    "cancelled while it drives": cancelled_mid_drive,
    "cancelled while it picks": cancelled_mid_action,
    "stopped and released": stopped_and_released,
    "first order lost": first_order_lost,
    "frozen 5 s": frozen_for(5, "0007"),
    "frozen 26 s": frozen_for(26, "0008"),
    "killed": killed,
}


def test_foreign_robots_do_what_they_are_told(hall):
    wrong = play({name: story(hall) for name, story in STORIES.items()})
    assert wrong == {}
    nothing_is_doubled(hall)


def nothing_is_doubled(hall: Hall) -> None:
    once = ("mission.dispatched", "mission.started", "mission.succeeded", "mission.aborted")
    for mission in hall.missions:
        counts = Counter(kinds(mission))
        assert not [kind for kind in once if counts[kind] > 1], counts
        steps = Event.objects.filter(aggregate=f"mission:{mission}", kind="mission.step_completed")
        completed = Counter(json.loads(data)["step"] for data in steps.values_list("data", flat=True))
        assert all(times == 1 for times in completed.values()), completed
    assert invariants.check() == []
    assert not DeadLetter.objects.exists()


# --- while what is between them fails


@pytest.fixture
def travelling(hall):
    """Four robots on a long way."""
    peers = [hall.robot(f"01{n:02}", CALM) for n in range(4)]
    eventually(lambda: all(peer.is_online() for peer in peers), what="all are online")
    missions = [peer.give("Long way", FAR) for peer in peers]
    eventually(lambda: all(step(mission) >= 1 for mission in missions), what="all have begun")
    return missions


def arrive(missions: list[UUID]) -> None:
    eventually(lambda: all(has_ended(mission, "success") for mission in missions), 240, "all have arrived")


def test_the_gateway_is_killed_on_the_way(hall, gateway, travelling):
    gateway.kill()
    gateway.start()
    arrive(travelling)
    nothing_is_doubled(hall)


def test_the_gateway_is_restarted_on_the_way(hall, gateway, travelling):
    gateway.end()
    gateway.start()
    arrive(travelling)
    nothing_is_doubled(hall)


def test_the_broker_is_restarted_on_the_way(hall, broker, travelling):
    broker.stop()
    time.sleep(2)
    broker.start()
    arrive(travelling)
    nothing_is_doubled(hall)
    assert set(Robot.objects.values_list("presence", flat=True)) == {"online"}


def test_the_network_is_gone_for_a_while(hall, cable):
    """The robot drives on; what it did meanwhile is read off its next state."""
    peer = hall.robot("0200", CALM | {"broker": cable.url})
    eventually(peer.is_online, what="it is online")
    mission = peer.give("Through the hole", FAR)
    eventually(lambda: step(mission) and peer.moves(), what="it drives")
    cable.cut()
    time.sleep(6)
    cable.mend()
    arrive([mission])
    nothing_is_doubled(hall)
