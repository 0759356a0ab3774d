"""I2–I6 under fire: hundreds of seeded schedules, each ends as the oracle allows, and nothing is lost or doubled.

`pytest 'tests/chaos/schedules/test_schedules.py::test_schedule[17]'` plays schedule 17 alone, the same as ever.
"""

import json
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from fleet.models import Event
from fleet.robots import stopping
from missions import actions, invariants
from missions.models import DeadLetter, Mission
from telemetry.models import ProcessedMessage
from tests.actors import SYSTEM
from tests.chaos.schedules.robot import Lot
from tests.chaos.schedules.world import ACTIVE_S, YEARS_S, World
from tests.model.oracle import Asked, End, Life, Said, Step, StepEnd, complaints

SCHEDULES = 300


@pytest.fixture
def play(new_world, site, brand):
    """play(seed) → the world at its end."""

    def played(seed: int) -> World:
        world = new_world(seed)
        prepare(world, site, brand)
        world.run()
        return world

    return played


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_schedule(play, seed, request):
    world = play(seed)
    wrong = judged(world)
    if wrong:
        again = f"python -m pytest '{request.node.nodeid}'"
        pytest.fail("\n".join([f"seed {seed}; again: {again}", *world.trace, "", *wrong]), pytrace=False)


# --- what a schedule is made of


def prepare(world: World, site: Any, brand: Any) -> None:
    rng = world.rng
    for n in range(rng.choice((1, 1, 2))):
        id = f"R-{n}"
        world.add_robot(id, site, brand, lot_of(rng))
        for turn in range(rng.choice((1, 1, 2))):
            steps = [step_of(rng) for _ in range(rng.randint(1, 4))]
            pk = world.draft(id, site, steps, rng.choice((30, 60, 120)))
            at = rng.uniform(0.1, 3.0) + turn * 10
            world.after(at, lambda pk=pk, id=id: world.ask(id, "run", lambda: actions.queue_mission(pk, by=SYSTEM)))
        for what in rng.sample(sorted(MISHAPS), k=rng.choice((0, 1, 1, 2))):
            at = rng.uniform(2, ACTIVE_S - 15)
            world.after(at, lambda what=what, id=id: MISHAPS[what](world, id))
    if rng.random() < 0.25:
        world.after(rng.uniform(1, ACTIVE_S), lambda: jump(world, rng.choice((-7200, -30, -3, 3, 30, 7200))))


def lot_of(rng: Any) -> Lot:
    outcomes = {}
    if rng.random() < 0.4:
        step = rng.randint(1, 4)
        outcomes |= {(step, attempt): rng.choice(("fail", "stuck")) for attempt in range(1, rng.randint(2, 4))}
    return Lot(
        skew_s=rng.choice((0, 0, 3600, -3600, YEARS_S, -YEARS_S)), rejects=rng.random() < 0.05,
        deaf=rng.random() < 0.1, outcomes=outcomes, paces=rng.choice(((0.2, 1), (1, 4), (5, 11))),
        starts_aloud=rng.random() < 0.3,
    )  # fmt: skip


def step_of(rng: Any) -> dict[str, Any]:
    kind = rng.choice(("navigate", "navigate", "pick", "drop"))
    policy = {
        "timeout_retries": rng.choice((0, 0, 1)) if kind == "navigate" else 0, "failure_retries": rng.choice((0, 0, 1, 2)),
        "timeout_then": rng.choice(("abort", "abort", "skip")), "failure_then": rng.choice(("abort", "abort", "skip")),
    }  # fmt: skip
    params = {"place": rng.choice(("Dock A", "Shelf 3"))}
    return {"command": kind, "params": params, "timeout_s": rng.choice((8, 12, 20)), **policy}


def jump(world: World, seconds: float) -> None:
    world.jumped_s += seconds
    world.note(f"the server's clock jumps by {seconds} s")


def cancel(world: World, id: str) -> None:
    if mission := world.running(id):
        world.ask(id, "cancel", lambda: actions.cancel_mission(mission.pk, by=SYSTEM))


def pause(world: World, id: str) -> None:
    if mission := world.running(id):
        world.ask(id, "pause", lambda: actions.pause_mission(mission.pk, by=SYSTEM))
        if world.rng.random() < 0.8:
            world.after(world.rng.uniform(2, 25), lambda: resume(world, id))


def resume(world: World, id: str) -> None:
    if mission := world.running(id):
        world.ask(id, "resume", lambda: actions.resume_mission(mission.pk, by=SYSTEM))


def stop(world: World, id: str) -> None:
    world.ask(id, "stop", lambda: stopping.stop_robot(id, by=SYSTEM))
    world.after(world.rng.uniform(3, 20), lambda: release(world, id))


