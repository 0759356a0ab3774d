"""People cancel: what the robot is sent, and which words come of what it does. A pause ends with its mission, a stop does not."""

from datetime import timedelta

import pytest

from telemetry.drivers.contract import Say
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.stage import START, Stage, drive, wait
from tests.telemetry.vda5050.under_way import FETCH, QUIET, on_its_way, picking

IDLE = [True, False]


@pytest.mark.parametrize("idle_cancel", IDLE)
@pytest.mark.parametrize("habit", ("", *QUIET, "never_pauses"))
def test_cancelled_on_its_way(habit, idle_cancel):
    stage = on_its_way(habits=(habit,) if habit else (), profile=Profile(idle_cancel=idle_cancel))
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1", "cancelled"]
    assert (stage.site.row.state, stage.site.row.stop_confirmed) == ("aborted", True)
    assert stage.robot.resting


@pytest.mark.parametrize("idle_cancel", IDLE)
def test_cancelled_in_the_middle_of_an_action(idle_cancel):
    stage = picking(profile=Profile(idle_cancel=idle_cancel))
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1", "cancelled"]


@pytest.mark.parametrize("idle_cancel", IDLE)
def test_cancelled_before_it_has_the_order(idle_cancel):
    stage = Stage(*FETCH, profile=Profile(idle_cancel=idle_cancel)).run(1)
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.dispatch().run(5)
    stage.cancel()
    stage.to_the_end()
    assert (stage.site.row.state, stage.site.row.stop_confirmed) == ("aborted", True)
    assert not [at for at, part, _ in stage.sent if part == "order" and at > START + timedelta(seconds=8)]
    if not idle_cancel:
        assert not stage.instant("cancelOrder"), "an idle robot is sent none"


def test_an_idle_robot_is_sent_no_cancel_even_if_the_site_would():
    """The order may still be on its way, and then it is ended; an answer comes when it is certain that it is not."""
    stage = Stage(*FETCH, profile=Profile(idle_cancel=False), brand={"idle_cancel": True}).run(1)
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.dispatch().run(1)
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["cancelled"]
    assert not stage.instant("cancelOrder")


def test_a_cancel_that_is_lost_is_sent_again_under_its_id():
    stage, count = on_its_way(profile=Profile(idle_cancel=True)), []
    stage.robot.drive_s = 60
    stage.net.down = lambda part, message: [] if count.append(1) is None and len(count) <= 3 else [0.02]
    stage.cancel()
    stage.to_the_end()
    assert stage.words[-1] == "cancelled"
    assert len(set(stage.instant("cancelOrder"))) == 1 < len(stage.instant("cancelOrder"))


def test_a_cancel_that_is_never_answered_is_never_said_to_be_done():
    stage = on_its_way(profile=Profile(idle_cancel=True))
    stage.robot.drive_s = 1000
    stage.robot._cancel = lambda: "RUNNING"
    stage.robot.driving_until += timedelta(seconds=1000)
    stage.cancel()
    stage.to_the_end()
    assert "cancelled" not in stage.words
    assert (stage.site.row.state, stage.site.row.stop_confirmed) == ("aborted", False)
    assert len(stage.instant("cancelOrder")) <= 10


def test_a_cancel_of_what_it_has_finished_gets_that_word_once_more():
    """The site may have lost it: a store that lost what it held."""
    stage = Stage(*FETCH, profile=Profile(idle_cancel=True))
    apply = stage._apply
    stage._apply = lambda say: None if say.type == "mission.finished" else apply(say)
    stage.dispatch().run_until(lambda s: "finished" in s.words).run(2)
    stage.effects.clear()
    stage.cancel()
    stage.run(3)
    assert "mission.finished" in [effect.type for effect in stage.effects if isinstance(effect, Say)]


def test_a_cancel_for_a_mission_that_it_does_not_know_leaves_another_masters_order_alone():
    stage = Stage(*FETCH, profile=Profile(idle_cancel=True)).run(1)
    stage.robot.drive_s = 20
    nodes = [{"nodeId": n, "sequenceId": s, "released": True, "actions": []} for n, s in (("q", 0), ("r", 2))]
    edge = {"edgeId": "e", "sequenceId": 1, "released": True, "startNodeId": "q", "endNodeId": "r", "actions": []}
    stage.robot.hear("order", {"orderId": "theirs", "orderUpdateId": 0, "nodes": nodes, "edges": [edge]})
    stage.run(1).dispatch().run(2)
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["cancelled"]
    assert not stage.instant("cancelOrder")


def test_a_robot_that_drives_and_names_no_order_is_cancelled_only_once_it_stands():
    """What it does may be ours; "cancelled" while it moves would let people walk in its way."""
    stage = Stage(*FETCH)
    stage.robot.drive_s = 60
    state = stage.robot.state
    stage.robot.state = lambda: state() | {"orderId": ""}
    stage.dispatch().run_until(lambda s: s.robot.driving_until is not None).run(6)
    ends, stage.robot._cancel = stage.robot._cancel, lambda: "RUNNING"
    stage.cancel()
    stage.run(8)
    assert stage.instant("cancelOrder")
    assert "cancelled" not in stage.words
    stage.robot._cancel = ends
    stage.to_the_end()
    assert stage.words[-1] == "cancelled"


def test_a_pause_ends_with_its_mission():
    stage = on_its_way()
    stage.pause()
    stage.run(3)
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1", "paused", "cancelled"]
    assert not stage.robot.paused, "or the next mission would begin paused"


def test_a_stop_does_not_end_with_the_mission():
    stage = on_its_way()
    stage.stop()
    stage.run(3)
    stage.cancel()
    stage.to_the_end()
    assert stage.robot.paused
    stage.release()
    stage.run(3)
    assert not stage.robot.paused


def test_cancelled_while_it_waits():
    stage = Stage(drive("A"), wait(30), drive("B")).dispatch().run_until(lambda s: "completed 1" in s.words).run(5)
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1"], "idle is its word"
    assert stage.site.row.stop_confirmed
    assert not stage.instant("cancelOrder"), "it is idle"
