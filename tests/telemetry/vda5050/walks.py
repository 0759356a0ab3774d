"""Schedules at random: what people do, what the network loses, what the robot is like, by a seed; and what must hold.

After a minute of trouble all is well again: people release and resume, messages arrive, the robot works. Then the mission
has to come to its end by itself.
"""

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from missions.models import FINAL
from telemetry.drivers.vda5050.profile import Profile
from tests.missions.machine import START
from tests.telemetry.vda5050.robot_double import HABITS, Robot
from tests.telemetry.vda5050.stage import Stage, charge, custom, drive, drop, pick, wait

TROUBLE_S = 60
MOST_IN_10_S = 40  # messages to the robot


def walk(seed: int) -> Stage:
    """One schedule, from its beginning to its end. Raises AssertionError where something does not hold."""
    dice = random.Random(seed)
    stage = _stage(dice)
    troubles = _troubles(stage, dice)
    stage.net.up = lambda message: _arrivals(dice)
    stage.net.down = lambda part, message: _arrivals(dice)
    stage.run(dice.uniform(0, 3))
    stage.dispatch()
    while stage.now < START + timedelta(seconds=TROUBLE_S):
        stage.run(dice.choice((0.5, 1, 2, 5, 10)))
        dice.choice(troubles)()
    _all_is_well(stage)
    stage.run_until(lambda s: s.site.row.state in FINAL, 1800)
    stage.run(60)
    _judge(stage)
    return stage


def _stage(dice: random.Random) -> Stage:
    steps: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 5)):
        policy = {"failure_retries": dice.choice((0, 1, 2)), "failure_then": dice.choice(("abort", "skip"))}
        place = dice.choice("ABCD")
        make: Callable[..., dict[str, Any]] = dice.choice(
            (drive, drive, pick, drop, lambda p, **o: wait(dice.randint(1, 8), **o),
             lambda p, **o: charge(60, p, **o), lambda p, **o: custom("honk", **o))
        )  # fmt: skip
        again = {"timeout_retries": 1} if make is drive else {}
        steps.append(make(place, **policy, **again))
    habits = tuple(h for h in HABITS if h != "no_position" and dice.random() < 0.2)
    profile = Profile(
        base_steps=dice.choice((1, 2, 9)), wait=dice.choice(("", "wait")), idle_cancel=dice.random() < 0.5,
        pause_supported=dice.random() < 0.8, unique_node_ids=dice.random() < 0.8,
    )  # fmt: skip
    robot = Robot(START, *habits, drive_s=dice.choice((1, 3, 10)), action_s=dice.choice((1, 4)))
    return Stage(*steps, profile=profile, robot=robot, lag_s=dice.choice((0, 0.5, 1)), brand={"stop_s": 15})


def _arrivals(dice: random.Random) -> list[float]:
    """Lost, late (so that others overtake it), twice, or as it should be."""
    luck = dice.random()
    if luck < 0.08:
        return []
    if luck < 0.16:
        return [dice.uniform(0.1, 3.0)]
    if luck < 0.22:
        return [0.02, dice.uniform(0.02, 2.0)]
    return [0.02]


def _troubles(stage: Stage, dice: random.Random) -> list[Callable[[], Any]]:
    robot = stage.robot
    quiet: list[Callable[[], Any]] = [lambda: None] * 4
    return [
        *quiet,
        stage.restart_driver,
        stage.restart_driver,
        stage.pause,
        stage.resume,
        stage.stop,
        lambda: stage.release() if stage.stopped else None,
        lambda: stage.resume() if not stage.stopped else None,
        lambda: stage.cancel() if dice.random() < 0.3 else None,
        lambda: robot.freeze(dice.choice((5, 26)), loses=dice.random() < 0.5),
        lambda: robot.fail.update(dice.sample(("pick", "drop", "honk", "wait"), 1)),
        robot.fail.clear,
        lambda: (robot.reboot(), robot.tell()) if dice.random() < 0.1 else None,
        stage.ask,
        lambda: robot.go_manual() if dice.random() < 0.3 else None,
        lambda: _by_hand_no_more(robot),
        lambda: setattr(robot, "refuse", dice.choice(("", "", "orderError"))),
        lambda: setattr(robot, "charging", dice.random() < 0.5) if robot.resting else None,
        lambda: _another_master(robot) if dice.random() < 0.3 else None,
    ]


def _by_hand_no_more(robot: Robot) -> None:
    if robot.mode == "MANUAL":
        robot.mode = "AUTOMATIC"
        robot.tell()


def _another_master(robot: Robot) -> None:
    nodes = [{"nodeId": n, "sequenceId": s, "released": True, "actions": []} for n, s in (("q", 0), ("r", 2))]
    edge = {"edgeId": "e", "sequenceId": 1, "released": True, "startNodeId": "q", "endNodeId": "r", "actions": []}
    robot.hear("order", {"orderId": "theirs", "orderUpdateId": 0, "nodes": nodes, "edges": [edge]})


def _all_is_well(stage: Stage) -> None:
    stage.net.up = lambda message: [0.02]
    stage.net.down = lambda part, message: [0.02]
    stage.robot.fail.clear()
    stage.robot.refuse = ""
    _by_hand_no_more(stage.robot)
    stage.run(3)
    if stage.stopped:
        stage.release()
        stage.run(3)
    for _ in range(3):
        if stage.site.row.paused_at:
            stage.resume()
        stage.run(20)


def _judge(stage: Stage) -> None:
    robot, steps = stage.robot, stage.site.steps
    assert robot.resting or robot.order_id == "theirs", "the mission is over, and the robot is still at it"
    for number, step in steps.items():
        if step.command in ("pick", "drop", "custom"):
            done = [name for kind, name, *_ in robot.did if kind == "done" and name.endswith(f".{number}")]
            assert len(done) <= 1, f"step {number} was done twice"
            assert step.outcome != "completed" or done, f"step {number} was not done"
    _orders_are_what_they_were(stage)
    times = sorted(at for at, _, _ in stage.sent)
    for first, last in zip(times, times[MOST_IN_10_S:], strict=False):
        assert last - first > timedelta(seconds=10), "a storm of messages"
    ended = Counter(say.type for say in stage.said if say.type in ("mission.finished", "mission.rejected"))
    assert not ended or max(ended.values()) == 1


def _orders_are_what_they_were(stage: Stage) -> None:
    """The same order and update always says the same, but for where a robot that never had it is by now."""
    known: dict[tuple[str, int], Any] = {}
    for order in stage.orders:
        nodes = [{k: v for k, v in n.items() if k != "nodePosition" or n["sequenceId"]} for n in order["nodes"]]
        content = nodes, order["edges"]
        assert known.setdefault((order["orderId"], order["orderUpdateId"]), content) == content, order["orderId"]
