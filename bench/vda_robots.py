"""Small VDA 5050 robots in one process: `python -m bench.vda_robots`, told what to do by lines of JSON on stdin.

They take orders, drive them when told to, and send states of about 2 kB with everything that a robot with a mission
says. Replayed, one and the same state goes out again and again from another position.
"""

import asyncio
import heapq
import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

from bench.telling import PATIENCE_S, Watch, all_set, connect, round_of, until
from bench.wires import Mqtt, listen, publication

MAKER = "Bench"
KEPT = 4  # answers to instant actions that it keeps


class Robot:
    """Driving is a matter of time only. `sent` is called with the mission when a state says that a node was reached."""

    def __init__(self, serial: str, watch: "Missions") -> None:
        self.serial, self._watch = serial, watch
        base = f"uagv/v2/{MAKER}/{serial}"
        self.wire = Mqtt(f"bench-{serial}", [f"{base}/order", f"{base}/instantActions"], self._hear)
        self._packet = publication(f"{base}/state")
        self._header = 0
        self.order_id, self.update, self.nodes, self.at = "", 0, list[dict[str, Any]](), 0
        self._answers: list[dict[str, str]] = []
        self._text = ""
        self._changed()

    def take(self, order: dict[str, Any]) -> None:
        if order["orderId"] != self.order_id:
            self.order_id, self.nodes, self.at = order["orderId"], order["nodes"], 0
        elif order["orderUpdateId"] > self.update:
            begin = order["nodes"][0]["sequenceId"]
            self.nodes = [n for n in self.nodes if n["sequenceId"] < begin] + order["nodes"]
        self.update = order["orderUpdateId"]
        self._changed()

    @property
    def is_done(self) -> bool:
        return bool(self.nodes) and self.at + 1 == len(self.nodes)

    def arrive(self) -> bool:
        """At the next node, if it may drive there."""
        if self.is_done or not self.nodes[self.at + 1]["released"]:
            return False
        self.at += 1
        self._changed()
        self._watch.reached(self.order_id.partition(".")[0])
        self.tell()
        return True

    def tell(self) -> None:
        self._header += 1
        self.wire.write(self._packet((self._text % (self._header, self._header % 1000 / 8)).encode()))

    def _hear(self, topic: str, payload: bytes) -> None:
        message = json.loads(payload)
        if topic.endswith("order"):
            self.take(message)
        else:
            for action in message["actions"]:
                known = {"actionId": action["actionId"], "actionType": action["actionType"], "actionStatus": "FINISHED"}
                others = [a for a in self._answers if a["actionId"] != action["actionId"]]
                self._answers = [*others[-KEPT:], known]
            self._changed()
        self.tell()

    def _changed(self) -> None:
        at = self.nodes[self.at] if self.nodes else {"nodeId": "", "sequenceId": 0}
        state = {
            "headerId": "%d", "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "version": "2.0.0", "manufacturer": MAKER, "serialNumber": self.serial, "orderId": self.order_id,
            "orderUpdateId": self.update, "zoneSetId": "", "lastNodeId": at["nodeId"],
            "lastNodeSequenceId": at["sequenceId"], "driving": not self.is_done and bool(self.nodes), "paused": False,
            "newBaseRequest": False, "distanceSinceLastNode": 1.25, "operatingMode": "AUTOMATIC",
            "nodeStates": [_node(node) for node in self.nodes[self.at + 1 :]],
            "edgeStates": [_edge(node) for node in self.nodes[self.at + 1 :]],
            "agvPosition": {
                "x": "%.3f", "y": 2.0, "theta": 1.5708, "mapId": "hall", "positionInitialized": True,
                "localizationScore": 0.97, "deviationRange": 0.05,
            },
            "velocity": {"vx": 1.1, "vy": 0.0, "omega": 0.02},
            "loads": [{"loadId": "pallet-4711", "loadType": "EPAL", "loadPosition": "front", "weight": 312.5}],
            "actionStates": self._answers,
            "batteryState": {"batteryCharge": 80.5, "batteryVoltage": 48.3, "batteryHealth": 97, "charging": False,
                             "reach": 8200},
            "errors": [], "safetyState": {"eStop": "NONE", "fieldViolation": False},
            "information": [{"infoType": "localization", "infoLevel": "DEBUG", "infoDescription": "matched 412 features"}],
        }  # fmt: skip
        self._text = json.dumps(state).replace('"%d"', "%d").replace('"%.3f"', "%.3f")


def _node(node: dict[str, Any]) -> dict[str, Any]:
    where = {k: v for k, v in node.get("nodePosition", {}).items() if k in ("x", "y", "mapId")}
    told = {k: node[k] for k in ("nodeId", "sequenceId", "released")}
    return told | ({"nodePosition": where} if where else {})


