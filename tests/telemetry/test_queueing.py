"""The worker's queue: what waits goes when it can, in order, never two to a robot, and cheap while nothing changes."""

import random
from datetime import timedelta

import pytest
from django.db import transaction

from fleet.history import Origin
from fleet.models import Event, Hold, Robot
from fleet.refusals import Refused
from fleet.robots.actions import enrol_robot, retire_robot
from fleet.robots.facts import Faulted, Reported
from fleet.robots.stopping import release_robot, stop_robot
from missions import actions, drawing_up, locked
from missions.facts import Accepted, Cancelled, Delivered, Finished, StepCompleted
from missions.ledger import Ledger
from missions.models import OPEN, Mission
from missions.queue.waiting import why_waiting
from telemetry.stream import partition_of
from telemetry.worker.loop import GRACE_S
from tests.actors import START, SYSTEM, online, tell
from tests.telemetry.robots_talk import work

WAIT = [{"command": "wait", "params": {"seconds": 1}}]


def says(robot_id: str, mode: str) -> None:
    """The robot reports its mode."""
    with transaction.atomic():
        ledger = Ledger.open([robot_id], now=START)
        seq = ledger.robots[robot_id].row.word_seq + 1
        fact = Faulted(1, seq, "wheel") if mode == "fault" else Reported(1, seq, mode, None, None, "")
        ledger.tell_robot(robot_id, fact, Origin("robot", robot_id), START)
        ledger.commit()


def end(mission: Mission, well: bool = True) -> None:
    facts = [Delivered(), Accepted(1), StepCompleted(1, 1, 1), Finished(1)] if well else [Delivered(), Cancelled(1)]
    tell(mission, *facts)


def draw_up(site, **over):
    return drawing_up.draft_mission(**{"title": "Wait", "site": site, "steps": WAIT, "by": SYSTEM} | over)


def get(pk) -> Mission:
    return Mission.objects.get(pk=pk)


@pytest.fixture
def ready(worker, clock):
    """The worker has had its grace."""
    work(worker, clock)
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    return worker


def look(worker, clock, seconds: float = 0.25) -> None:
    clock.advance(seconds)
    work(worker, clock)


@pytest.fixture
def queued(site, robot):
    stop_robot("RB-001", by=SYSTEM)
    Hold.objects.get()
    pk = draw_up(site, robot="RB-001")
    actions.queue_mission(pk, by=SYSTEM)
    return pk


def give_back(robot_id: str = "RB-001") -> None:
    """Whatever holds the robot is released, an unconfirmed stop too."""
    for number in Hold.objects.filter(robot=robot_id, released_at=None).values_list("number", flat=True):
        release_robot(robot_id, by=SYSTEM, number=number)
    for number in Hold.objects.filter(robot=robot_id, released_at=None).values_list("number", flat=True):
        release_robot(robot_id, by=SYSTEM, number=number)


def test_a_released_robot_gets_what_waits_within_a_second(ready, clock, queued):
    look(ready, clock)
    assert get(queued).dispatched_at is None
    give_back()
    look(ready, clock)
    assert get(queued).dispatched_at
    event = Event.objects.get(kind="mission.dispatched")
    assert (event.actor_kind, event.actor_name) == ("policy", "queue")
    assert event.cause == "queue:RB-001 released"


OPENERS = {
    "its mission ends": (
        lambda site: end(Mission.objects.get(title="Before")), "queue:RB-001 free after mission:"),
    "its mission is aborted": (
        lambda site: end(Mission.objects.get(title="Before"), well=False), "queue:RB-001 free after mission:"),
    "it comes online": (lambda site: online("RB-001", "online", START), "queue:RB-001 online"),
    "it is no longer driven by hand": (lambda site: says("RB-001", "idle"), "queue:RB-001 idle"),
}  # fmt: skip
CLOSERS = {
    "its mission ends": lambda site: actions.dispatch_mission(draw_up(site, title="Before", robot="RB-001"), by=SYSTEM),
    "it comes online": lambda site: online("RB-001", "offline"),
    "it is no longer driven by hand": lambda site: says("RB-001", "manual"),
}
CLOSERS["its mission is aborted"] = CLOSERS["its mission ends"]


