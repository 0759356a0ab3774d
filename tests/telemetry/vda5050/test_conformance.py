"""The conformance kit with the VDA 5050 driver: a robot that keeps to the standard, and robots with one bad habit each."""

import json
from datetime import datetime

import pytest
from msgspec.structs import replace

from telemetry.drivers import kit
from telemetry.drivers.contract import Send, Spec
from telemetry.drivers.vda5050 import driver, writing
from telemetry.drivers.vda5050.ids import parse
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.robot_double import HABITS, Robot


class Double:
    """`robot_double.Robot` as the kit wants it: what it did in the kit's words."""

    habits: tuple[str, ...] = ()
    _steps: tuple[str, ...] = ()

    def __init__(self, spec: Spec, now: datetime) -> None:
        self._spec = spec
        self._robot = Robot(now, *self.habits, every_s=15)
        self._robot.last = ("home", 0)  # for one that says no position
        self._told = 0
        self._missions: set[tuple] = set()
        self._arrivals: dict[str, dict[int, int]] = {}  # order → sequence → step that is done by being there
        self._new = True
        self.deeds: list[kit.Deed] = []

    @property
    def mode(self) -> str:
        robot = self._robot
        if robot.paused:
            return "paused"
        if robot.charging and robot.resting:
            return "charging"
        return "idle" if robot.resting else "running"

    @property
    def stands(self) -> bool:
        return self._robot.paused or self._robot.resting

    def take(self, sent: Send, now: datetime) -> None:
        part, message = sent.topic.rpartition("/")[2], json.loads(sent.payload)
        self._robot.step(now)
        if part == "order":  # the kit calls the place of step 3 N3
            drives = {n["sequenceId"]: int(n["nodeId"][1:]) for n in message["nodes"] if n["nodeId"][1:].isdecimal()}
            here = self._arrivals.setdefault(message["orderId"], {})
            here.update({sequence: step for sequence, step in drives.items() if self._steps[step - 1] == "navigate"})
        self._robot.hear(part, message)
        self._look()

    def step(self, now: datetime) -> list[kit.Said]:
        self._robot.step(now)
        if self._new:
            self._robot.tell()
        said, self._robot.out = self._robot.out, []
        self._look()
        messages = [self._said(part, message) for part, message in said]
        if self._new:
            self._new = False
            state = {"connectionState": "ONLINE", "timestamp": said[0][1]["timestamp"], "headerId": 1}
            messages.insert(0, self._said("connection", state, retain=True))
        return messages

    def fail(self, step: int) -> None:
        self._robot.fail.add(self._steps[step - 1])

    def restart(self, now: datetime) -> None:
        self._robot.step(now)
        self._robot.reboot()
        self.deeds.append(kit.Deed("lost"))
        self._new = True

    def _said(self, part: str, message: dict, retain: bool = False) -> kit.Said:
        topic = writing.topic(self._spec.profile, self._spec.address, part)
        return kit.Said(topic=topic, payload=json.dumps(message).encode(), retain=retain)

    def _look(self) -> None:
        for kind, about, *more in self._robot.did[self._told :]:
            order = parse(about) if kind in ("accepted", "reached") else None
            if kind == "accepted":
                self.deeds.append(kit.Deed("resumed" if order[:2] in self._missions else "accepted"))
                self._missions.add(order[:2])
            elif kind == "reached" and more[0] in self._arrivals.get(about, ()):
                self.deeds.append(kit.Deed("completed", self._arrivals[about][more[0]]))
            elif kind in ("done", "failed"):
                self._robot.fail.clear()  # its first try only
                self.deeds.append(kit.Deed({"done": "completed"}.get(kind, kind), int(about.rpartition(".")[2])))
            elif kind in ("paused", "resumed"):
                self.deeds.append(kit.Deed(kind))
            elif (
                kind == "cancelled"
            ):  # its order is over, and it stands; whether its mission is over is for the site to say
                self.deeds += [kit.Deed("cancelled"), kit.Deed("paused")]
        self._told = len(self._robot.did)


def case(*habits: str, steps=("navigate", "pick", "drop"), **profile) -> kit.Case:
    robots = tuple(Spec(id=f"RB-00{n}", address=f"double/{n}", profile=Profile(**profile)) for n in (1, 2))
    double = type("Double", (Double,), {"habits": habits, "_steps": steps})
    return kit.Case(driver=driver, double=double, robots=robots, steps=steps, retries=steps[1] == "pick")


named = pytest.mark.parametrize("scenario", kit.SCENARIOS, ids=lambda scenario: scenario.__name__)


@named
def test_a_robot_that_keeps_to_the_standard(scenario):
    scenario(case())


@named
@pytest.mark.parametrize(
    "profile", [{"base_steps": 1, "idle_cancel": True, "wait": "wait"}, {"unique_node_ids": False}]
)
def test_other_settings(scenario, profile):
    steps = ("navigate", "pick", "wait" if "wait" in profile else "custom", "drop", "navigate")
    scenario(case(steps=steps, **profile))


@named
@pytest.mark.parametrize("habit", HABITS)
def test_a_bad_habit(scenario, habit):
    if habit == "never_pauses":  # it is stopped by ending its order: what it was in the middle of would have failed
        scenario(replace(case(habit, steps=("navigate", "navigate", "navigate")), pauses=False))
    else:
        scenario(case(habit))
