"""A small VDA 5050 robot of our own, with the bad habits of real ones as switches. It has no clock: time comes in.

What it truly did stands in `did`, so that a test can hold every word about it against that.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

HABITS = (
    "keeps_nodes",  # nodeStates never becomes empty: it keeps the node that it stands on
    "keeps_all_nodes",  # … or all of them
    "ignores_released",  # drives on where it was not released to
    "never_pauses",  # startPause has no effect and is never confirmed
    "cancel_waits",  # a cancelOrder that comes while it is idle waits, and kills the next order
    "rejects_in_silence",  # says nothing when it does not take an order
    "no_references",  # its errors do not say what they are about
    "fails_in_errors",  # instant actions that fail stand in errors only
    "drops_instant_states",  # instant actions are told of in one state only
    "no_state_request",  # does not know stateRequest
    "no_position",
    "strict",  # refuses what a careful robot refuses: an order while it charges, a start that is too far away
)


class Robot:
    """`step(now)` brings it up to this time; `out` is what it sent."""

    def __init__(self, now: datetime, *habits: str, drive_s: float = 3.0, action_s: float = 2.0, every_s: float = 30.0):
        assert set(habits) <= set(HABITS)
        self.habits = frozenset(habits)
        self.drive_s, self.action_s, self.every_s = drive_s, action_s, every_s
        self.now = self._told_at = now
        self.out: list[tuple[str, dict[str, Any]]] = []
        self.did: list[tuple[Any, ...]] = []
        self.fail: set[str] = set()  # types of actions that fail
        self.refuse = ""  # why it takes no order
        self.mode, self.charge, self.charging = "AUTOMATIC", 50.0, False
        self.unplugs = "stopCharging"  # the action that ends it
        self.charge_per_s = 5.0
        self.frozen_until: datetime | None = None
        self.loses_while_frozen = False
        self._inbox: list[tuple[str, dict[str, Any]]] = []
        self.x = self.y = 0.0
        self._headers = 0
        self.reboot()

    def reboot(self) -> None:
        """As after a kill: it knows of no order."""
        self.order_id, self.update_id = "", 0
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.at = -1  # index of the node where it is
        self.last = ("", 0)
        self.actions: dict[str, dict[str, Any]] = {}
        self.instant: dict[str, dict[str, Any]] = {}
        self.errors: list[dict[str, Any]] = []
        self.paused = False
        self.driving_until: datetime | None = None
        self.acting: tuple[str, datetime] | None = None
        self.over = True
        self.kills_next = False
        self._inbox = []

    # --- what it hears

    def hear(self, part: str, message: dict[str, Any]) -> None:
        if self.frozen_until is not None:
            if not self.loses_while_frozen:
                self._inbox.append((part, message))
            return
        if part == "order":
            self._take(message)
        else:
            for action in message.get("actions") or message["instantActions"]:
                self._instantly(action)

    def freeze(self, seconds: float, *, loses: bool = False) -> None:
        self.frozen_until, self.loses_while_frozen = self.now + timedelta(seconds=seconds), loses

    def step(self, now: datetime) -> None:
        while True:
            at = min((t for t in self.due() if t <= now), default=None)
            if at is None:
                break
            self._charge_until(at)
            self.now = max(self.now, at)
            self._happen()
        self._charge_until(now)
        self.now = now

    def _charge_until(self, now: datetime) -> None:
        if self.charging:
            self.charge = min(100.0, self.charge + self.charge_per_s * (now - self.now).total_seconds())

    def due(self) -> Iterator[datetime]:
        """When something happens by itself."""
        if self.frozen_until is not None:
            yield self.frozen_until
            return
        yield self._told_at + timedelta(seconds=2.0 if self.charging else self.every_s)
        if not self.paused:
            if self.driving_until is not None:
                yield self.driving_until
            if self.acting is not None:
                yield self.acting[1]

    def _happen(self) -> None:
        if self.frozen_until is not None:
            self.frozen_until = None
            waiting, self._inbox = self._inbox, []
            for part, message in waiting:
                self.hear(part, message)
            return
        if not self.paused and self.driving_until is not None and self.now >= self.driving_until:
            self._arrive()
        elif not self.paused and self.acting is not None and self.now >= self.acting[1]:
            self._finish_action()
        self.tell()

    # --- orders

    def _take(self, order: dict[str, Any]) -> None:
        if order["orderId"] == self.order_id and order["orderUpdateId"] <= self.update_id:
            if order["orderUpdateId"] < self.update_id:
                self._reject("orderUpdateError", order)
            return
        if why := self._refusal(order):
            self._reject(why, order)
            return
        if order["orderId"] == self.order_id:
            self._extend(order)
        else:
            self.did.append(("accepted", order["orderId"]))
            self.order_id = order["orderId"]
            self.nodes, self.edges, self.at = order["nodes"], order["edges"], -1
            self.actions, self.instant, self.over = {}, {}, False
            self._plan(self.nodes)
        self.update_id, self.errors = order["orderUpdateId"], []
        self.tell()
        if self.kills_next:
            self.kills_next = False
            self._end_order()
        else:
            self._go_on()

    def _refusal(self, order: dict[str, Any]) -> str:
        if self.refuse:
            return self.refuse
        if self.mode != "AUTOMATIC" or (self.charging and "strict" in self.habits):
            return "orderError"
        if order["orderId"] == self.order_id:
            first, last = order["nodes"][0], [n for n in self.nodes if n["released"]][-1]
            same = (first["nodeId"], first["sequenceId"]) == (last["nodeId"], last["sequenceId"])
            return "" if same and not self.over else "orderUpdateError"
        if not self.over:
            return "orderError"
        at = order["nodes"][0].get("nodePosition")
        away = abs(at["x"] - self.x) + abs(at["y"] - self.y) if at else 0.0
        if "strict" in self.habits and at and away > at.get("allowedDeviationXY", 0.0):
            return "orderError"
        return ""

    def _reject(self, kind: str, order: dict[str, Any]) -> None:
        if "rejects_in_silence" in self.habits:
            return
        about = {"orderId": order["orderId"], "orderUpdateId": str(order["orderUpdateId"])}
        self._error(kind, about)
        self.tell()

    def _error(self, kind: str, about: dict[str, str], level: str = "WARNING") -> None:
        references = [{"referenceKey": k, "referenceValue": v} for k, v in about.items()]
        known = {} if "no_references" in self.habits else {"errorReferences": references}
        self.errors.append({"errorType": kind, "errorLevel": level, "errorDescription": "not possible", **known})

    def _extend(self, order: dict[str, Any]) -> None:
        begin = order["nodes"][0]["sequenceId"]
        dropped = {a["actionId"] for n in self.nodes if n["sequenceId"] > begin for a in n["actions"]}
        self.actions = {k: v for k, v in self.actions.items() if k not in dropped or v["actionStatus"] != "WAITING"}
        self.nodes = [n for n in self.nodes if n["sequenceId"] < begin] + order["nodes"]
        self.edges = [e for e in self.edges if e["sequenceId"] < begin] + order["edges"]
        self._plan(order["nodes"][1:])

    def _plan(self, nodes: list[dict[str, Any]]) -> None:
        for node in nodes:
            for action in node["actions"]:
                state = {"actionId": action["actionId"], "actionType": action["actionType"], "actionStatus": "WAITING"}
                self.actions.setdefault(action["actionId"], state)

    def _go_on(self) -> None:
        """Begin what comes next: the start, an action of the node where it is, the way to the next, or the end."""
        if self.over or self.driving_until is not None or self.acting is not None:
            return
        if self.at < 0:
            self._be_at(0)
        for action in self.nodes[self.at]["actions"]:
            state = self.actions[action["actionId"]]
            if state["actionStatus"] == "WAITING":
                state["actionStatus"] = "RUNNING"
                seconds = next((p["value"] for p in action.get("actionParameters", ()) if p["key"] == "duration"), None)
                self.acting = action["actionId"], self.now + timedelta(seconds=seconds or self.action_s)
                self.tell()
                return
        if self.at + 1 < len(self.nodes):
            if self.nodes[self.at + 1]["released"] or "ignores_released" in self.habits:
                self.driving_until = self.now + timedelta(seconds=self.drive_s)
                self.tell()
        else:
            self.over = True
            self.did.append(("finished", self.order_id))
            self.tell()

    def _arrive(self) -> None:
        self.driving_until = None
        self._be_at(self.at + 1)
        self.tell()
        self._go_on()

    def _be_at(self, index: int) -> None:
        node = self.nodes[index]
        self.at, self.last = index, (node["nodeId"], node["sequenceId"])
        if at := node.get("nodePosition"):
            self.x, self.y = at["x"], at["y"]
        self.did.append(("reached", self.order_id, node["sequenceId"], node["nodeId"]))

    def _finish_action(self) -> None:
        assert self.acting is not None
        name, self.acting = self.acting[0], None
        state = self.actions[name]
        failed = state["actionType"] in self.fail
        state["actionStatus"] = "FAILED" if failed else "FINISHED"
        self.did.append(("failed" if failed else "done", name))
        if state["actionType"] == "startCharging" and not failed:
            self.charging = True
        self.tell()
        self._go_on()

    def _end_order(self) -> None:
        """Cancelled."""
        if self.acting is not None:
            self.did.append(("failed", self.acting[0]))
        self.driving_until = self.acting = None
        if not self.over:
            self.did.append(("cancelled", self.order_id))
        for state in self.actions.values():
            if state["actionStatus"] not in ("FINISHED", "FAILED"):
                state["actionStatus"] = "FAILED"
        self.nodes, self.edges, self.at, self.over = (
            self.nodes[: self.at + 1],
            self.edges[: max(self.at, 0)],
            self.at,
            True,
        )
        self.tell()

    def go_manual(self) -> None:
        self.mode = "MANUAL"
        self._end_order()

    # --- instant actions

    def _instantly(self, action: dict[str, Any]) -> None:
        name, kind = action["actionId"], action["actionType"]
        if name in self.instant and self.instant[name]["actionStatus"] in ("FINISHED", "FAILED"):
            return
        state = self.instant[name] = {"actionId": name, "actionType": kind, "actionStatus": "WAITING"}
        do = {
            "cancelOrder": self._cancel, "startPause": self._pause, "stopPause": self._unpause,
            self.unplugs: self._unplug, "stateRequest": self._report, "factsheetRequest": lambda: "FAILED",
        }.get(kind, lambda: "FAILED")  # fmt: skip
        state["actionStatus"] = do()
        if state["actionStatus"] == "FAILED":
            kind = "noOrderToCancel" if kind == "cancelOrder" else "instantActionError"
            self._error(kind, {"actionId": name})
            if "fails_in_errors" in self.habits:
                del self.instant[name]
        self.tell()
        if "drops_instant_states" in self.habits:
            self.instant.pop(name, None)

    def _cancel(self) -> str:
        if self.over:
            if "cancel_waits" in self.habits:
                self.kills_next = True
                return "WAITING"
            return "FAILED"
        self._end_order()
        return "FINISHED"

    def _pause(self) -> str:
        if "never_pauses" in self.habits:
            return "WAITING"
        if not self.paused:
            self.paused, self._paused_at = True, self.now
            self.did.append(("paused", ""))
        return "FINISHED"

    def _unpause(self) -> str:
        if "never_pauses" in self.habits:
            return "WAITING"
        if self.paused:
            self.paused = False
            self.did.append(("resumed", ""))
            more = self.now - self._paused_at
            if self.driving_until is not None:
                self.driving_until += more
            if self.acting is not None:
                self.acting = self.acting[0], self.acting[1] + more
        return "FINISHED"

    def _unplug(self) -> str:
        self.charging = False
        return "FINISHED"

    def _report(self) -> str:
        return "FAILED" if "no_state_request" in self.habits else "FINISHED"

    # --- what it says

    def tell(self) -> None:
        self._told_at = self.now
        self.out.append(("state", self.state()))

    def state(self) -> dict[str, Any]:
        self._headers += 1
        begin = self.at + 1
        if self.over:
            begin = len(self.nodes)
        if "keeps_all_nodes" in self.habits:
            begin = 0
        elif "keeps_nodes" in self.habits and self.nodes:
            begin = max(0, self.at)
        nodes = self.nodes[begin:]
        edges = [] if self.over else self.edges[max(0, self.at) :]
        position = {} if "no_position" in self.habits else {
            "agvPosition": {"x": self.x, "y": self.y, "theta": 0.0, "mapId": "map", "positionInitialized": True}
        }  # fmt: skip
        return {
            "headerId": self._headers, "timestamp": self.now.isoformat().replace("+00:00", "Z"), "version": "2.0.0",
            "manufacturer": "double", "serialNumber": "1", "orderId": self.order_id, "orderUpdateId": self.update_id,
            "lastNodeId": self.last[0], "lastNodeSequenceId": self.last[1],
            "nodeStates": [{k: n[k] for k in ("nodeId", "sequenceId", "released")} for n in nodes],
            "edgeStates": [{k: e[k] for k in ("edgeId", "sequenceId", "released")} for e in edges],
            "actionStates": [dict(s) for s in (*self.actions.values(), *self.instant.values())],
            "driving": self.driving_until is not None and not self.paused, "paused": self.paused,
            "operatingMode": self.mode, "errors": json.loads(json.dumps(self.errors)), "information": [],
            "batteryState": {"batteryCharge": self.charge, "charging": self.charging},
            "safetyState": {"eStop": "NONE", "fieldViolation": False}, **position,
        }  # fmt: skip

    @property
    def resting(self) -> bool:
        """It does nothing, and will not by itself."""
        return self.over and self.driving_until is None and self.acting is None