def _edge(node: dict[str, Any]) -> dict[str, Any]:
    return {"edgeId": f"e{node['sequenceId'] - 1}", "sequenceId": node["sequenceId"] - 1, "released": node["released"]}


def made_up(serial: str, drives: int) -> dict[str, Any]:
    """An order that nobody gave, as long as Drover's."""
    mission = f"00000000-0000-4000-8000-{hash(serial) % 10**12:012}"
    nodes = [{"nodeId": f"Dock A#{n * 2}", "sequenceId": n * 2, "released": n < 3,
              "nodePosition": {"x": 1.0, "y": 2.0, "mapId": "hall"}} for n in range(drives + 1)]  # fmt: skip
    return {"orderId": f"{mission}.1.1.1", "orderUpdateId": 0, "nodes": nodes}


class Missions:
    """From the state that says that a step is done until the mission's change is committed and announced."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, float] = {}
        self.took_ms: list[float] = []
        self.reached_count = 0

    def reached(self, mission: str) -> None:
        self.reached_count += 1
        self._waiting[mission.encode()] = time.perf_counter()

    def told(self, missions: list[bytes], at: float) -> None:
        for mission in missions:
            if (began := self._waiting.pop(mission, None)) is not None:
                self.took_ms.append((at - began) * 1e3)

    @property
    def open(self) -> int:
        return len(self._waiting)


class Fleet:
    """All of them, as `telling.round_of` wants robots."""

    each = 1

    def __init__(self, port: int, serials: list[str], missions: Missions) -> None:
        self._port, self._missions = port, missions
        self.robots = [Robot(serial, missions) for serial in serials]

    async def begin(self) -> None:
        wires = [robot.wire for robot in self.robots]
        await connect(self._port, wires)
        await all_set(wire.subscribed for wire in wires)

    def tell(self, n: int) -> None:
        self.robots[n].tell()

    def end(self) -> None:
        for robot in self.robots:
            robot.wire.close()

    async def drive(self, leg_s: float, beat_s: float) -> dict[str, Any]:
        """Each reaches a node every `leg_s`, and says where it is every `beat_s`, whatever becomes of it."""
        began, cpu = time.perf_counter(), time.process_time()
        size, due = len(self.robots), list[tuple[float, int, bool]]()
        for n in range(size):
            due += [(began + leg_s * (1 + n / size), n, True), (began + beat_s * n / size, n, False)]
        heapq.heapify(due)
        states = 0
        while not all(robot.is_done for robot in self.robots) or self._missions.open:
            now = time.perf_counter()
            while due and due[0][0] <= now:
                at, n, drives = heapq.heappop(due)
                if drives:
                    moved = self.robots[n].arrive()
                    if not self.robots[n].is_done:
                        heapq.heappush(due, (at + leg_s if moved else now + 0.05, n, True))
                else:
                    self.robots[n].tell()
                    heapq.heappush(due, (at + beat_s, n, False))
                states += 1
            if now - began > 4 * PATIENCE_S:
                raise SystemExit(f"{self._missions.open} reached nodes changed no mission")
            await asyncio.sleep(0.002)
        took = sorted(self._missions.took_ms)
        return {
            "reached": self._missions.reached_count, "seen": len(took), "p50_ms": took[len(took) // 2],
            "p95_ms": took[int(len(took) * 0.95)], "p99_ms": took[int(len(took) * 0.99)],
            "took_s": time.perf_counter() - began, "states_per_s": states / (time.perf_counter() - began), "cpu_s": time.process_time() - cpu,
        }  # fmt: skip


async def _main(config: dict[str, Any]) -> None:
    missions, watch = Missions(), Watch(config["robots"])
    watch.missions = missions.told
    listening = await listen(config["live"], watch.told)
    fleet = Fleet(config["port"], config["robots"], missions)
    if config.get("made_up"):
        for robot in fleet.robots:
            robot.take(made_up(robot.serial, config["made_up"]))
    await fleet.begin()
    print(json.dumps({}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        plan = json.loads(line)
        if "leg_s" in plan:
            said = await fleet.drive(**plan)
        elif "orders" in plan:  # wait for them; a robot that nobody has heard of is given none
            for robot in fleet.robots:
                robot.tell()
            await until(lambda: all(robot.order_id for robot in fleet.robots), "an order for each robot")
            said = {}
        else:
            said = await round_of(fleet, watch, plan)
        said["bytes"] = len(fleet.robots[0]._text)
        print(json.dumps(said), flush=True)
    fleet.end()
    listening.close()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.stdin.readline())))
