"""What is left of a mission becomes a new one for another robot: once, after the old one has ended."""

from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from fleet.brands.actions import edit_brand
from fleet.history import by_user
from fleet.models import Alert, Command, Event
from fleet.refusals import Refused
from fleet.robots.stopping import stop_robot
from missions import actions, drawing_up, handing_over
from missions.facts import (
    Accepted,
    Cancelled,
    Delivered,
    DependencyMoved,
    Due,
    Edit,
    Finished,
    RobotLost,
    StepCompleted,
    StepFailed,
)
from missions.models import Mission, OriginKind
from missions.queue.waiting import why_waiting
from telemetry.stream import partition_of
from tests.actors import STEPS, SYSTEM, tell
from tests.missions.machine import Machine, step


@pytest.fixture
def running(dispatched):
    tell(dispatched, Delivered(), Accepted(1), StepCompleted(1, 1, 1))
    return Mission.objects.get(pk=dispatched.pk)


def get(pk) -> Mission:
    return Mission.objects.get(pk=pk)


def carry_out() -> list:
    with transaction.atomic():
        return handing_over.carry_out([pk for pk, _ in handing_over.waiting()], timezone.now())


def test_the_robot_is_stopped_first_and_the_rest_goes_on_elsewhere(running, supervisor, other_robot):
    who = by_user(supervisor)
    assert actions.hand_over_mission(running.pk, by=who) is None
    assert get(running.pk).state == "executing" and carry_out() == []
    tell(running, StepCompleted(1, 2, 1), Cancelled(1))  # it did one more
    [pk] = carry_out()
    made = get(pk)
    assert (made.origin, made.origin_kind, made.title) == (running.pk, OriginKind.HAND_OVER, "Fetch")
    assert list(made.steps.values_list("number", "command")) == [(1, "drop")]
    assert made.robot_id is None and made.queued_at
    assert get(running.pk).handed_over_to == pk
    assert Event.objects.get(kind="mission.handed_over").data.endswith('"steps_left":[3]}')
    assert carry_out() == []


def test_it_is_as_urgent_and_as_patient_as_the_one_before(robot, supervisor):
    own = {"priority": 7, "importance": "important", "offline_policy": "wait", "timeout_s": 777}
    pk = drawing_up.draft_mission(title="Heavy", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM, **own)
    actions.dispatch_mission(pk, by=SYSTEM)
    made = get(actions.hand_over_mission(pk, by=by_user(supervisor)))
    assert {column: getattr(made, column) for column in own} == own


def test_who_comes_after_several_comes_after_the_others_as_before():
    m, (handed_over, other, new) = Machine(), (uuid4() for _ in range(3))
    m.tell(Edit({"title": "After both"}, [step()], (handed_over, other)))
    assert m.tell(DependencyMoved(handed_over, new, "Fetch")) == ["applied"]
    assert [row.on_id for row in m.change.children["dependencies"].values()] == [new, other]


def test_what_was_skipped_is_not_done_by_the_next_one_either(robot, supervisor):
    go = {"command": "navigate", "params": {"place": "Dock A"}}
    steps = [go | {"failure_then": "skip"}, go | {"timeout_s": 77}]
    pk = drawing_up.draft_mission(title="Round", site=robot.site, robot=robot, steps=steps, by=SYSTEM)
    actions.dispatch_mission(pk, by=SYSTEM)
    tell(get(pk), Delivered(), Accepted(1), StepFailed(1, 1, 1, "blocked"))
    actions.hand_over_mission(pk, by=by_user(supervisor))
    tell(get(pk), Cancelled(1))
    [made] = carry_out()
    assert list(get(made).steps.values_list("number", "timeout_s")) == [(1, 77)]


def test_it_goes_to_any_robot_but_the_one_that_had_it(running, supervisor, other_robot):
    stop_robot(other_robot.pk, by=SYSTEM, why="spill")
    actions.hand_over_mission(running.pk, by=by_user(supervisor))
    tell(running, Cancelled(1))
    [pk] = carry_out()
    assert "Ella had it before" in why_waiting(get(pk)) and "on hold" in why_waiting(get(pk))
    assert actions.queue_mission(drawing_up.clone_mission(pk, by=SYSTEM), by=SYSTEM) == "dispatched to Ella"