@pytest.mark.parametrize("what", OPENERS)
def test_what_makes_room(ready, clock, site, robot, what):
    CLOSERS[what](site)
    pk = draw_up(site, robot="RB-001")
    assert actions.queue_mission(pk, by=SYSTEM).startswith("waits: Ella")
    look(ready, clock)
    assert get(pk).dispatched_at is None
    OPENERS[what][0](site)
    look(ready, clock)
    assert get(pk).dispatched_at, why_waiting(get(pk))
    assert Event.objects.get(kind="mission.dispatched", aggregate=f"mission:{pk}").cause.startswith("queue:")


def test_when_its_time_has_come(ready, clock, site, robot, monkeypatch):
    monkeypatch.setattr(locked, "now", lambda: clock.now)
    pk = draw_up(site, robot="RB-001", not_before=clock.now + timedelta(seconds=10))
    actions.queue_mission(pk, by=SYSTEM)
    look(ready, clock, 9)
    assert get(pk).dispatched_at is None
    look(ready, clock, 1)
    assert get(pk).dispatched_at
    assert Event.objects.get(kind="mission.dispatched").cause == "queue:not_before reached"


def test_when_what_comes_before_has_succeeded(ready, clock, site, robot, other_robot):
    a = draw_up(site, title="A", robot="RB-001")
    b = draw_up(site, title="B", robot="RB-002", after=[a])
    actions.queue_mission(b, by=SYSTEM)
    actions.queue_mission(a, by=SYSTEM)
    look(ready, clock)
    tell(get(a), Accepted(1))
    look(ready, clock)
    assert get(a).state == "executing" and get(b).dispatched_at is None
    end(get(a))
    look(ready, clock)
    assert get(b).dispatched_at
    assert Event.objects.get(kind="mission.dispatched", aggregate=f"mission:{b}").cause == f"queue:after mission:{a}"


def test_when_what_comes_before_is_aborted_all_that_follows_ends(ready, clock, site, robot, other_robot):
    a = draw_up(site, title="A", robot="RB-001")
    b = draw_up(site, title="B", robot="RB-002", after=[a])  # of another partition, in the queue
    c = draw_up(site, title="C", after=[b])  # of its own id's partition, only drawn up
    assert len({partition_of("RB-001"), partition_of("RB-002")}) == 2
    actions.queue_mission(b, by=SYSTEM)
    actions.cancel_mission(a, by=SYSTEM)
    look(ready, clock)
    look(ready, clock)
    for pk, title in ((b, "A"), (c, "B")):
        assert (get(pk).state, get(pk).abort_reason, get(pk).abort_detail) == (
            "aborted", "dependency_failed", f"“{title}” did not succeed",
        )  # fmt: skip
    event = Event.objects.get(kind="mission.dependency_failed", aggregate=f"mission:{b}")
    assert event.cause == f"queue:mission:{a} did not succeed"


def test_other_workers_partitions_are_left_alone(ready, clock, queued, site, other_robot):
    give_back()
    mine = {p: fence for p, fence in ready.fences.items() if p != partition_of("RB-001")}
    clock.advance(10)
    assert ready.queue.step(clock.now, clock.tick, mine, ready.open_from) is False
    assert get(queued).dispatched_at is None
    clock.advance(10)
    assert ready.queue.step(clock.now, clock.tick, ready.fences, ready.open_from) is True
    assert get(queued).dispatched_at


def test_nothing_goes_before_the_grace(worker, clock, queued):
    give_back()
    work(worker, clock)
    assert get(queued).dispatched_at is None
    clock.advance(GRACE_S + 1)
    work(worker, clock)
    assert get(queued).dispatched_at


def test_while_nothing_changes_it_costs_one_statement(ready, clock, queued, django_assert_num_queries):
    look(ready, clock, 10)
    clock.advance(0.25)
    with django_assert_num_queries(1):
        ready.queue.step(clock.now, clock.tick, ready.fences, ready.open_from)


