"""What waits in the queue is dispatched with as many questions to the database for many missions as for one."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.models import Event
from fleet.robots.actions import enrol_robot
from missions import actions, drawing_up
from missions.queue.dispatching import carry_out, decisions
from tests.actors import STEPS, SYSTEM, online

pytestmark = pytest.mark.django_db


def test_three_cost_as_many_as_one(site, brand, robot):
    for robot_id in ("RB-010", "RB-011", "RB-012"):
        enrol_robot(id=robot_id, name=robot_id, site=site, brand=brand, by=SYSTEM)
    asked = []
    for robots in (["RB-001"], ["RB-010", "RB-011", "RB-012"]):
        for robot_id in robots:
            online(robot_id, "offline")
            pk = drawing_up.draft_mission(title=robot_id, site=site, robot=robot_id, steps=STEPS, by=SYSTEM)
            actions.queue_mission(pk, by=SYSTEM)
            online(robot_id)
        now = timezone.now()
        chosen = decisions(now)
        with CaptureQueriesContext(connection) as queries, transaction.atomic():
            assert len(carry_out(chosen, now)) == len(robots)
        asked.append(len(queries))
    assert asked[0] == asked[1]
    causes = Event.objects.filter(kind="mission.dispatched").values_list("cause", flat=True)
    assert [cause.partition(":")[0] for cause in causes] == ["queue"] * 4