def test_what_never_left_goes_on_at_once(dispatched, supervisor):
    pk = actions.hand_over_mission(dispatched.pk, by=by_user(supervisor))
    assert get(dispatched.pk).state == "aborted"
    assert list(get(pk).steps.values_list("command", flat=True)) == ["navigate", "pick", "drop"]
    assert Event.objects.filter(aggregate=f"mission:{pk}", kind="mission.drafted").get().actor_name == "Ana"


def test_nobody_makes_it_twice(dispatched, supervisor):
    pk = actions.hand_over_mission(dispatched.pk, by=by_user(supervisor))
    with pytest.raises(Refused, match="has ended"):
        actions.hand_over_mission(dispatched.pk, by=by_user(supervisor))
    with transaction.atomic():
        assert handing_over.carry_out([dispatched.pk], timezone.now()) == []
    assert list(Mission.objects.filter(origin=dispatched.pk).values_list("pk", flat=True)) == [pk]


def test_a_success_is_not_handed_over(running, supervisor):
    actions.hand_over_mission(running.pk, by=by_user(supervisor))
    tell(running, StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Finished(1))
    assert get(running.pk).state == "success" and carry_out() == []


def test_a_mission_that_is_cancelled_while_it_is_to_be_handed_over_goes_on_nowhere(running, supervisor):
    who = by_user(supervisor)
    actions.hand_over_mission(running.pk, by=who)
    assert actions.cancel_mission(running.pk, by=who, reason="spill") == "stopping"
    assert actions.cancel_mission(running.pk, by=who) == "already stopping"
    tell(running, Cancelled(1))
    was = get(running.pk)
    assert (was.state, was.abort_reason, was.abort_detail, was.hand_over_at) == ("aborted", "operator", "spill", None)
    assert carry_out() == [] and Mission.objects.count() == 1
    assert "Ana cancelled it" in Event.objects.get(kind="mission.hand_over_dropped").data


def test_nor_when_it_has_ended_and_nobody_has_taken_it_up_yet(running, supervisor):
    who = by_user(supervisor)
    actions.hand_over_mission(running.pk, by=who)
    tell(running, Cancelled(1))
    assert [actions.cancel_mission(running.pk, by=who) for _ in range(2)] == ["already ended", "already ended"]
    assert carry_out() == [] and Mission.objects.count() == 1


def test_nothing_left_is_said_and_makes_nothing(running, supervisor):
    actions.hand_over_mission(running.pk, by=by_user(supervisor))
    tell(running, StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Cancelled(1))
    assert get(running.pk).state == "aborted" and carry_out() == []
    assert get(running.pk).hand_over_at is None and handing_over.waiting() == []
    assert Event.objects.filter(kind="mission.hand_over_dropped").count() == 1


def test_what_was_approved_needs_no_second_approval(robot, supervisor, admin_person):
    steps = [{"command": "navigate", "params": {"place": "Dock A"}}]
    pk = drawing_up.draft_mission(
        title="Heavy", site=robot.site, robot=robot, steps=steps, by=by_user(supervisor), needs_approval=True
    )
    actions.approve_mission(pk, by=by_user(admin_person))
    actions.dispatch_mission(pk, by=by_user(supervisor))
    made = get(actions.hand_over_mission(pk, by=by_user(supervisor)))
    assert (made.approved_by, made.queued_at is not None) == ("Ada", True)


def test_drafts_and_what_is_being_stopped_are_refused(mission, supervisor):
    who = by_user(supervisor)
    with pytest.raises(Refused, match="not dispatched yet"):
        actions.hand_over_mission(mission.pk, by=who)
    actions.dispatch_mission(mission.pk, by=who)
    Command.objects.update(sent_at=timezone.now())
    actions.cancel_mission(mission.pk, by=who)
    with pytest.raises(Refused, match="being stopped"):
        actions.hand_over_mission(mission.pk, by=who)


