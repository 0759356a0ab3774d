"""A site, a network and a robot in memory, and the driver between them. Time is what the stage says it is.

The site is the real mission machine with its deadlines; the robot is `robot_double.Robot`. After each word it is held
against what the robot truly did, and all that was sent is kept.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from fleet.models import CommandState
from missions import deadlines as table
from missions import facts
from missions.models import FINAL
from telemetry.drivers import contract
from telemetry.drivers.contract import Begins, Delivered, Heard, Say, Send, Spec
from telemetry.drivers.vda5050 import driver
from telemetry.drivers.vda5050.profile import Profile
from tests.missions.machine import START, Machine
from tests.missions.machine import step as drawn_up
from tests.telemetry.vda5050.robot_double import Robot

TICK_S = 0.5
AGAIN_S = (1, 2, 4, 8, 16)
PLACES = {
    name: contract.Place(name=name, x=x, y=0.0, node=node)
    for name, x, node in (("A", 10.0, "n-a"), ("B", 20.0, ""), ("C", 30.0, "n-c"), ("D", 40.0, ""))
}


def drive(place: str, **over: Any) -> dict[str, Any]:
    return drawn_up("navigate", params={"place": place}, **over)


def pick(place: str, **over: Any) -> dict[str, Any]:
    return drawn_up("pick", params={"place": place, "load": "pallet 7"}, **over)


def drop(place: str, **over: Any) -> dict[str, Any]:
    return drawn_up("drop", params={"place": place, "load": "pallet 7"}, **over)


def wait(seconds: float, **over: Any) -> dict[str, Any]:
    return drawn_up("wait", params={"seconds": seconds}, **over)


def charge(until: int, place: str = "", **over: Any) -> dict[str, Any]:
    return drawn_up("charge", params={"until_percent": until, "place": place}, **over)


def custom(name: str, **over: Any) -> dict[str, Any]:
    return drawn_up("custom", params={"name": name, "args": {}}, **over)


@dataclass
class Open:
    """A command that the robot's link has to deliver."""

    command: contract.Command
    tries: int = 0
    due_at: datetime = START
    state: str = CommandState.OPEN


@dataclass
class Network:
    """What becomes of a message: how many seconds each of its copies takes. Nothing: it is lost."""

    up: Callable[[dict[str, Any]], list[float]] = lambda message: [0.02]
    down: Callable[[str, dict[str, Any]], list[float]] = lambda part, message: [0.02]
    under_way: list[tuple[datetime, int, Callable[[], None]]] = field(default_factory=list)


