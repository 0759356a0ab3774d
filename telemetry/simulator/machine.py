"""A simulated robot's behaviour: modes, driving, battery, missions and commands, as a function of time.

No clock and no I/O: `obey` takes a command, `step` lets time pass, both return what the robot has to say. Simulated
time runs `speed_up` times faster than the `now` (s) that comes in.
"""

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from telemetry.simulator.activities import ACTIVITIES, Body, CannotDo, Failing, Place
from telemetry.simulator.memory import MachineMemory, Mode
from telemetry.simulator.work import Dispatch, Ending, Event, Work

REMEMBERED = 200  # dispatches whose end is known
LONGEST_STEP_S = 0.5  # real time; a process that was halted is a robot that stood still
LOW_BATTERY, CHARGED = 25.0, 80.0  # per cent; idle robots charge in between
FAULT_S = 10.0


@dataclass
class Machine:
    """One robot. `capabilities` are the command types that it can do."""

    robot: str
    capabilities: list[str]
    places: list[Place]
    start: str = ""
    speed_up: float = 1.0
    seed: int = 0
    now: float = 0.0
    fails: Callable[[int], bool] = lambda attempt: False  # asked at each try of a step
    refuses: Callable[[], bool] = lambda: False  # asked at each retry
    body: Body = field(init=False)
    work: Work | None = None
    latched: bool = False  # stopped, until released
    fault: str = ""  # code
    topping_up: bool = False
    _ended: OrderedDict[Dispatch, Ending] = field(default_factory=OrderedDict)
    _last: Dispatch | None = None
    _told: Mode = "idle"  # mode as last told
    _fault_left_s: float = 0.0

    def __post_init__(self) -> None:
        chance = random.Random(f"{self.seed} {self.robot}")
        start = next((p for p in self.places if p.name == self.start), None) or chance.choice(
            self.places or [Place("", 0.0, 0.0)]
        )
        self.body = Body(
            {p.name: p for p in self.places}, start.x, start.y, start.theta, start.name,
            battery=chance.uniform(60, 100), pace=chance.uniform(0.9, 1.3),
        )  # fmt: skip

    @property
    def mode(self) -> Mode:
        if self.fault:
            return "fault"
        if self.latched or (self.work and self.work.paused):
            return "paused"
        if self.work:
            return "charging" if self.body.charging else "running"
        return "charging" if self.topping_up else "idle"

    def state(self, reply_to: str | None = None) -> Event:
        """robot.state as it is now."""
        key = self.work.key if self.work else self._last
        ended = Ending("") if self.work or key is None else self._ended.get(key, Ending(""))
        completed = self.work.completed if self.work else ended.completed
        mission, dispatch_no = key or (None, None)
        step = (self.work.number or None) if self.work else None
        self._told = self.mode
        return Event("robot.state", {"mode": self.mode, "mission": mission, "dispatch_no": dispatch_no, "step": step,
                                     "ended": ended.how, "completed": list(completed), "reply_to": reply_to})  # fmt: skip

    def obey(self, command: dict[str, Any], now: float) -> list[Event]:
        """Do what the site says. Each command is given once: the link drops repeats."""
        events = self.step(now)
        action = _COMMANDS.get(command["type"])
        return events + self._and_mode(action(self, command) if action else [])

    def step(self, now: float) -> list[Event]:
        """Let time pass until `now`."""
        left = min(max(0.0, now - self.now), LONGEST_STEP_S) * self.speed_up
        self.now = now
        self.body.speed = 0.0
        events: list[Event] = []
        if self.fault and self._fault_left_s:
            self._fault_left_s = max(0.0, self._fault_left_s - left)
            if not self._fault_left_s:
                events += self.clear_fault()
        while left > 0 and self.work and self.work.activity and self.mode in ("running", "charging"):
            left, said = self._act(self.work, left)
            events += said
        if not self.work:
            self._rest(left)
        return self._and_mode(events)

    def fail(self, code: str, text: str, *, danger: bool = False, for_s: float = 0.0) -> list[Event]:
        """Something is wrong with the robot itself; by itself it ends after `for_s` (0: never)."""
        self.fault, self._fault_left_s = code, for_s
        return self._and_mode([Event("robot.fault", {"code": code, "text": text, "danger": danger})])

    def clear_fault(self) -> list[Event]:
        code, self.fault = self.fault, ""
        return self._and_mode([Event("robot.fault_cleared", {"code": code})] if code else [])

    def _and_mode(self, events: list[Event]) -> list[Event]:
        return events if self.mode == self._told else [*events, self.state()]

    def _act(self, work: Work, left: float) -> tuple[float, list[Event]]:
        """Go on with the step; returns the time that is left over."""
        assert work.activity is not None
        try:
            left = work.activity(self.body, left)
        except CannotDo as reason:
            work.activity, work.failed = None, True
            return 0.0, [work.about("mission.step_failed", why=str(reason))]
        if self.body.fault:
            code, self.body.fault = self.body.fault, ""
            return 0.0, self.fail(code, "simulated fault", for_s=FAULT_S)
        if left <= 0 and not work.activity.done:
            return 0.0, []
        return left, self._completed(work, "")

    def _completed(self, work: Work, result: str) -> list[Event]:
        self.body.charging = False
        work.completed.append(work.number)
        events = [work.about("mission.step_completed", result=result)]
        return events + self._next(work)

    def _next(self, work: Work) -> list[Event]:
        if work.number < len(work.steps):
            return self._begin(work, work.number + 1)
        return self._end(work, "finished", work.about("mission.finished"))

    def _begin(self, work: Work, number: int, attempt: int = 0) -> list[Event]:
        step = work.steps[number - 1]
        work.number, work.failed = number, False
        work.attempt = attempt or step.get("attempt", 1)
        activity = Failing if self.fails(work.attempt) else ACTIVITIES[step["command"]]
        work.activity = activity(step.get("params") or {})
        return [work.about("mission.step_started")]

    def _end(self, work: Work, how: str, *words: Event) -> list[Event]:
        self.work, self.body.charging = None, False
        self._remember(work.key, Ending(how, tuple(work.completed)))
        return [*words, self.state()]

    def _remember(self, key: Dispatch, ending: Ending) -> None:
        self._ended[key] = ending
        self._last = key
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def _rest(self, left: float) -> None:
        self.body.drain(left)
        if self.body.battery < LOW_BATTERY:
            self.topping_up = True
        if self.topping_up and not self.latched:
            self.body.charge(left)
            self.topping_up = self.body.battery < CHARGED

    # --- memory

    def memory(self) -> MachineMemory:
        """All that `remember` needs to go on from here."""
        body = self.body
        return MachineMemory(
            x=body.x, y=body.y, theta=body.theta, place=body.place, battery=body.battery, charging=body.charging,
            work=self.work.memory() if self.work else None, latched=self.latched, fault=self.fault,
            fault_left_s=self._fault_left_s, topping_up=self.topping_up, told=self._told,
            ended=[(*key, ending.how) for key, ending in self._ended.items()],
            done=[ending.completed for ending in self._ended.values()], last=self._last,
        )  # fmt: skip

    def remember(self, memory: MachineMemory) -> None:
        """Be the robot that it was, standing. ValueError, with nothing remembered, when its work cannot be gone on with."""
        work, body = memory.work, self.body
        self.work = Work.of(work) if work else None
        body.x, body.y, body.theta, body.place, body.speed = memory.x, memory.y, memory.theta, memory.place, 0.0
        body.battery, body.charging = memory.battery, memory.charging
        self.latched, self.topping_up, self._told = memory.latched, memory.topping_up, memory.told
        self.fault, self._fault_left_s = memory.fault, memory.fault_left_s
        self._ended = OrderedDict(
            ((mission, number), Ending(how, done))
            for (mission, number, how), done in zip_longest(memory.ended, memory.done, fillvalue=())
        )
        self._last = memory.last

    # --- commands

    def _assign(self, command: dict[str, Any]) -> list[Event]:
        key, data = _key(command), command["data"]
        if self.work and self.work.key == key:
            return [self.work.about("mission.accepted")]
        if key in self._ended:
            return self._last_word(key)
        why = self._why_not(data["steps"])
        if why:
            self._remember(key, Ending("rejected"))
            return [Event("mission.rejected", {"why": why}, *key)]
        self.topping_up = False
        self.work = work = Work(key, data["steps"], command.get("traceparent") or "")
        events = [work.about("mission.accepted"), *self._begin(work, 1)]
        if self.latched:
            work.paused = True
            events.append(work.about("mission.paused"))
        return events

    def _why_not(self, steps: list[dict[str, Any]]) -> str:
        if self.work:
            return f"busy with mission {self.work.key[0]}"
        if self.fault:
            return f"fault {self.fault}"
        for step in steps:
            if step["command"] not in self.capabilities or step["command"] not in ACTIVITIES:
                return f"cannot {step['command']}"
        return "" if steps else "nothing to do"

    def _last_word(self, key: Dispatch) -> list[Event]:
        how = self._ended[key].how
        data = {"why": "as said before"} if how in ("cancelled", "rejected") else {}
        return [Event(f"mission.{how}", data, *key)]

    def _cancel(self, command: dict[str, Any]) -> list[Event]:
        key = _key(command)
        if self.work and self.work.key == key:
            return self._end(self.work, "cancelled", self.work.about("mission.cancelled", why=""))
        if key in self._ended:
            return self._last_word(key)
        self._ended[key] = Ending("cancelled")  # should its assignment come after all, it is not begun
        return [Event("mission.cancelled", {"why": "unknown"}, *key)]

    def _on_my_mission(self, command: dict[str, Any], act: Callable[[Work], list[Event]]) -> list[Event]:
        key = _key(command)
        if self.work and self.work.key == key:
            return act(self.work)
        return self._last_word(key) if key in self._ended else [self.state()]

    def _pause(self, command: dict[str, Any]) -> list[Event]:
        return self._on_my_mission(command, self._halt)

    def _halt(self, work: Work) -> list[Event]:
        work.paused, self.body.speed = True, 0.0
        return [work.about("mission.paused")]

    def _resume(self, command: dict[str, Any]) -> list[Event]:
        return self._on_my_mission(command, self._go_on)

    def _go_on(self, work: Work) -> list[Event]:
        if self.latched:
            return [work.about("mission.paused")]
        work.paused = False
        return [work.about("mission.resumed")]

    def _retry_step(self, command: dict[str, Any]) -> list[Event]:
        return self._on_my_mission(command, lambda work: self._again(work, **_try_of(command, work)))

    def _again(self, work: Work, step: int, attempt: int) -> list[Event]:
        """Try the step that it is at once more; one that is done already is only said again."""
        if step in work.completed:
            done = work.about("mission.step_completed", result="as said before")
            return [done._replace(step=step, attempt=attempt)]
        if step != work.number or attempt < work.attempt:
            return [self.state()]
        if attempt == work.attempt and not work.failed:
            return [work.about("mission.step_started")]
        said = self._begin(work, step, attempt)
        if not self.refuses():
            return said
        work.activity, work.failed = None, True
        return [work.about("mission.step_failed", why="it does not try again")]

    def _skip_step(self, command: dict[str, Any]) -> list[Event]:
        return self._on_my_mission(command, lambda work: self._give_up(work, **_try_of(command, work)))

    def _give_up(self, work: Work, step: int, attempt: int) -> list[Event]:
        """Leave the step that it is at as it is, and go on with the next."""
        if step != work.number:
            return [self.state()]
        self.body.charging, self.body.speed = False, 0.0
        return self._next(work)

    def _stop(self, command: dict[str, Any]) -> list[Event]:
        self.latched, self.body.speed = True, 0.0
        events = [Event("robot.stopped", {"reply_to": command["msg_id"]})]
        return events + (self._halt(self.work) if self.work and not self.work.paused else [])

    def _release(self, command: dict[str, Any]) -> list[Event]:
        self.latched = False
        return []

    def _query_state(self, command: dict[str, Any]) -> list[Event]:
        return [self.state(reply_to=command["msg_id"])]


def _key(command: dict[str, Any]) -> Dispatch:
    return command["mission"], command["dispatch_no"]


def _try_of(command: dict[str, Any], work: Work) -> dict[str, int]:
    """Which step and which try a command is about; one that does not say means the step at hand."""
    data = command["data"]
    return {"step": data.get("step") or work.number, "attempt": data.get("attempt") or work.attempt + 1}


_COMMANDS: dict[str, Callable[[Machine, dict[str, Any]], list[Event]]] = {
    "mission.assign": Machine._assign,
    "mission.pause": Machine._pause,
    "mission.resume": Machine._resume,
    "mission.cancel": Machine._cancel,
    "mission.retry_step": Machine._retry_step,
    "mission.skip_step": Machine._skip_step,
    "robot.stop": Machine._stop,
    "robot.release": Machine._release,
    "robot.query_state": Machine._query_state,
}
