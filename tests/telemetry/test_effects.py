"""One message, one effect (I4), whoever stores it at the same time or uses its number; and what a silent stop costs (I13)."""

import asyncio
import uuid
from datetime import timedelta

from django.conf import settings

from fleet.models import Event, Hold, Robot
from missions import actions, drawing_up
from missions.facts import Accepted, Due
from missions.models import Mission
from telemetry import stream
from telemetry.gateways.intake import Intake
from telemetry.models import ProcessedMessage
from tests.actors import STEPS, SYSTEM, tell
from tests.telemetry.robots_talk import NOW, message, say, work


def test_two_gateways_that_store_the_same_messages_at_once_append_each_once(durable):
    ids = [uuid.uuid4() for _ in range(20)]

    async def both() -> list[list[str]]:
        gateways = [Intake(settings.REDIS_URL) for _ in range(2)]
        told = await asyncio.gather(
            *(asyncio.gather(*(gateway.store("RB-001", i, b"{}", NOW) for gateway in gateways)) for i in ids)
        )
        for gateway in gateways:
            await gateway.aclose()
        return told

    told = asyncio.run(both())
    assert durable.xlen(stream.key(stream.partition_of("RB-001"))) == len(ids)
    assert [sorted(answers) for answers in told] == [["duplicate", "stored"]] * len(ids)


def test_two_robots_may_use_the_same_msg_id_and_both_count(worker, clock, dispatched, other_robot):
    pk = drawing_up.draft_mission(title="Other", site=other_robot.site, robot=other_robot, steps=STEPS, by=SYSTEM)
    actions.dispatch_mission(pk, by=SYSTEM)
    same = str(uuid.uuid4())
    for mission in (dispatched, Mission.objects.get(pk=pk)):
        say(message(mission.robot_id, "mission.accepted", mission=mission, msg_id=same))
        work(worker, clock)
    assert set(Mission.objects.values_list("robot", "state")) == {("RB-001", "executing"), ("RB-002", "executing")}
    assert ProcessedMessage.objects.filter(msg_id=same).count() == 2


def test_a_robot_that_never_confirms_a_stop_gets_no_new_work(dispatched):
    tell(dispatched, Accepted(1))
    actions.cancel_mission(dispatched.pk, by=SYSTEM)
    while (due := Mission.objects.get(pk=dispatched.pk).stop_due_at) is not None:
        tell(dispatched, Due("stop"), at=due - timedelta(seconds=1))
    assert Mission.objects.get(pk=dispatched.pk).stop_confirmed is False
    assert list(Hold.objects.values_list("robot", "kind", "mission", "released_at")) == [
        ("RB-001", "unconfirmed", dispatched.pk, None)
    ]
    assert Event.objects.filter(aggregate="robot:RB-001", kind="robot.hold_opened").count() == 1
    pk = drawing_up.draft_mission(title="Next", site=dispatched.site, robot=Robot.objects.get(), steps=STEPS, by=SYSTEM)
    assert actions.queue_mission(pk, by=SYSTEM).startswith("waits: ")
