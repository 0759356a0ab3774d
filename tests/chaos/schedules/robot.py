"""A robot of the schedules: it does what the protocol's page asks, as slowly, wrongly and absently as its lot says."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

RESEND_S = 5.0


@dataclass
class Lot:
    """What this robot is like; drawn from the seed."""

    skew_s: float = 0.0  # of its clock
    rejects: bool = False
    deaf: bool = False  # hears no cancel
    outcomes: dict[tuple[int, int], str] = field(default_factory=dict)  # (step, attempt) → fail, stuck
    paces: tuple[float, float] = (1.0, 4.0)  # of a step, s
    starts_aloud: bool = True  # says step_started


@dataclass
class Work:
    key: tuple[str, int]  # mission, dispatch
    steps: list[dict[str, Any]]
    at: int = 0  # step, from 1
    attempt: int = 1
    paused: bool = False
    waits: bool = False  # for what the site decides about a failed step
    turn: int = 0  # rises whenever what was planned no longer holds


class Robot:
    """Keeps what it said until it is applied; `site` carries its words and its time."""

    def __init__(self, site: Any, id: str, lot: Lot, rng: Random) -> None:
        self.site, self.id, self.lot, self.rng = site, id, lot, rng
        self.session = self.seq = 0
        self.outbox: list[dict[str, Any]] = []
        self.connected = False
        self.halted = False
        self.work: Work | None = None
        self.ended: dict[tuple[str, int], str] = {}
        self.seen: set[str] = set()
        self._resends = False

    # --- its link

    def welcome(self, session: int, applied: dict[int, int]) -> None:
        self.session, self.seq, self.connected = session, 0, True
        self.forget(applied)
        for message in self.outbox:
            self.site.carry(self, message)
        self.tell_state()

    def forget(self, applied: dict[int, int]) -> None:
        """The site has these: they are needed no more."""
        self.outbox = [m for m in self.outbox if m["seq"] > applied.get(m["session"], 0)]

    def say(self, type: str, *, about: tuple[str, int] | None = None, **over: Any) -> None:
        self.seq += 1
        dispatch = {"mission": about[0], "dispatch_no": about[1]} if about else {}
        occurred = self.site.now + timedelta(seconds=self.lot.skew_s)
        message = {
            "v": 1, "msg_id": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), "robot": self.id,
            "session": self.session, "channel": "critical", "seq": self.seq, "type": type,
            "occurred_at": occurred.isoformat(), "data": {}, **dispatch, **over,
        }  # fmt: skip
        self.outbox.append(message)
        self.site.carry(self, message)
        self._resend_later()

    def _resend_later(self) -> None:
        if self._resends:
            return
        self._resends = True

        def again() -> None:
            self._resends = False
            if self.connected:
                for message in self.outbox:
                    self.site.carry(self, message)
            if self.outbox:
                self._resend_later()

        self.site.after(RESEND_S, again)

    # --- what it is told

    def hear(self, raw: str) -> None:
        command = json.loads(raw)
        self.site.acknowledge(self, command["msg_id"])
        if command["msg_id"] in self.seen and command["type"] != "robot.stop":
            return
        self.seen.add(command["msg_id"])
        self.site.note(f"{self.id} hears {command['type']}")
        key = (command["mission"], command["dispatch_no"]) if command["mission"] else None
        _ORDERS[command["type"]](self, key, command)

    def _assign(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if key in self.ended:
            self.say(f"mission.{self.ended[key]}", about=key, **_why(self.ended[key]))
        elif self.work is not None and self.work.key == key:
            self.say("mission.accepted", about=key)
        elif self.lot.rejects:
            self.ended[key] = "rejected"
            self.say("mission.rejected", about=key, data={"why": "not today"})
        else:
            self.work = Work(key, command["data"]["steps"])
            self.say("mission.accepted", about=key)
            self._begin(1, 1)

    def _begin(self, step: int, attempt: int) -> None:
        work = self.work
        assert work is not None
        if step > len(work.steps):
            self.work, self.ended[work.key] = None, "finished"
            self.say("mission.finished", about=work.key)
            return
        work.at, work.attempt, work.waits = step, attempt, False
        work.turn += 1
        if self.lot.starts_aloud:
            self.say("mission.step_started", about=work.key, step=step, attempt=attempt)
        self._go_on()

    def _go_on(self) -> None:
        work = self.work
        assert work is not None
        if work.paused or work.waits:
            return
        outcome, turn = self.lot.outcomes.get((work.at, work.attempt), "done"), work.turn
        if outcome != "stuck":
            self.site.after(self.rng.uniform(*self.lot.paces), lambda: self._end(work, turn, outcome))

    def _end(self, work: Work, turn: int, outcome: str) -> None:
        if self.work is not work or work.turn != turn or work.paused:
            return
        where = {"about": work.key, "step": work.at, "attempt": work.attempt}
        if outcome == "fail":
            work.waits = True
            self.say("mission.step_failed", **where, data={"why": "no grip"})
            return
        self.say("mission.step_completed", **where)
        self._begin(work.at + 1, 1)

    def _retry(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if self._mine(key) and self.work.at == _number(command, "step", self.work.at):
            self._begin(self.work.at, _number(command, "attempt", self.work.attempt + 1))

    def _skip(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if self._mine(key) and self.work.at == _number(command, "step", self.work.at):
            self._begin(self.work.at + 1, 1)

    def _pause(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if self._mine(key) and not self.work.paused:
            self.work.paused = True
            self.work.turn += 1
            self.say("mission.paused", about=key)

    def _resume(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if self._mine(key) and self.work.paused and not self.halted:
            self.work.paused = False
            self.say("mission.resumed", about=key)
            self._go_on()

    def _cancel(self, key: tuple[str, int], command: dict[str, Any]) -> None:
        if self.lot.deaf:
            return
        if key in self.ended:
            self.say(f"mission.{self.ended[key]}", about=key, **_why(self.ended[key]))
            return
        why = {} if self._mine(key) else {"data": {"why": "unknown"}}
        if self._mine(key):
            self.work = None
        self.ended[key] = "cancelled"
        self.say("mission.cancelled", about=key, **why)

    def _stop(self, key: None, command: dict[str, Any]) -> None:
        self.halted = True
        self.say("robot.stopped", data={"reply_to": command["msg_id"]})
        if self.work is not None:
            self._pause(self.work.key, command)

    def _release(self, key: None, command: dict[str, Any]) -> None:
        self.halted = False

    def _query(self, key: Any, command: dict[str, Any]) -> None:
        self.tell_state(reply_to=command["msg_id"])

    def _mine(self, key: tuple[str, int]) -> bool:
        return self.work is not None and self.work.key == key

    # --- what it says of itself

    def tell_state(self, **more: Any) -> None:
        if self.work is not None:
            where = {"mission": self.work.key[0], "dispatch_no": self.work.key[1], "step": self.work.at}
            mode = "paused" if self.work.paused else "running"
            self.say("robot.state", data={"mode": mode, **where, **more})
        elif self.ended:
            key, word = list(self.ended.items())[-1]
            where = {"mission": key[0], "dispatch_no": key[1], "ended": word}
            self.say("robot.state", data={"mode": "idle", **where, **more})
        else:
            self.say("robot.state", data={"mode": "idle", **more})

    def endanger(self) -> None:
        self.say("robot.fault", data={"code": "E7", "text": "something burns", "danger": True})

    def reboot(self) -> None:
        """What it worked on is gone; what it said and what it was told it has on disk."""
        if self.work is not None:
            self.work.turn += 1
        self.work, self.connected = None, False


def _why(word: str) -> dict[str, Any]:
    return {"data": {"why": "as before"}} if word == "rejected" else {}


def _number(command: dict[str, Any], name: str, default: int) -> int:
    """Of a step command, wherever it stands."""
    return int(command["data"].get(name) or command.get(name) or default)


_ORDERS = {
    "mission.assign": Robot._assign,
    "mission.pause": Robot._pause,
    "mission.resume": Robot._resume,
    "mission.cancel": Robot._cancel,
    "mission.retry_step": Robot._retry,
    "mission.skip_step": Robot._skip,
    "robot.stop": Robot._stop,
    "robot.release": Robot._release,
    "robot.query_state": Robot._query,
}
