"""Nothing waits for a robot that is out of the fleet: it is not retired while something does, nor given anything later."""

import pytest

from fleet.history import by_user
from fleet.refusals import Refused
from fleet.robots import actions
from missions import actions as missions
from missions import drawing_up, facts
from missions.models import Mission
from tests.actors import STEPS, SYSTEM, tell


def test_a_robot_that_missions_wait_for_is_not_retired(robot, mission, supervisor):
    """They would wait for ever."""
    missions.queue_mission(mission.pk, by=by_user(supervisor))
    tell(mission, facts.Delivered(), facts.Accepted(1))
    second = drawing_up.draft_mission(title="Second", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    missions.queue_mission(second, by=SYSTEM)
    missions.cancel_mission(mission.pk, by=SYSTEM)
    tell(mission, facts.Cancelled(1))
    with pytest.raises(Refused, match="“Second” waits for RB-001. Give another robot, or cancel"):
        actions.retire_robot("RB-001", by=SYSTEM)
    missions.withdraw_mission(second, by=SYSTEM)
    actions.retire_robot("RB-001", by=SYSTEM)
    with pytest.raises(Refused, match="Ella is retired. Edit it and choose another robot, or none."):
        missions.queue_mission(second, by=SYSTEM)


def test_nothing_is_drawn_up_for_a_retired_robot(robot, other_robot, mission):
    missions.cancel_mission(mission.pk, by=SYSTEM)
    actions.retire_robot("RB-001", by=SYSTEM)
    with pytest.raises(Refused, match="robot: Ella is retired. Choose another one, or none."):
        drawing_up.draft_mission(title="New", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    with pytest.raises(Refused, match="Ella is retired. Clone it instead"):
        drawing_up.rerun_mission(mission.pk, by=SYSTEM)
    assert Mission.objects.get(pk=drawing_up.clone_mission(mission.pk, by=SYSTEM)).robot is None