def test_a_look_costs_as_much_for_two_as_for_forty(ready, clock, site, robot, queued, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for more in (1, 40):
        for n in range(more):
            pk = draw_up(site, title=f"M{n}", robot=[None, "RB-001"][n % 2])
            actions.queue_mission(pk, by=SYSTEM)
        clock.advance(10)
        with CaptureQueriesContext(
            connection,
        ) as asked:
            ready.queue.step(clock.now, clock.tick, ready.fences, ready.open_from)
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_one_that_raises_does_not_hold_up_the_others(ready, clock, site, robot, other_robot, monkeypatch, caplog):
    from missions.queue import dispatching

    stop_robot("RB-001", by=SYSTEM)
    stop_robot("RB-002", by=SYSTEM)
    bad, good = draw_up(site, robot="RB-001", title="Bad"), draw_up(site, robot="RB-002")
    for pk in (bad, good):
        actions.queue_mission(pk, by=SYSTEM)
    frames = dispatching.frames

    def raising(change, places, brand):
        if change.row.title == "Bad":
            raise ZeroDivisionError("a bug")
        return frames(change, places, brand)

    monkeypatch.setattr(dispatching, "frames", raising)
    monkeypatch.setattr("telemetry.worker.queueing.partition_of", lambda key: partition_of("RB-001"))
    give_back("RB-001")
    give_back("RB-002")
    look(ready, clock)
    assert (get(bad).dispatched_at, bool(get(good).dispatched_at)) == (None, True)
    assert caplog.text.count("cannot go on with") == 1
    look(ready, clock, 6)
    assert caplog.text.count("cannot go on with") == 1  # left alone for a while
    monkeypatch.setattr(dispatching, "frames", frames)
    look(ready, clock, 31)
    assert get(bad).dispatched_at


def test_rows_that_moved_on_are_decided_on_anew(ready, clock, site, robot, queued, monkeypatch):
    """Between plan and lock somebody stops the robot: nothing is dispatched, and it is looked at again."""
    from telemetry.worker import queueing

    give_back()
    decide = queueing.decisions

    def slow(now, mine):
        found = decide(now, mine)
        monkeypatch.setattr(queueing, "decisions", decide)
        stop_robot("RB-001", by=SYSTEM)
        return found

    monkeypatch.setattr(queueing, "decisions", slow)
    look(ready, clock)
    assert get(queued).dispatched_at is None
    give_back()
    look(ready, clock)
    assert get(queued).dispatched_at


def test_what_waits_long_says_so_again_and_again(ready, clock, queued, monkeypatch):
    waiting = get(queued)
    clock.advance((waiting.queued_due_at - clock.now).total_seconds() + 2)
    work(ready, clock)
    clock.advance(GRACE_S + 1)  # it was a jump of the wall clock, to the worker
    work(ready, clock)
    event = Event.objects.get(kind="mission.waits_long")
    assert "Ella is on hold" in event.data
    assert get(queued).next_due_at > clock.now


def test_what_has_not_started_in_time_is_aborted(ready, clock, site, robot, monkeypatch):
    stop_robot("RB-001", by=SYSTEM)
    from django.utils import timezone

    pk = draw_up(site, robot="RB-001", expires_at=timezone.now() + timedelta(seconds=60))
    draft = draw_up(site, robot="RB-001", expires_at=timezone.now() + timedelta(seconds=60))
    actions.queue_mission(pk, by=SYSTEM)
    clock.advance((get(pk).expires_at - clock.now).total_seconds() + 2)
    work(ready, clock)
    clock.advance(GRACE_S + 1)
    work(ready, clock)
    for row in (get(pk), get(draft)):
        assert (row.state, row.abort_reason, row.abort_detail[:8]) == ("aborted", "timeout", "expired:")
    assert Event.objects.filter(kind="mission.expired").count() == 2


@pytest.mark.parametrize("seed", range(6))
def test_many_missions_and_robots_and_whatever_may_happen(ready, clock, site, brand, seed):
    """Random events: never two on a robot, never to one that is held, offline, faulted or retired, in order, to the end."""
    rng = random.Random(seed)
    robots = [f"RB-10{n}" for n in range(4)]
    for robot_id in robots:
        enrol_robot(id=robot_id, name=robot_id, site=site, brand=brand, by=SYSTEM)
        online(robot_id)
        says(robot_id, "idle")
    dispatched: list[Mission] = []

    def check() -> None:
        new = Mission.objects.filter(dispatched_at__isnull=False).exclude(pk__in=[m.pk for m in dispatched])
        for mission in new:
            robot = Robot.objects.get(pk=mission.robot_id)
            assert (robot.presence, robot.fault, robot.retired_at) == ("online", "", None)
            assert not robot.holds.filter(released_at=None).exists()
            better = Mission.objects.filter(robot=robot, state="pending", dispatched_at=None, queued_at__isnull=False)
            for other in better:  # by its robot's own queue
                assert (-mission.priority, mission.queued_at) <= (-other.priority, other.queued_at)
        dispatched.extend(new)
        busy = list(Mission.objects.filter(dispatched_at__isnull=False, state__in=OPEN).values_list("robot", flat=True))
        assert len(busy) == len(set(busy))

    def disturb() -> None:
        robot_id, what = rng.choice(robots), rng.randrange(8)
        if what == 0:
            stop_robot(robot_id, by=SYSTEM)
        elif what == 1:
            give_back(robot_id)
        elif what == 2:
            online(robot_id, rng.choice(["online", "offline"]))
        elif what == 3:
            says(robot_id, rng.choice(["idle", "fault", "manual"]))
        elif what == 4 and robot_id == robots[0]:
            try:
                retire_robot(robot_id, by=SYSTEM)
            except Refused:
                return
        else:
            for mission in Mission.objects.filter(robot=robot_id, dispatched_at__isnull=False, state__in=OPEN):
                end(mission, well=rng.random() < 0.8)

    for _ in range(40):
        if rng.random() < 0.6:
            pk = draw_up(site, robot=rng.choice([None, *robots[1:]]), priority=rng.randint(0, 2))
            actions.queue_mission(pk, by=SYSTEM)
            check()
        disturb()
        look(ready, clock, 0.25)
        check()
    for _ in range(200):  # calm at last: everything runs to its end
        for robot_id in robots[1:]:
            give_back(robot_id)
            online(robot_id)
            if Robot.objects.get(pk=robot_id).fault:
                from fleet.robots.facts import FaultCleared

                with transaction.atomic():
                    ledger = Ledger.open([robot_id], now=START)
                    seq = ledger.robots[robot_id].row.word_seq + 1
                    ledger.tell_robot(robot_id, FaultCleared(1, seq), SYSTEM, START)
                    ledger.commit()
            says(robot_id, "idle")
        for mission in Mission.objects.filter(dispatched_at__isnull=False, state__in=OPEN):
            end(mission)
        look(ready, clock, 0.25)
        check()
        if not Mission.objects.filter(state__in=OPEN).exists():
            break
    assert not Mission.objects.filter(state__in=OPEN).exists()


def test_a_mission_hears_within_a_second_that_its_robot_is_stopped_and_released(ready, clock, dispatched):
    tell(dispatched, Delivered(), Accepted(1), at=clock.now)
    stop_robot("RB-001", by=SYSTEM, why="spill")
    look(ready, clock)
    held = get(dispatched.pk)
    assert held.held_at is not None and (held.step_due_at, held.mission_due_at) == (None, None)
    look(ready, clock)
    assert get(dispatched.pk).version == held.version
    release_robot("RB-001", by=SYSTEM)
    look(ready, clock)
    assert get(dispatched.pk).held_at is None and get(dispatched.pk).step_due_at is not None


def test_the_worker_makes_what_goes_on_with_a_mission(ready, clock, dispatched, other_robot):
    tell(dispatched, Delivered(), Accepted(1), at=clock.now)
    actions.hand_over_mission(dispatched.pk, by=SYSTEM)
    look(ready, clock)
    assert get(dispatched.pk).handed_over_to is None
    tell(dispatched, Cancelled(1), at=clock.now)
    look(ready, clock)
    look(ready, clock)
    successor = get(get(dispatched.pk).handed_over_to)
    assert (successor.robot_id, successor.origin) == ("RB-002", dispatched.pk)
