"""Drives Trundle carts (a made-up brand): JSON on `trundle/<serial>/status` and, down, `trundle/<serial>/do`."""

import json
import re
from uuid import UUID

import msgspec

from telemetry.drivers.contract import (
    Begins, Complaint, Conversation, Delivered, Driver, Link, Say, Send, Tell, derived,
)  # fmt: skip

DO = {"mission.assign": "run", "mission.cancel": "drop", "mission.pause": "pause", "mission.resume": "resume"}
DO |= {"robot.stop": "halt", "robot.release": "free", "robot.query_state": "report"}
MODES = {"ready": "idle", "moving": "running", "standing": "paused", "broken": "fault"}
TASK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9]{1,9}")  # <mission>.<dispatch_no>, as we write it
ENDS = {"done": "mission.finished", "dropped": "mission.cancelled", "refused": "mission.rejected"}


class Status(msgspec.Struct):
    """What a cart says every 2 s, and at each change."""

    state: str
    x: float
    y: float
    heading: float
    charge: float
    task: str = ""  # the last that it was given
    done: int = 0  # legs of the task
    over: str = ""  # how the task ended; empty: it is at it
    obeyed: list[tuple[str, UUID, str]] = []  # its last ten instructions: what, id, task


class Talk(Conversation):
    """With one cart. Whatever it keeps, the next status brings again."""

    def __init__(self, robot):
        self.robot, self.session, self.mode, self.said, self.count = robot, 0, "", set(), 0

    def begun(self, session, applied, now):
        self.session, self.mode = session, ""
        return []

    def hear(self, message, wanted):
        spoke = [] if message.retained else [Link(hint="alive"), *([] if self.session else [Begins()])]
        if message.too_long:
            return spoke
        try:
            status = msgspec.json.decode(message.payload, type=Status)
            mode = MODES[status.state]
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError) as error:
            return [Complaint(field="status", reason=repr(error)[:200])]
        if message.retained or not self.session:
            return spoke
        told = Tell(facts={"x": status.x, "y": status.y, "theta": status.heading, "battery": status.charge * 100})
        return [Link(hint="alive"), told, *self.words(status, mode, message.at)]

    def words(self, status, mode, at):
        if (about := whose(status.task)) and status.over != "refused":
            yield from self.say("mission.accepted", at, about)
            for step in range(1, status.done + 1):
                yield from self.say("mission.step_completed", at, about, step=step, attempt=1)
        if about and status.over in ENDS:
            yield from self.say(ENDS[status.over], at, about, {"why": status.over})
        for do, id, task in status.obeyed:
            yield Delivered(command=id)
            if do == "halt" and mode == "paused":
                yield from self.say("robot.stopped", at, None, {"reply_to": str(id)})
            if do == "drop" and task != status.task:
                yield from self.say("mission.cancelled", at, whose(task), {"why": "it never came"})
            if do == "report":
                yield from self.say("robot.state", at, None, {"mode": mode, "reply_to": str(id)})
        if mode != self.mode:
            if about and not status.over and "paused" in (mode, self.mode):
                yield from self.say("mission.paused" if mode == "paused" else "mission.resumed", at, about, again=True)
            yield from self.say("robot.state", at, None, {"mode": mode}, again=True)
            self.mode = mode

    def say(self, type, at, about, data=None, again=False, **step):
        """Once. `again`: it may be true again later, and counts anew each time."""
        self.count += again
        id = derived(self.robot.id, type, about, data, step, (self.session, self.count) if again else "")
        if id not in self.said:
            self.said.add(id)
            mission, no = about or (None, None)
            yield Say(id=id, type=type, occurred_at=at, data=data or {}, mission=mission, dispatch_no=no, **step)

    def command(self, command, wanted, now):
        if not self.session or command.type not in DO:
            return []
        task = f"{command.mission}.{command.dispatch_no}" if command.mission else ""
        order = {"do": DO[command.type], "id": str(command.id), "task": task, "legs": command.data.get("steps", [])}
        return [Send(topic=f"trundle/{self.robot.address}/do", payload=json.dumps(order).encode())]


def whose(task):  # (mission, dispatch_no), if it is one of ours
    return (UUID(task[:36]), int(task[37:])) if TASK.fullmatch(task) else None


class Trundle(Driver):
    contract, name, label, address = 1, "trundle", "Trundle carts", "serial number"
    newest = frozenset({"status"})

    def topics(self, robot):
        return [(f"trundle/{robot.address}/status", 0)]

    def commands(self, robot):
        return [f"trundle/{robot.address}/do"]

    def whose(self, topic):
        brand, _, rest = topic.partition("/")
        return tuple(rest.split("/")) if brand == "trundle" and rest.endswith("/status") else None

    def converse(self, robot):
        return Talk(robot)


driver = Trundle()