def test_what_a_person_has_to_decide_is_an_alert_with_a_button(client, running, supervisor, brand):
    edit_brand(brand.pk, offline_policy="hand_over", by=SYSTEM)  # too late for what is under way
    tell(running, RobotLost(60))
    lost = get(running.pk)
    tell(running, Due("robot_lost"), at=lost.robot_lost_due_at)
    assert get(running.pk).stop_requested_at and not Alert.objects.filter(cause__startswith="hand_over").exists()


@pytest.fixture
def lost(mission, supervisor, brand):
    edit_brand(brand.pk, offline_policy="hand_over", by=SYSTEM)
    actions.dispatch_mission(mission.pk, by=by_user(supervisor))
    tell(mission, Delivered(), Accepted(1), RobotLost(60))
    tell(mission, Due("robot_lost"), at=get(mission.pk).robot_lost_due_at)
    return get(mission.pk)


def test_the_proposal_is_an_alert_with_one_button(client, lost, supervisor):
    alert = Alert.objects.get(cause__startswith="hand_over")
    assert (
        alert.text
        == "“Fetch” could be handed over from RB-001, which is offline; robots of its brand go on when they hear nothing"
    )
    client.force_login(supervisor)
    page = f"/admin/missions/mission/{lost.pk}/"
    on_its_page = client.get(f"/admin/fleet/alert/{alert.pk}/change/").content.decode()
    assert f'action="{page}hand_over/"' in on_its_page
    proposed = client.get(f"{page}change/").content.decode()
    assert (
        "Another could go on with it, if you say so (Hand over…): robots of its brand go on when they hear" in proposed
    )
    assert "hand_over" in [b.verb for b in client.get(f"{page}change/").context["buttons"]]
    said = client.post(f"{page}hand_over/", {}, follow=True)
    assert "another robot goes on with the rest" in said.content.decode()
    assert (
        get(lost.pk).hand_over_at and not Alert.objects.filter(cause__startswith="hand_over", cleared_at=None).exists()
    )
    assert "hand_over/" not in client.get(f"/admin/fleet/alert/{alert.pk}/change/").content.decode()
    assert "Another could go on with it" not in client.get(f"{page}change/").content.decode()


def test_whoever_comes_after_it_comes_after_what_goes_on_with_it(worker_queue, running, supervisor, other_robot):
    after = drawing_up.draft_mission(
        title="Next", site=running.site, robot=other_robot, steps=[{"command": "wait", "params": {"seconds": 1}}],
        by=SYSTEM, after=[running.pk],
    )  # fmt: skip
    actions.queue_mission(after, by=SYSTEM)
    actions.hand_over_mission(running.pk, by=by_user(supervisor))
    tell(running, Cancelled(1))
    worker_queue()
    worker_queue()
    successor = get(running.pk).handed_over_to
    assert [d.on_id for d in get(after).dependencies.all()] == [successor]
    assert get(after).state == "pending"


def test_a_worker_that_does_not_hand_it_over_itself_leaves_alone_what_comes_after_it(
    running, supervisor, other_robot, worker_queue
):
    """Its robot belongs to another worker, which has not come to it yet."""
    after = drawing_up.draft_mission(
        title="Then", site=other_robot.site, robot=other_robot, steps=STEPS[:1], by=SYSTEM, after=[running.pk]
    )
    actions.queue_mission(after, by=SYSTEM)
    actions.hand_over_mission(running.pk, by=by_user(supervisor))
    tell(running, Cancelled(1))
    worker_queue(without=partition_of("RB-001"))
    assert (get(running.pk).handed_over_to, get(after).state) == (None, "pending")


@pytest.fixture
def worker_queue(db):
    """One look of the worker's queue at every partition, or at all but one."""
    from fleet.settings import PARTITIONS
    from telemetry.models import Partition
    from telemetry.worker.queueing import Queue

    queue, tick = Queue(), iter(range(100, 10_000, 10))
    for number in range(PARTITIONS):
        Partition.objects.get_or_create(pk=number, defaults={"fence": 1})
    fences = dict(Partition.objects.values_list("pk", "fence"))

    def look(without: int | None = None) -> bool:
        mine = {p: fence for p, fence in fences.items() if p != without}
        return queue.step(timezone.now(), float(next(tick)), mine, dict.fromkeys(mine, 0.0))

    return look
