"""A Trundle cart in simulated time, for the conformance kit: what it does on the wire, and what it truly did."""

import json
from datetime import timedelta

from telemetry.drivers.kit import Deed, Said

LEG_S, EVERY_S = 4.0, 2.0


class Cart:
    def __init__(self, robot, now):
        self.serial, self.now, self.deeds, self.battery = robot.address, now, [], 0.8
        self.task, self.legs, self.done, self.over, self.left_s = "", 0, 0, "", 0.0
        self.obeyed, self.never = [], set()
        self.restart(now)

    def restart(self, now):
        """It forgets its task, and comes up standing wherever it is."""
        self.halted = self.paused = False
        if self.works:
            self.task = ""
            self.deeds.append(Deed("lost"))
        self.say_at, self.told = now, None

    @property
    def works(self):
        return bool(self.task) and not self.over

    @property
    def stands(self):
        return not self.works or self.halted or self.paused

    @property
    def mode(self):
        if self.halted or (self.works and self.paused):
            return "paused"
        return "running" if self.works else "idle"

    def take(self, sent, now):
        order = json.loads(sent.payload)
        was, working = self.stands, self.works
        getattr(self, f"_{order['do']}")(order["task"], order["legs"])
        self.obeyed = [o for o in self.obeyed if o[1] != order["id"]][-9:] + [[order["do"], order["id"], order["task"]]]
        if working and self.works and was != self.stands:
            self.deeds.append(Deed("resumed" if was else "paused"))

    def _run(self, task, legs):
        if task != self.task and not self.works and task not in self.never:
            self.task, self.legs, self.done, self.over, self.left_s = task, len(legs), 0, "", LEG_S
            self.paused = False
            self.deeds.append(Deed("accepted"))

    def _drop(self, task, legs):
        self.never.add(task)
        if task == self.task and self.works:
            self.over = "dropped"
            self.deeds.append(Deed("cancelled"))

    def _pause(self, task, legs):
        self.paused = True

    def _resume(self, task, legs):
        self.paused = False

    def _halt(self, task, legs):
        self.halted = True

    def _free(self, task, legs):
        self.halted = False

    def _report(self, task, legs):
        self.say_at = self.now

    def step(self, now):
        passed, self.now = (now - self.now).total_seconds(), now
        if not self.stands:
            self.left_s -= passed
            if self.left_s <= 0:
                self.done, self.left_s = self.done + 1, LEG_S
                self.deeds.append(Deed("completed", self.done))
                self.over = "done" if self.done == self.legs else ""
        status = {"state": STATES[self.mode], "x": float(self.done), "y": 0.0, "heading": 0.0, "charge": self.battery}
        status |= {"task": self.task, "done": self.done, "over": self.over, "obeyed": self.obeyed}
        if now >= self.say_at or status != self.told:
            self.say_at, self.told = now + timedelta(seconds=EVERY_S), status
            yield Said(topic=f"trundle/{self.serial}/status", payload=json.dumps(status).encode(), retain=True)


STATES = {"idle": "ready", "running": "moving", "paused": "standing", "fault": "broken"}
