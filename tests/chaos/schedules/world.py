"""One seeded schedule: real stores, the real worker and intake, time that only the schedule moves, and what goes wrong.

Everything that happens is drawn from the seed, so a schedule is the same each time; `trace` tells it in words.
"""

import asyncio
import heapq
import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.conf import settings
from django.db import connection

from fleet.models import Robot as RobotRow
from fleet.refusals import Refused
from fleet.robots import actions as fleet_actions
from fleet.robots import credentials
from missions import drawing_up
from missions.models import FINAL, RUNNING, Mission
from telemetry import frames, protocol, snapshots
from telemetry.gateways.intake import Intake
from telemetry.gateways.link import Link
from telemetry.gateways.rows import look, open_session
from telemetry.worker.loop import Worker
from tests.actors import SYSTEM, online
from tests.chaos.schedules.robot import Lot, Robot
from tests.model.oracle import Asked

BASE = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
TICK = 1000.0
ACTIVE_S = 35.0  # as long things go wrong; after that what is left has time to end
LAST_S = 1800.0
BEAT_S = 3.0
IDLE_S = 4.0  # a worker that has nothing to do looks around this often
HOOKS = ("before_decide", "before_commit", "before_ack")
GATEWAY_HOOKS = ("stored, not acknowledged", "claimed, not sent")
YEARS_S = 30 * 365 * 86400.0


class Crash(BaseException):
    """A process ends in the middle of what it does. No `except Exception` sees it."""