class Stage:
    """`run(seconds)`, or `run_until` something holds; what was said is in `said`, what was sent in `sent`."""

    def __init__(
        self, *steps: dict[str, Any], habits: tuple[str, ...] = (), profile: Profile | None = None, lag_s: float = 0.0,
        brand: dict[str, Any] | None = None, robot: Robot | None = None,
    ) -> None:  # fmt: skip
        self.now = START
        self.profile = profile or Profile()
        self.spec = Spec(id="RB-001", address="double/1", profile=self.profile)
        self.robot = robot or Robot(START, *habits)
        site = {"idle_cancel": self.profile.idle_cancel, "strict_sequence": driver.strict_sequence}
        self.site = Machine(*steps, brand=site | (brand or {}))
        self.net = Network()
        self.said: list[Say] = []
        self.sent: list[tuple[datetime, str, dict[str, Any]]] = []
        self.effects: list[contract.Effect] = []
        self.known_ids: set[UUID] = set()
        self.open: dict[UUID, Open] = {}
        self.stopped = self.resuming = False
        self._lag = timedelta(seconds=lag_s)
        self._wanted: list[tuple[datetime, contract.Wanted]] = []
        self._session = self._seq = self._count = 0
        self._stepped_at = START
        self._moves = self._commands = 0
        self.restart_driver()
        self.robot.tell()

    # what people do

    def dispatch(self) -> "Stage":
        self.site.now = self.now
        self.site._tell(facts.Dispatch("Ella", [], self.site.brand))
        self.site.row.assign_sent = True
        return self

    def cancel(self) -> None:
        self._site(facts.Cancel("Ada"))

    def pause(self) -> None:
        self.resuming = False
        self._site(facts.Pause("Ada"))

    def resume(self) -> None:
        self.resuming = True
        self._site(facts.Resume("Ada"))

    def stop(self) -> None:
        self.stopped, self.resuming = True, False
        self._site(facts.RobotHeld(self.now))
        self._command("robot.stop", {"why": "blocked aisle"})

    def release(self) -> None:
        self.stopped = False
        for row in self.open.values():
            if row.command.type == "robot.stop":
                row.state = CommandState.WITHDRAWN
        self._site(facts.RobotReleased())
        self._command("robot.release", {})

    def ask(self) -> UUID:
        return self._command("robot.query_state", {})

    def restart_driver(self) -> None:
        """All that the conversation knew is gone."""
        self.talk = driver.converse(self.spec)
        for row in self.open.values():
            row.tries, row.due_at = 0, self.now

    # time

    def run(self, seconds: float) -> "Stage":
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.tick()
        return self

    def run_until(self, what: Callable[["Stage"], Any], within_s: float = 120) -> "Stage":
        end = self.now + timedelta(seconds=within_s)
        while not what(self):
            assert self.now < end, f"not within {within_s} s: {self.words}, {self.site.kinds[-5:]}"
            self.tick()
        return self

    def to_the_end(self, within_s: float = 600) -> "Stage":
        self.run_until(lambda stage: stage.site.row.state in FINAL, within_s)
        return self.run(10)

    def tick(self) -> None:
        end = self.now + timedelta(seconds=TICK_S)
        while self.now < end:
            self.now = min(
                (t for t in (*(row[0] for row in self.net.under_way), *self.robot.due()) if t > self.now), default=end
            )
            self.now = min(self.now, end)
            self.robot.step(self.now)
            self._carry()
        self._commands_due()
        if self.now - self._stepped_at >= timedelta(seconds=1):
            self._stepped_at = self.now
            self._do(self.talk.step(self.wanted(), self.now))
        self._carry()
        for deadline in table.deadlines(self.site.row):
            if deadline.due_at <= self.now:
                self._site(facts.Due(deadline.kind, online=True))

    # what it looks like

    @property
    def words(self) -> list[str]:
        """Words about the mission, without "started", in order: `accepted`, `completed 1`, `failed 2/1`."""
        return [word for say in self.said if (word := _word(say))]

    @property
    def orders(self) -> list[dict[str, Any]]:
        return [message for _, part, message in self.sent if part == "order"]

    def instant(self, kind: str) -> list[str]:
        """Ids of the instant actions of this kind that were sent, in order, each time."""
        found = (a for _, part, message in self.sent if part == "instantActions" for a in message["actions"])
        return [action["actionId"] for action in found if action["actionType"] == kind]

    def wanted(self) -> contract.Wanted:
        """As the database had it `lag_s` ago."""
        self._wanted.append((self.now, self._newest()))
        while len(self._wanted) > 1 and self._wanted[1][0] <= self.now - self._lag:
            del self._wanted[0]
        return self._wanted[0][1]

    def _newest(self) -> contract.Wanted:
        row = self.site.row
        if not row.dispatched_at or row.state in FINAL:
            return contract.Wanted(stopped=self.stopped)
        steps = tuple(
            contract.Step(
                number=number, command=s.command, params=s.params, attempt=s.attempt or 1,
                outcome=str(s.outcome or ""), started_at=s.started_at, place=PLACES.get(s.params.get("place", "")),
            )
            for number, s in sorted(self.site.steps.items())
        )  # fmt: skip
        dispatch = contract.Dispatch(
            mission=row.pk, dispatch_no=row.dispatch_no, steps=steps, current=row.current_step or 0,
            accepted=row.state != "pending", paused=bool(row.paused_at or row.held_at),
            stopping=bool(row.stop_requested_at), resuming=bool(row.paused_at) and self.resuming,
        )  # fmt: skip
        return contract.Wanted(dispatch=dispatch, stopped=self.stopped)

    # the network

    def _carry(self) -> None:
        """All that has arrived by now; what comes of it may be under way at once."""
        while True:
            told, self.robot.out = self.robot.out, []
            for part, message in told:
                for delay in self.net.up(message):
                    self._later(delay, self._heard(part, message))
            due = sorted((row for row in self.net.under_way if row[0] <= self.now), key=lambda row: row[:2])
            self.net.under_way = [row for row in self.net.under_way if row[0] > self.now]
            if not due:
                return
            for _, _, arrive in due:
                arrive()

    def _later(self, delay: float, arrive: Callable[[], None]) -> None:
        self._count += 1
        self.net.under_way.append((self.now + timedelta(seconds=delay), self._count, arrive))

    def _heard(self, part: str, message: dict[str, Any]) -> Callable[[], None]:
        payload = json.dumps(message).encode()
        return lambda: self._do(self.talk.hear(Heard(part=part, payload=payload, at=self.now), self.wanted()))

    def _do(self, effects: Any) -> None:
        for effect in list(effects):
            self.effects.append(effect)
            match effect:
                case Begins():
                    self._session, self._seq = self._session + 1, 0
                    self._do(self.talk.begun(self._session, {}, self.now))
                case Send():
                    self._send(effect)
                case Say():
                    self._store(effect)
                case Delivered(command=command):
                    self._delivered(command)

    def _send(self, send: Send) -> None:
        part, message = send.topic.rpartition("/")[2], json.loads(send.payload)
        self.sent.append((self.now, part, message))
        for delay in self.net.down(part, message):
            self._later(delay, lambda: self.robot.hear(part, json.loads(send.payload)))

    # the site

    def _store(self, say: Say) -> None:
        self._seq += 1
        verdict = "duplicate" if say.id in self.known_ids else "stored"
        if verdict == "stored":
            self.known_ids.add(say.id)
            self.said.append(say)
            self._check(say)
            self._apply(say)
        self._do(self.talk.stored(say, verdict, self.now))

    def _check(self, say: Say) -> None:
        """No word of what did not happen."""
        did = self.robot.did
        if say.type == "mission.step_completed":
            step = self.site.steps[say.step]
            if step.command in ("pick", "drop", "custom"):
                done = [name for kind, name, *_ in did if kind == "done" and name.endswith(f".{say.step}")]
                assert done, f"step {say.step} was not done"
            elif step.command == "navigate":
                place = PLACES[step.params["place"]]
                there = [
                    row for row in did if row[0] == "reached" and row[3].split("#")[0] == (place.node or place.name)
                ]
                assert there, f"step {say.step}: it was never there"
            elif step.command == "wait" and not self.profile.wait:
                assert self.now >= step.started_at + timedelta(seconds=step.params["seconds"])
        if say.type == "mission.accepted":
            assert any(row[0] == "accepted" and row[1].startswith(str(say.mission)) for row in did)
        if say.type in ("mission.finished", "mission.cancelled"):
            ours = self.robot.order_id.startswith(f"{say.mission}.{say.dispatch_no}.")
            assert not ours or self.robot.resting or self.robot.charging, f"{say.type}, and it is still at it"
        if say.type == "mission.paused":
            paused = any(row[0] in ("paused", "cancelled") for row in did)
            assert paused or self.robot.resting, "paused, and it never stood"

    def _apply(self, say: Say) -> None:
        no, data = say.dispatch_no, say.data
        fact: Any = {
            "mission.accepted": lambda: facts.Accepted(no),
            "mission.rejected": lambda: facts.Rejected(no, data["why"]),
            "mission.step_started": lambda: facts.StepStarted(no, say.step, say.attempt),
            "mission.step_completed": lambda: facts.StepCompleted(no, say.step, say.attempt, data["result"]),
            "mission.step_failed": lambda: facts.StepFailed(no, say.step, say.attempt, data["why"]),
            "mission.paused": lambda: facts.Paused(no, self._session, self._seq),
            "mission.resumed": lambda: facts.Resumed(no, self._session, self._seq),
            "mission.cancelled": lambda: facts.Cancelled(no, data.get("why", "")),
            "mission.finished": lambda: facts.Finished(no),
        }.get(say.type, lambda: self._state(say))()
        if fact is not None:
            self._site(fact)

    def _state(self, say: Say) -> Any:
        if say.type != "robot.state" or not self.site.row.dispatched_at:
            return None
        row, data = self.site.row, say.data
        named = data["mission"] == str(row.pk) and data["dispatch_no"] == row.dispatch_no
        if reply := data.get("reply_to"):
            asked = any(c.pk == UUID(reply) for c in self.site.change.commands)
            done = tuple(data.get("completed", ())) if named else ()
            return facts.Answered(data["mode"], named, data["ended"] if named else "", done, asked)
        return facts.SaysIdle() if data["mode"] == "idle" and not named else None

    def _site(self, fact: Any) -> None:
        self.site.now = self.now
        self.site._tell(fact)
        self._take_commands()

    def _take_commands(self) -> None:
        change = self.site.change
        for kinds, old, new in change.command_moves[self._moves :]:
            for row in self.open.values():
                if row.command.mission and row.state == old and (not kinds or row.command.type in kinds):
                    row.state, row.tries, row.due_at = new, 0, self.now
        self._moves = len(change.command_moves)
        for row in change.commands[self._commands :]:
            data = json.loads(row.body)["data"] if row.body else {}
            command = contract.Command(
                id=row.pk, type=row.kind, data=data, mission=row.mission, dispatch_no=row.dispatch_no
            )
            self.open[row.pk] = Open(command, due_at=self.now)
        self._commands = len(change.commands)

    def _command(self, kind: str, data: dict[str, Any]) -> UUID:
        command = contract.Command(id=uuid4(), type=kind, data=data)
        self.open[command.id] = Open(command, due_at=self.now)
        return command.id

    def _commands_due(self) -> None:
        """As the owner of the link does: again until it is delivered; not before the robot was heard."""
        self._take_commands()
        if not self._session:
            return
        for row in list(self.open.values()):
            if row.state == CommandState.OPEN and row.due_at <= self.now:
                row.due_at = self.now + timedelta(seconds=AGAIN_S[min(row.tries, len(AGAIN_S) - 1)])
                row.tries += 1
                self._do(self.talk.command(row.command, self.wanted(), self.now))

    def _delivered(self, command: UUID) -> None:
        row = self.open[command]
        if row.state == CommandState.OPEN:
            row.state = CommandState.DELIVERED
            if row.command.type == "mission.assign":
                self._site(facts.Delivered())


_SHORT = {"step_completed": "completed", "step_failed": "failed"}


def _word(say: Say) -> str:
    area, _, what = say.type.partition(".")
    if area != "mission" or what == "step_started":
        return "stopped" if say.type == "robot.stopped" else ""
    if what == "step_failed":
        return f"failed {say.step}/{say.attempt}"
    return f"{_SHORT.get(what, what)} {say.step}" if say.step else what


def counted(words: list[str]) -> dict[str, int]:
    """Words that were said more than once."""
    return {word: n for word, n in Counter(words).items() if n > 1}
