"""Twenty minutes without web, gateway and worker, with robots running: what they finished counts as finished."""

import pytest

from missions import actions, invariants
from missions.models import Mission
from telemetry.worker.loop import GRACE_S
from tests.actors import SYSTEM
from tests.chaos.schedules.robot import Lot

DOWN_S = 1200.0
ROBOTS = 6
STUCK = "R-5"  # it finishes nothing


@pytest.mark.parametrize("down_at", [0.9, 2.0, 6.0, 14.0])
def test_nothing_is_aborted_that_a_robot_has_finished(new_world, site, brand, down_at):
    """Every deadline of every mission has passed long ago when the site comes back: before acceptance, in the middle, at the end."""
    world = new_world(int(down_at * 10))
    world.calm, world.grace_s = True, GRACE_S
    for n in range(ROBOTS):
        id = f"R-{n}"
        stuck = {(2, attempt): "stuck" for attempt in range(1, 4)} if id == STUCK else {}
        world.add_robot(id, site, brand, Lot(paces=(1.0, 6.0), outcomes=stuck))
        steps = [{"command": c, "params": {"place": "Dock A"}, "timeout_s": 20} for c in ("navigate", "pick", "drop")]
        pk = world.draft(id, site, steps, 60)
        world.after(
            0.1 + n / 10, lambda pk=pk, id=id: world.ask(id, "run", lambda: actions.dispatch_mission(pk, by=SYSTEM))
        )

    def down() -> None:
        world.note("everything but the robots goes down")
        world.kill_worker(DOWN_S)
        for n, robot in enumerate(world.robots.values()):
            world.disconnect(robot, DOWN_S + 0.5 + n * (GRACE_S - 1.5) / ROBOTS)

    world.after(down_at, down)
    world.run()

    took = {robot.id for robot in world.robots.values() if robot.ended}
    finished = {id for id in took if "finished" in world.robots[id].ended.values()}
    ends = dict(Mission.objects.values_list("robot", "state"))
    assert {id for id, state in ends.items() if state == "success"} >= finished, "\n".join(world.trace)
    assert len(finished) >= (ROBOTS - 1 if down_at > 1 else 1)
    assert ends[STUCK] == "aborted" or down_at < 1
    assert invariants.check() == []