class World:
    """`run` plays it to the end; then `stored`, `asked`, `silences`, `acked` hold what the oracle is told."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop, intake: Intake) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.loop, self.intake = loop, intake
        self.tick, self.jumped_s = TICK, 0.0
        self._ticks: dict[datetime, float] = {}  # what the wall clock showed when
        self.trace: list[str] = []
        self.robots: dict[str, Robot] = {}
        self.missions: dict[str, str] = {}  # mission → robot
        self.stored: dict[str, dict[str, float]] = {}  # robot → msg_id → when it was first stored
        self.raw: dict[str, dict[str, Any]] = {}  # msg_id → message
        self.acked: set[tuple[str, str]] = set()
        self.asked: dict[str, list[Asked]] = {}  # robot → requests
        self.silences: dict[str, list[list[float]]] = {}
        self.crashes: list[str] = []
        self.worker: Worker | None = None
        self.workers = 0
        self.calm = False  # nothing goes wrong any more
        self.grace_s = 2.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._stirred, self._step_at = True, TICK  # does the worker have something to do now, or when?
        self._links: dict[str, Link] = {}
        self._credentials: dict[str, int] = {}
        self._beats: dict[str, datetime] = {}
        self._arrived: list[tuple[str, uuid.UUID, bytes, datetime, float]] = []
        self._loss = self.rng.choice((0.0, 0.1, 0.3))
        self._crash = self.rng.choice((0.0, 0.02, 0.05))
        self._limit = self.rng.choice((1, 3, 100))
        self._delay_s = self.rng.choice((0.2, 1.0, 3.0))

    # --- time

    @property
    def now(self) -> datetime:
        """The server's wall clock."""
        wall = BASE + timedelta(seconds=self.tick - TICK + self.jumped_s)
        self._ticks[wall] = self.tick
        return wall

    def true(self, wall: datetime) -> float:
        """A time of the wall clock in true seconds; one that was never shown is still to come."""
        return self._ticks.get(wall) or (wall - BASE).total_seconds() + TICK - self.jumped_s

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.tick + seconds, next(self._numbers), what))

    def note(self, text: str) -> None:
        self.trace.append(f"{self.tick - TICK:8.2f}  {text}")

    # --- who is there

    def add_robot(self, id: str, site: Any, brand: Any, lot: Lot) -> Robot:
        fleet_actions.enrol_robot(id=id, name=id, site=site, brand=brand, by=SYSTEM)
        credentials.issue_credential(id, by=SYSTEM)
        online(id, at=self.now)
        self._credentials[id] = RobotRow.objects.get(pk=id).credentials.get().pk
        robot = self.robots[id] = Robot(self, id, lot, self.rng)
        self.stored[id], self.asked[id], self.silences[id] = {}, [], [[self.tick, self.tick]]
        self.connect(robot)
        return robot

    def connect(self, robot: Robot) -> None:
        opened = open_session(robot.id, "schedule")
        self._links[robot.id] = Link(robot.id, opened.session, self._credentials[robot.id], None, None, opened.applied)  # type: ignore[arg-type]
        self._links[robot.id].spread = lambda *_: 1.0  # else it depends on ids that are new each time
        self.silences[robot.id][-1][1] = self.tick
        self._beats[robot.id] = self.now
        self.note(f"{robot.id} connects, session {opened.session}")
        robot.welcome(opened.session, opened.applied)

    def disconnect(self, robot: Robot, back_in_s: float | None) -> None:
        """None: it never comes back."""
        if self._links.pop(robot.id, None) is not None:
            self.silences[robot.id].append([self.tick, float("inf")])
        robot.connected = False
        self.note(f"{robot.id} is cut off" + (f" for {back_in_s:.1f} s" if back_in_s is not None else " for good"))
        if back_in_s is not None:
            self.after(back_in_s, lambda: None if robot.id in self._links else self.connect(robot))

    def heard(self, robot_ids: Any, **_: Any) -> snapshots.Heard:
        """Stands for the live Redis: when each robot was last heard, by the wall clock of that moment."""
        for id in self._links:
            if (self.now - self._beats[id]).total_seconds() >= BEAT_S or self.now < self._beats[id]:
                self._beats[id] = self.now
        return snapshots.Heard({id: self._beats[id] for id in robot_ids if id in self._beats}, True)

    # --- the network

    def carry(self, robot: Robot, message: dict[str, Any]) -> None:
        """From the robot to the gateway: lost, late, out of order, up to three times."""
        if not robot.connected:
            return
        for _ in range(1 if self.calm else self.rng.choice((1, 1, 2, 3))):
            if not self.calm and self.rng.random() < self._loss:
                continue
            self.after(
                self.rng.uniform(0.01, 0.1 if self.calm else self._delay_s), lambda: self._arrive(robot, message)
            )

    def _arrive(self, robot: Robot, message: dict[str, Any]) -> None:
        link = self._links.get(robot.id)
        if link is None or message["session"] > link.session:
            return
        link.sessions.add(message["session"])
        protocol.decode_up(json.dumps(message))  # what the gateway would refuse is a mistake of this test
        self.raw[message["msg_id"]] = message
        raw = json.dumps(message).encode()
        self._arrived.append((robot.id, uuid.UUID(message["msg_id"]), raw, self.now, self.tick))

    def acknowledge(self, robot: Robot, command: str) -> None:
        """From the robot to the gateway: it has this command."""
        if not robot.connected or (not self.calm and self.rng.random() < self._loss):
            return

        def arrive() -> None:
            link = self._links.get(robot.id)
            if link is not None and link.acknowledge(uuid.UUID(command)) is not None:
                msg_id, raw = frames.delivered(uuid.UUID(command), robot.id, self.now)
                self._arrived.append((robot.id, msg_id, raw, self.now, self.tick))

        self.after(self.rng.uniform(0.01, self._delay_s), arrive)

    # --- the gateway

    def gateway_step(self) -> None:
        try:
            self._store()
            self._send()
        except Crash as crash:
            self.note(f"the gateway dies: {crash}")
            self._arrived.clear()
            for id in list(self._links):
                self.disconnect(self.robots[id], self.rng.uniform(0.5, 3.0))

    def _store(self) -> None:
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        self._stirred = True

        async def store() -> list[str]:
            return await asyncio.gather(*(self.intake.store(r, m, raw, at) for r, m, raw, at, _ in arrived))

        answers = self.loop.run_until_complete(store())
        for (robot, msg_id, _, _, tick), answer in zip(arrived, answers, strict=True):
            message = self.raw.get(str(msg_id))
            self.note(f"{robot} {_line(message) if message else 'has a command'}: {answer}")
            self.stored[robot].setdefault(str(msg_id), tick)
        self._may_crash(GATEWAY_HOOKS[0])
        self.acked |= {(robot, str(msg_id)) for robot, msg_id, *_ in arrived}

    def _send(self) -> None:
        links = list(self._links.values())
        bodies: list[tuple[str, str]] = []
        for row in look(link.ask() for link in links) if links else ():
            link, robot = self._links[row.robot], self.robots[row.robot]
            if row.refused or row.replaced or row.sent_back:
                self.disconnect(robot, 1.0)
                continue
            link.applied |= row.applied
            robot.forget(link.applied)
            link.learn(row.commands)
            bodies += [(row.robot, body) for body in link.take_due(self.tick)]
        if bodies:
            self._may_crash(GATEWAY_HOOKS[1])
        for id, body in bodies:
            for _ in range(1 if self.calm else self.rng.choice((1, 1, 2))):
                if self.calm or self.rng.random() >= self._loss:
                    self.after(self.rng.uniform(0.01, self._delay_s), lambda id=id, body=body: self._hand(id, body))

    def _hand(self, id: str, body: str) -> None:
        if self.robots[id].connected:
            self.robots[id].hear(body)

    def _may_crash(self, where: str) -> None:
        if not self.calm and len(self.crashes) < 6 and self.rng.random() < self._crash:
            self.crashes.append(where)
            raise Crash(where)

    # --- the worker

    def worker_step(self) -> None:
        if self.worker is None:
            return
        self._stirred, self._step_at = False, min(self.tick + IDLE_S, self._next_due())
        try:
            self.worker.step(self.now, self.tick)
        except Crash as crash:
            self.note(f"the worker dies: {crash}")
            self.kill_worker(self.rng.uniform(0.1, 4.0))

    def start_worker(self) -> None:
        self.workers += 1
        self._stirred = True
        self.worker = Worker(
            name=f"w{self.workers}",
            count=settings.PARTITIONS,
            hook=self._may_crash,
            limit=self._limit,
            grace_s=self.grace_s,
        )
        self.worker.partitions.lease_s = 3600

    def kill_worker(self, back_in_s: float) -> None:
        """Its session in PostgreSQL ends with it."""
        assert self.worker is not None
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM telemetry_workerprocess WHERE name = %s", [self.worker.partitions.owner])
        self.worker.streams.close()
        self.worker = None
        self.after(back_in_s, self.start_worker)

    # --- people

    def ask(self, robot: str, what: str, act: Callable[[], Any]) -> None:
        """What a refusal says is heard and not counted as asked."""
        try:
            said = act()
        except Refused as refused:
            self.note(f"{what} of {robot} is refused: {refused}")
            return
        self.note(f"{what} of {robot}: {said or 'done'}")
        self._stirred = True
        if said not in ("already ended", "already stopping"):
            self.asked[robot].append(Asked(self.tick, what))

    def running(self, robot: str) -> Mission | None:
        return Mission.objects.filter(RUNNING, robot=robot).first()

    # --- playing it

    def run(self) -> None:
        self.start_worker()
        self.worker.streams.ensure_groups(range(settings.PARTITIONS))
        self.after(ACTIVE_S, self._be_calm)
        while self.tick < TICK + LAST_S + max(0, -self.jumped_s):  # a clock that went back makes deadlines as late
            self._next_moment()
            self.gateway_step()
            if self._stirred or self.tick >= self._step_at:  # else a step would find nothing
                self.worker_step()
            if (self.calm or (self.seed % 3 and self.tick > TICK + 15)) and self._over(paused=self.calm):
                break  # two of three end with their last mission, the others see what comes after it
        self._drain()

    def _be_calm(self) -> None:
        self.calm = True
        self.note("nothing goes wrong any more")

    def _next_moment(self) -> None:
        """On to the next second in which something happens."""
        at = min([self._agenda[0][0]] if self._agenda else [self.tick + 60], default=self.tick)
        if at > self.tick + 1:
            at = min(at, self._next_due())
        at = max(at, self.tick + 0.3)
        until = at + 0.9
        while self._agenda and self._agenda[0][0] <= until:
            moment, _, what = heapq.heappop(self._agenda)
            self.tick = max(self.tick, moment)
            what()
        self.tick = max(self.tick, at)

    def _next_due(self) -> float:
        """When a deadline or a command that was not acknowledged wants a look."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT least((SELECT min(next_due_at) FROM missions_mission), (SELECT min(next_due_at) FROM fleet_robot))"
            )
            due = cursor.fetchone()[0]
        waits = [s.due for link in self._links.values() for s in link.commands.values() if not s.acknowledged]
        silent = [at + 20.5 for spans in self.silences.values() for at, end in spans[-1:] if end == float("inf")]
        return min(
            [t for t in (self.true(due) + 1.1 if due else 0.0, *waits, *silent) if t > self.tick], default=self.tick + 1
        )

    def _over(self, *, paused: bool) -> bool:
        """Nothing is on its way, and nobody waits for anything but people."""
        if self.worker is None or any(robot.outbox and robot.connected for robot in self.robots.values()):
            return False
        rows = Mission.objects.exclude(state__in=FINAL).values_list("paused_at", "dispatched_at", "robot")
        waits = ((paused and at) or (not sent and robot not in self._links) for at, sent, robot in rows)
        return all(waits)

    def _drain(self) -> None:
        self.calm = True  # what is left is not crashed into
        for _ in range(100):
            self.tick += 1
            self.gateway_step()
            if self.worker is not None and not self.worker.step(self.now, self.tick) and not self._arrived:
                return
            while self._agenda and self._agenda[0][0] <= self.tick:
                heapq.heappop(self._agenda)[2]()
        raise AssertionError("the worker finds work for ever")

    def draft(self, robot: str, site: Any, steps: list[dict[str, Any]], timeout_s: int) -> uuid.UUID:
        pk = drawing_up.draft_mission(
            title=f"Round {len(self.missions)}", site=site, robot=robot, steps=steps, timeout_s=timeout_s, by=SYSTEM
        )
        self.missions[str(pk)] = robot
        return pk

    def close(self) -> None:
        if self.worker is not None:
            self.worker.streams.close()


def _line(message: dict[str, Any]) -> str:
    where = "".join(f" {name} {message[name]}" for name in ("dispatch_no", "step", "attempt") if name in message)
    data = {k: v for k, v in message["data"].items() if v not in (None, "")}
    return f"{message['session']}/{message['seq']} {message['type']}{where} {data or ''}".rstrip()
