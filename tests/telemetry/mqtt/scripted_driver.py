"""A driver whose robots say in plain words which effects their messages have: for tests of what carries them out."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import Struct

from telemetry.drivers import contract
from telemetry.drivers.contract import Begins, Complaint, Delivered, Link, Offers, Say, Send, Tell, Timing, derived


class Profile(Struct, frozen=True, kw_only=True):
    max_payload_bytes: int = 10_000


class Talk:
    """`[["begin"], ["say", key, type, data], ["tell", {…}], ["link", "alive"], ["boom"], …]`."""

    def __init__(self, robot: contract.Spec) -> None:
        self.robot, self.calls = robot, []
        self.takes_commands = True

    def begun(self, session, applied, now):
        self.calls.append(("begun", session))
        return [Link(hint="alive")]

    def refused(self, now):
        return [Send(topic=f"scripted/{self.robot.address}/order", payload=b"refused", qos=0)]

    def hear(self, message, wanted):
        self.calls.append(("hear", message.part, message.payload))
        self.wanted = wanted
        if message.too_long:
            return [Link(hint="alive"), Complaint(field="message", reason="it is empty")]
        return [self._effect(message, *words) for words in json.loads(message.payload)]

    def _effect(self, message, what: str, *rest: Any):
        robot = self.robot.id
        match what:
            case "begin":
                return Begins(token=rest[0] if rest else None)
            case "say":
                key, type, data, *when = rest
                at = datetime.fromisoformat(when[0]) if when else message.at - timedelta(milliseconds=1)
                return Say(id=derived(robot, key), type=type, occurred_at=at, data=data)
            case "tell":
                return Tell(facts=rest[0])
            case "link":
                return Link(hint=rest[0])
            case "offers":
                return Offers(capabilities=frozenset(rest[0]))
            case "complain":
                return Complaint(field="state", reason="it is odd")
            case "send":
                return Send(topic=f"scripted/{self.robot.address}/order", payload=b"hi", qos=0)
            case "unwritable":
                return Say(id=derived(robot, "x"), type="robot.state", occurred_at=message.at, data={"mode": object()})
            case "garbage":
                return "garbage"
        raise RuntimeError(what)

    def stored(self, word, verdict, now):
        self.calls.append(("stored", word.type, verdict))
        return []

    def command(self, command, wanted, now):
        self.calls.append(("command", command.type))
        order = Send(topic=f"scripted/{self.robot.address}/order", payload=command.type.encode(), qos=0)
        return [order, Delivered(command=UUID(str(command.id)))] if self.takes_commands else []

    def step(self, wanted, now):
        return []


class Driver:
    contract = contract.VERSION
    name, label, transport, address = "scripted", "Scripted", "mqtt", "name"
    profile, timing, strict_sequence = Profile, Timing(suspect_after_s=35, offline_after_s=65), False
    newest = frozenset({"state"})

    def topics(self, robot):
        return [(f"scripted/{robot.address}/state", 0), (f"scripted/{robot.address}/events", 1)]

    def commands(self, robot):
        return [f"scripted/{robot.address}/order"]

    def discovery(self, profile):
        return ["scripted/+/state"]

    def whose(self, topic):
        match topic.split("/"):
            case ["scripted", address, "state" | "events" as part]:
                return address, part
        return None

    def converse(self, robot):
        return Talk(robot)


driver = Driver()
