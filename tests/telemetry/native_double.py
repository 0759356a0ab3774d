"""A robot that speaks the native protocol over MQTT, for the kit: the simulated robot's machine and outbox, on topics."""

import json
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

from telemetry.drivers.contract import Send, Spec
from telemetry.drivers.kit import Deed, Said
from telemetry.protocol import HEARTBEAT_S
from telemetry.simulator.activities import Place
from telemetry.simulator.machine import Machine
from telemetry.simulator.outbox import Outbox
from telemetry.simulator.work import Event

HELLO_S = 3.0  # a hello without a welcome is said again
CAPABILITIES = ["navigate", "pick", "drop", "wait", "charge", "custom"]
DEEDS = {
    "mission.accepted": "accepted", "mission.rejected": "rejected", "mission.step_completed": "completed",
    "mission.step_failed": "failed", "mission.paused": "paused", "mission.resumed": "resumed",
    "mission.cancelled": "cancelled",
}  # fmt: skip


class NativeRobot:
    """It keeps its outbox, its mission and what it has obeyed on disk, as docs/protocol.md asks."""

    def __init__(self, spec: Spec, now: datetime) -> None:
        self.id, self.deeds = spec.id, []
        self._begin = now
        self.machine = Machine(spec.id, CAPABILITIES, [Place("Start", 0.0, 0.0)], "Start")
        self.outbox = Outbox(spec.id, iter(_ids(spec.id)).__next__)
        self._obeyed: dict[str, None] = {}
        self._once: set[tuple] = set()
        self._wait_for_link(now)

    def _wait_for_link(self, now: datetime) -> None:
        self._up, self._hello_at, self._beat_at, self._greets = False, now, now, True
        self._out: list[Said] = []

    @property
    def mode(self) -> str:
        return self.machine.mode

    @property
    def stands(self) -> bool:
        return self.machine.mode not in ("running", "charging")

    def take(self, sent: Send, now: datetime) -> None:
        frame = json.loads(sent.payload)
        if frame["type"] == "welcome":
            self.outbox.begin(frame["session"], frame["applied"])
            self._up = True
            if self._greets:
                self._greets = False
                self._did([self.machine.state()], now)
        elif frame["type"] == "close":
            self._wait_for_link(now)
        elif frame["type"] == "ack":
            self.outbox.acknowledged(frame["msg_id"], frame["verdict"])
        else:
            self._publish("events", {"type": "ack", "msg_id": frame["msg_id"]})
            if frame["msg_id"] not in self._obeyed:
                self._obeyed[frame["msg_id"]] = None
                self._did(self.machine.obey(frame, self._s(now)), now)

    def step(self, now: datetime) -> Iterator[Said]:
        self._did(self.machine.step(self._s(now)), now)
        if not self._up and now >= self._hello_at:
            self._hello_at = now + timedelta(seconds=HELLO_S)
            hello = {"v": 1, "type": "hello", "robot": self.id, "msg_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{now}"))}
            yield Said(topic=self._topic("presence"), payload=b"online", retain=True)
            self._publish("events", hello | {"data": {"token": "T"}})
        if self._up:
            for text in self.outbox.due(self._s(now)):
                self._out.append(Said(topic=self._topic("events"), payload=text.encode()))
            if now >= self._beat_at:
                self._beat_at = now + timedelta(seconds=HEARTBEAT_S)
                body = self.machine.body
                pose = {"x": body.x, "y": body.y, "theta": body.theta}
                for type, data in (("robot.heartbeat", {"battery": 80.0}), ("robot.telemetry", pose)):
                    text = self.outbox.lossy(type, data, now)
                    self._out.append(Said(topic=self._topic("telemetry"), payload=text.encode()))
        out, self._out = self._out, []
        yield from out

    def fail(self, step: int) -> None:
        self.machine.fails = lambda attempt: attempt == 1 and self.machine.work.number == step

    def restart(self, now: datetime) -> None:
        memory, kept = self.machine.memory(), self.outbox.memory()
        self.machine = Machine(self.id, CAPABILITIES, [Place("Start", 0.0, 0.0)], "Start", now=self._s(now))
        self.machine.remember(memory)
        self.outbox.remember(kept)
        self._wait_for_link(now)

    def _did(self, events: list[Event], now: datetime) -> None:
        for event in events:
            self.outbox.add(event, now)
            kind = DEEDS.get(event.type)
            about = (kind, event.mission, event.step)
            if kind and about not in self._once:
                self.deeds.append(Deed(kind, event.step or 0))
            if kind in ("accepted", "cancelled", "completed"):  # said again when it is asked again
                self._once.add(about)

    def _publish(self, part: str, frame: dict) -> None:
        self._out.append(Said(topic=self._topic(part), payload=json.dumps(frame).encode()))

    def _topic(self, part: str) -> str:
        return f"drover/v1/{self.id}/{part}"

    def _s(self, now: datetime) -> float:
        return (now - self._begin).total_seconds()


def _ids(robot: str) -> Iterator[uuid.UUID]:
    number = 0
    while True:
        number += 1
        yield uuid.uuid5(uuid.NAMESPACE_OID, f"{robot} {number}")
