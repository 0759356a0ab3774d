"""A small site in memory: the mission that it wants done, the commands that it sends for it, what it makes of the words."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from telemetry.drivers.contract import Command, Dispatch, Place, Say, Spec, Step, Timing, Wanted
from telemetry.drivers.kit.double import AT_A_PLACE, PARAMS

RETRY_S = (1, 2, 4, 8, 16)  # between sendings that are not delivered; the last one repeats
TRIES = 5  # sendings of an assignment that is delivered and not accepted
IDS = UUID("7c0a8c54-93d0-5d5e-8a8e-6f9f4f1f0a01")


class Order(msgspec.Struct):
    """A command that is open."""

    command: Command
    due: datetime
    sent: int = 0
    delivered: bool = False


class Site:
    """What it wants of one robot. All ids are made of the robot's, so that a run is the same each time."""

    def __init__(self, spec: Spec, timing: Timing) -> None:
        self.spec, self.timing = spec, timing
        self.dispatch: Dispatch | None = None
        self.stopped = False
        self.ended = ""  # how the last dispatch did
        self.claims: set[int] = set()  # steps that the robot has completed, by its word
        self.skipped: set[int] = set()
        self.failed: set[tuple[int, int]] = set()  # steps and attempts, by its word
        self.finished = False  # by its word
        self.mode = ""
        self.confirmed: set[UUID] = set()  # stops and questions that were answered
        self.orders: list[Order] = []
        self.made = 0

    # what people do

    def assign(self, steps: tuple[str, ...], now: datetime) -> Command:
        number = self.made + 1
        planned = tuple(_step(n, command) for n, command in enumerate(steps, 1))
        self.dispatch = Dispatch(mission=uuid5(IDS, f"{self.spec.id} mission {number}"), dispatch_no=1, steps=planned)
        self.ended, self.claims, self.skipped, self.failed, self.finished = "", set(), set(), set(), False
        written = [
            {"number": s.number, "command": s.command, "params": s.params, "timeout_s": 60, "attempt": 1}
            for s in planned
        ]
        return self.command("mission.assign", now, title="Round", timeout_s=600, steps=written)

    def cancel(self, now: datetime) -> Command:
        """What the robot has not got is withdrawn; what it may have got it is told to end."""
        assert self.dispatch is not None
        self.dispatch = replace(self.dispatch, stopping=True)
        self.orders = [o for o in self.orders if o.command.type == "robot.stop"]
        return self.command("mission.cancel", now)

    def pause(self, now: datetime) -> Command:
        assert self.dispatch is not None
        self.dispatch = replace(self.dispatch, paused=True)
        return self.command("mission.pause", now)

    def resume(self, now: datetime) -> Command:
        assert self.dispatch is not None
        self.dispatch = replace(self.dispatch, paused=False)
        return self.command("mission.resume", now)

    def retry(self, step: int, now: datetime) -> Command:
        """Another try of a step that has failed."""
        assert self.dispatch is not None
        steps = list(self.dispatch.steps)
        again = steps[step - 1] = replace(steps[step - 1], attempt=steps[step - 1].attempt + 1, started_at=now)
        self.dispatch = replace(self.dispatch, steps=tuple(steps))
        return self.command("mission.retry_step", now, step=step, attempt=again.attempt)

    def skip(self, step: int, now: datetime) -> Command:
        assert self.dispatch is not None
        self.skipped.add(step)
        self._advance(now)
        return self.command("mission.skip_step", now, step=step, attempt=self.dispatch.steps[step - 1].attempt)

    def stop(self, now: datetime) -> Command:
        self.stopped = True
        return self.command("robot.stop", now, why="a test")

    def release(self, now: datetime) -> Command:
        self.stopped = False
        self.orders = [o for o in self.orders if o.command.type != "robot.stop"]
        return self.command("robot.release", now)

    def ask(self, now: datetime) -> Command:
        return self.command("robot.query_state", now)

    def command(self, type: str, now: datetime, **data: Any) -> Command:
        """A new open command, as docs/protocol.md writes it."""
        self.made += 1
        id = uuid5(IDS, f"{self.spec.id} command {self.made}")
        about = self.dispatch if type.startswith("mission.") else None
        mission, dispatch_no = (about.mission, about.dispatch_no) if about else (None, None)
        frame = {
            "v": 1, "type": type, "msg_id": id, "robot": self.spec.id, "mission": mission, "dispatch_no": dispatch_no,
            "traceparent": "", "data": data,
        }  # fmt: skip
        raw = msgspec.json.encode(frame).decode()
        made = Command(id=id, type=type, data=data, mission=mission, dispatch_no=dispatch_no, raw=raw)
        self.orders.append(Order(made, now))
        return made

    # what its gateway reads

    def wanted(self) -> Wanted:
        return Wanted(dispatch=None if self.ended else self.dispatch, stopped=self.stopped)

    def due(self, now: datetime) -> list[Command]:
        """What to send now. An assignment that came to nothing is sent again, a few times."""
        found = []
        for order in self.orders:
            assign = order.command.type == "mission.assign"
            if order.delivered and not (assign and self.dispatch and not self.dispatch.accepted):
                continue
            if order.due > now or (assign and order.sent > TRIES * len(RETRY_S)):
                continue
            wait_s = RETRY_S[min(order.sent, len(RETRY_S) - 1)]
            order.due, order.sent = now + timedelta(seconds=wait_s), order.sent + 1
            found.append(order.command)
        return found

    def delivered(self, id: UUID, now: datetime) -> bool:
        """False: no command of this id was ever sent to this robot."""
        for order in self.orders:
            if order.command.id == id and order.sent:
                order.delivered, order.due = True, now + timedelta(seconds=self.timing.accept_s)
                return True
        return any(id == uuid5(IDS, f"{self.spec.id} command {n}") for n in range(1, self.made + 1))

    def reconnected(self, now: datetime) -> None:
        """A new link: what is not delivered goes out at once."""
        for order in self.orders:
            order.due = order.due if order.delivered else now

    # what it is told

    def apply(self, word: Say, now: datetime) -> None:
        row = _WORDS.get(word.type)
        here = self.dispatch is not None and (word.mission, word.dispatch_no) == (
            self.dispatch.mission, self.dispatch.dispatch_no,
        )  # fmt: skip
        if row is not None and (here or not word.type.startswith("mission.")):
            row(self, word)
            self._advance(now)
            if word.type == "robot.state" and self._is_odd(word.data):
                self.ask(now)
        if self.ended:  # what was wanted of that mission is wanted no more
            self.orders = [o for o in self.orders if not o.command.type.startswith("mission.")]

    def _accepted(self, word: Say) -> None:
        assert self.dispatch is not None
        self.dispatch = replace(self.dispatch, accepted=True)

    def _completed(self, word: Say) -> None:
        self.claims.add(word.step or 0)

    def _failed(self, word: Say) -> None:
        self.failed.add((word.step or 0, word.attempt or 0))

    def _finished(self, word: Say) -> None:
        self.finished = True

    def _over(self, word: Say) -> None:
        self.ended = word.type.removeprefix("mission.")

    def _suspended(self, word: Say) -> None:
        assert self.dispatch is not None
        self.dispatch = replace(self.dispatch, paused=word.type == "mission.paused" or self.stopped)

    def _answered(self, word: Say) -> None:
        if word.data.get("reply_to"):
            self.confirmed.add(UUID(str(word.data["reply_to"])))
        if word.type == "robot.state":
            self._state(word.data)

    def _state(self, data: dict[str, Any]) -> None:
        self.mode = data["mode"]
        named = (str(data.get("mission")), data.get("dispatch_no"))
        if self.dispatch is None or named != (str(self.dispatch.mission), self.dispatch.dispatch_no):
            return
        self.claims |= set(data.get("completed") or ())
        how = data.get("ended") or ""
        if how == "finished":
            self.finished = True
        elif how and not self.ended:
            self.ended = how

    @property
    def under_way(self) -> bool:
        """Its mission was accepted and has not ended, by its word."""
        return self.dispatch is not None and self.dispatch.accepted and not self.ended

    def _is_odd(self, data: dict[str, Any]) -> bool:
        """Idle within a mission: it is asked whether it still knows it, once at a time."""
        waits = any(o.command.type == "robot.query_state" and not o.delivered for o in self.orders)
        suspended = self.dispatch is not None and (self.dispatch.paused or self.dispatch.stopping or self.stopped)
        return self.mode == "idle" and self.under_way and not suspended and not waits and not data.get("reply_to")

    def _advance(self, now: datetime) -> None:
        """As far as the claims allow, in order."""
        if self.dispatch is None or not self.dispatch.accepted:
            return
        steps, due = [], 0
        for step in self.dispatch.steps:
            if step.number in self.claims | self.skipped and not due:
                steps.append(replace(step, outcome="completed" if step.number in self.claims else "skipped"))
            else:
                due = due or step.number
                began = now if step.number == due and step.started_at is None else step.started_at
                steps.append(replace(step, started_at=began))
        self.dispatch = replace(self.dispatch, steps=tuple(steps), current=due or len(steps))
        if self.finished and not due and not self.ended:
            self.ended = "finished"


def _step(number: int, command: str) -> Step:
    place = Place(name=f"Place {number}", x=5.0 * (number % 2), y=4.0 * number, node=f"N{number}")
    params = dict(PARAMS[command])
    if command in AT_A_PLACE:
        params |= {"place": place.name, "x": place.x, "y": place.y, "theta": place.theta}
    return Step(number=number, command=command, params=params,
                place=place if command in AT_A_PLACE else None)  # fmt: skip


_WORDS: dict[str, Callable[[Site, Say], None]] = {
    "mission.accepted": Site._accepted,
    "mission.step_completed": Site._completed,
    "mission.finished": Site._finished,
    "mission.cancelled": Site._over,
    "mission.rejected": Site._over,
    "mission.step_failed": Site._failed,
    "mission.paused": Site._suspended,
    "mission.resumed": Site._suspended,
    "robot.state": Site._answered,
    "robot.stopped": Site._answered,
}