def release(world: World, id: str) -> None:
    world.ask(id, "release", lambda: stopping.release_robot(id, by=SYSTEM))
    world.after(3, lambda: resume(world, id))


def reboot(world: World, id: str) -> None:
    world.note(f"{id} reboots")
    world.robots[id].reboot()
    world.disconnect(world.robots[id], world.rng.uniform(1, 5))


def endanger(world: World, id: str) -> None:
    world.robots[id].endanger()


def silence(world: World, id: str) -> None:
    world.disconnect(world.robots[id], world.rng.choice((3, 10, 25, 110, None)))


MISHAPS = {
    "cancel": cancel, "pause": pause, "stop": stop, "reboot": reboot, "danger": endanger, "silence": silence,
    "cancel twice": lambda world, id: (cancel(world, id), cancel(world, id)),
}  # fmt: skip


# --- what is asked of its end


def judged(world: World) -> list[str]:
    """Every complaint about the end of this schedule."""
    stored = {(robot, msg_id) for robot, mine in world.stored.items() for msg_id in mine}
    known = {(robot, str(msg)) for robot, msg in ProcessedMessage.objects.values_list("robot_id", "msg_id")}
    wrong = [f"acknowledged and missing: {row}" for row in sorted(world.acked - known)]
    wrong += [f"stored and missing: {row}" for row in sorted(stored - known)]
    wrong += [f"a dead letter: {letter.kind} {letter.reason}" for letter in DeadLetter.objects.filter(direction="in")]
    wrong += invariants.check()
    wrong += doubled()
    for mission in Mission.objects.filter(dispatched_at__isnull=False).select_related("robot__brand"):
        found = complaints(life_of(world, mission), end_of(world, mission))
        wrong += [f"{mission.robot_id} {mission.title}: {text}" for text in found]
    return wrong


def doubled() -> list[str]:
    """A message has one effect: by one message no aggregate has the same event twice."""
    events = Event.objects.filter(cause__startswith="message:").values_list("aggregate", "cause", "kind", "data")
    effects = Counter((a, cause, kind, str(json.loads(data).get("step"))) for a, cause, kind, data in events)
    started = "mission.step_started"  # one word may complete several steps that were said before their turn
    return [f"twice by one message: {row}" for row, times in effects.items() if times > 1 and row[2] != started]


def life_of(world: World, mission: Mission) -> Life:
    id = mission.robot_id
    ends = [world.true(at) for at in (mission.ended_at, mission.stop_requested_at) if at and mission.ended_at]
    until = max(ends, default=world.tick)
    said = [word for msg_id, at in world.stored[id].items() if (word := heard(mission, world.raw.get(msg_id), at))]
    danger = [Asked(s.at, "danger") for s in said if s.what == "fault" and s.at <= until]
    return Life(
        steps=[planned(step) for step in mission.steps.order_by("number")],
        mission_s=mission.timeout_s, dispatched_at=world.true(mission.dispatched_at), until=until,
        dispatch_no=mission.dispatch_no, said=[s for s in said if s.at <= until],
        late=[s for s in said if s.at > until], asked=world.asked[id] + danger,
        silences=[(a, b) for a, b in world.silences[id]], abandon_s=mission.robot.brand.abandon_after_s,
        waits_for_robot=mission.timings["offline_policy"] == "wait",
        strict_sequence=mission.timings["strict_sequence"],
    )  # fmt: skip


def planned(step: Any) -> Step:
    return Step(**{field.name: getattr(step, field.name) for field in fields(Step)})


def heard(mission: Mission, message: dict[str, Any] | None, at: float) -> Said | None:
    """What a message says about this mission, if anything."""
    if message is None or message.get("mission", str(mission.pk)) != str(mission.pk):
        return None
    data = message["data"]
    named = (data.get("mission"), data.get("dispatch_no")) == (str(mission.pk), mission.dispatch_no)
    return Said(
        at, message["type"].partition(".")[2].removeprefix("step_"), message.get("dispatch_no"), message.get("step", 0),
        message.get("attempt", 0), data.get("mode", ""), named, data.get("ended", ""), bool(data.get("reply_to")),
        message["session"], message["seq"], tuple(data.get("completed") or ()),
    )  # fmt: skip


def end_of(world: World, mission: Mission) -> End:
    events = Event.objects.filter(aggregate=f"mission:{mission.pk}").order_by("seq")
    edges = [(a, b) for a, b in events.values_list("state_from", "state_to") if a and a != b]
    return End(
        mission.state, mission.abort_reason, mission.stop_confirmed,
        world.true(mission.stop_requested_at) if mission.stop_requested_at else None,
        world.true(mission.ended_at) if mission.ended_at else None,
        [StepEnd(step.outcome, step.attempt, step.inferred) for step in mission.steps.order_by("number")],
        edges, mission.next_due_at is not None,
    )  # fmt: skip
