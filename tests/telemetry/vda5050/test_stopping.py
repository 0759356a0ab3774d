"""People press pause and stop: what the robot is sent, and which words come of what it does."""

from datetime import timedelta

import pytest

from telemetry.drivers.contract import Complaint, Wanted
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.stage import Stage, drive, drop, pick
from tests.telemetry.vda5050.under_way import FETCH, QUIET, on_its_way, picking

# --- pause


@pytest.mark.parametrize("habit", ("", *QUIET))
def test_paused_and_resumed(habit):
    stage = on_its_way(habits=(habit,) if habit else ())
    stage.pause()
    stage.run(10)
    assert stage.words[-1] == "paused"
    stage.resume()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1", "paused", "resumed", "completed 2", "completed 3", "finished"]


def test_resumed_before_its_state_says_that_it_has_paused():
    stage = on_its_way(drive("A"), drive("B"), drive("C"))
    stage.net.up = lambda message: [3.0]
    stage.pause()
    stage.run(1)
    assert stage.robot.paused
    stage.resume()
    stage.to_the_end(60)
    assert stage.words[-1] == "finished"


def test_an_order_that_the_site_does_not_know_of_is_ended_once_it_cannot_be_behind_any_more():
    stage = on_its_way(drive("A"), drive("B"), drive("C"))
    stage.robot.drive_s = 60
    stage.wanted = lambda: Wanted()
    assert not stage.run(2.5).instant("cancelOrder")
    assert stage.run(2).instant("cancelOrder")


def test_a_pause_that_is_never_confirmed_is_never_said():
    stage = on_its_way(habits=("never_pauses",))
    stage.pause()
    stage.to_the_end()
    assert "paused" not in stage.words
    assert 1 <= len(stage.instant("startPause")) <= 5


def test_a_brand_that_cannot_pause_is_sent_none():
    stage = on_its_way(profile=Profile(pause_supported=False))
    stage.pause()
    stage.to_the_end()
    assert "paused" not in stage.words
    assert not stage.instant("startPause")
    assert "mission.pause" in {e.field for e in stage.effects if isinstance(e, Complaint)}


def test_a_pause_survives_a_restart_of_the_gateway():
    stage = on_its_way()
    stage.pause()
    stage.run(3)
    stage.restart_driver()
    stage.run(5)
    stage.resume()
    assert stage.to_the_end().words[-1] == "finished"
    assert stage.words.count("resumed") == 1


@pytest.mark.parametrize("cut", [False, True])
def test_a_resume_survives_a_restart_of_the_gateway(cut):
    """Told to the gateway, which ended before its message reached the robot; with `cut`, a stop has ended the order."""
    stage = on_its_way(profile=Profile(pause_supported=not cut))
    stage.stop()
    stage.run(10).release()
    stage.run(5)
    down, stage.net.down = stage.net.down, lambda part, message: []
    stage.resume()
    stage.run(2)
    stage.restart_driver()
    stage.net.down = down
    assert stage.to_the_end(90).words[-1] == "finished"


def test_a_stop_after_the_resume_counts_more_after_a_restart_too():
    stage = on_its_way()
    stage.pause()
    stage.run(3)
    down, stage.net.down = stage.net.down, lambda part, message: []
    stage.resume()
    stage.run(2)
    stage.net.down = down
    stage.stop()
    stage.run(5).release()
    stage.restart_driver()
    assert stage.run(30).robot.paused, "a release is no command to drive"


def test_a_robot_that_forgot_its_order_while_it_was_paused():
    stage = on_its_way()
    stage.pause()
    stage.run(3)
    stage.robot.reboot()
    stage.robot.tell()
    stage.run(5)
    stage.resume()
    stage.to_the_end(60)
    assert (stage.site.row.state, stage.site.row.abort_reason) == ("aborted", "robot_fault")


# --- stop


@pytest.mark.parametrize("habit", ("", *QUIET))
def test_stopped_released_and_resumed(habit):
    stage = on_its_way(habits=(habit,) if habit else ())
    stage.stop()
    stage.run(10).release()
    stage.run(5)
    assert stage.words[-2:] in (["paused", "stopped"], ["stopped", "paused"])
    assert stage.robot.paused, "a release is no command to drive"
    stage.resume()
    stage.to_the_end()
    assert stage.words[-4:] == ["resumed", "completed 2", "completed 3", "finished"]
    assert not stage.instant("cancelOrder")


def test_a_stop_takes_back_a_resume_that_has_not_arrived():
    stage = on_its_way()
    stage.pause()
    stage.run(5)
    stage.net.down = lambda part, message: [] if part == "instantActions" else [0.02]
    stage.resume()
    assert stage.run(1).instant("stopPause")
    stage.stop()
    stage.net.down = lambda part, message: [0.02]
    before = len(stage.instant("stopPause"))
    stage.run(60)
    assert stage.robot.paused and len(stage.instant("stopPause")) == before


def test_the_stop_is_answered_by_its_own_id():
    stage = on_its_way()
    stage.stop()
    stage.run(3)
    stop = next(row.command.id for row in stage.open.values() if row.command.type == "robot.stop")
    assert [say.data for say in stage.said if say.type == "robot.stopped"] == [{"reply_to": str(stop)}]
    assert set(stage.instant("startPause")) == {str(stop)}


@pytest.mark.parametrize(
    ("profile", "habits", "after_s"), [({}, ("never_pauses",), 2), ({"pause_supported": False}, (), 0)]
)
def test_a_stop_that_a_pause_does_not_bring_about_ends_the_order(profile, habits, after_s):
    stage = on_its_way(drive("A"), drive("B"), drive("C"), habits=habits, profile=Profile(**profile))
    stage.robot.drive_s = 30
    stage.run_until(lambda s: "completed 2" in s.words).run(1)
    asked_at = stage.now
    stage.stop()
    stage.run(8)
    instant = [(at, m["actions"][0]["actionType"]) for at, part, m in stage.sent if part == "instantActions"]
    cancelled = [at - asked_at for at, kind in instant if kind == "cancelOrder"]
    assert [timedelta(seconds=after_s) <= after <= timedelta(seconds=after_s + 1.5) for after in cancelled] == [True]
    assert "stopped" in stage.words
    assert stage.robot.resting
    stage.release()
    stage.run(5)
    assert stage.robot.resting, "a release is no command to drive"
    stage.robot.drive_s = 3
    stage.resume()
    stage.to_the_end()
    assert stage.words == [
        "accepted",
        "completed 1",
        "completed 2",
        "paused",
        "stopped",
        "resumed",
        "completed 3",
        "finished",
    ]
    assert [o["orderId"] for o in stage.orders][-1].endswith(".3.1"), "from the step where it was"


@pytest.mark.parametrize("restarts_at", ["while it stops", "when it stands", "after the release"])
@pytest.mark.parametrize("profile", [{}, {"pause_supported": False}])
def test_a_stop_that_ended_the_order_survives_a_restart_of_the_gateway(restarts_at, profile):
    """That it was ended for people stands in the robot's own state: the mission waits, and goes on when it is resumed."""
    steps = (drive("A"), drive("B"), drive("C"))
    stage = on_its_way(*steps, habits=("never_pauses",), profile=Profile(**profile))
    stage.robot.drive_s = 30
    stage.run_until(lambda s: "completed 2" in s.words).run(1)
    stage.stop()
    for now, seconds in (("while it stops", 1), ("when it stands", 8), ("after the release", 5)):
        if now == "after the release":
            stage.release()
        stage.run(seconds)
        if now == restarts_at:
            stage.restart_driver()
            stage.robot.tell()
    stage.run(10)
    assert "resumed" not in stage.words
    assert stage.robot.resting, "nobody has told it to drive"
    stage.robot.drive_s = 3
    stage.resume()
    stage.to_the_end()
    assert stage.words[-3:] == ["resumed", "completed 3", "finished"]


def test_what_was_begun_when_its_order_had_to_be_ended_has_failed():
    stage = picking(drive("A"), pick("B", failure_retries=1), drop("C"), habits=("never_pauses",))
    stage.robot.acting = stage.robot.acting[0], stage.now + timedelta(seconds=30)
    stage.stop()
    stage.run(8)
    assert "failed 2/1" not in stage.words, "people stopped it: nothing is held against it meanwhile"
    stage.release()
    stage.run(3)
    stage.resume()
    stage.to_the_end()
    assert [w for w in stage.words if w != "paused"] == [
        "accepted", "completed 1", "stopped", "failed 2/1", "resumed", "completed 2", "completed 3", "finished",
    ]  # fmt: skip


def test_a_robot_that_stands_is_stopped_and_takes_its_next_order_when_it_is_released():
    stage = Stage(*FETCH).run(1)
    stage.stop()
    stage.run(5)
    assert stage.words == ["stopped"]
    stage.dispatch().run(15)
    assert stage.orders == []
    stage.release()
    stage.run(3)
    if stage.site.row.paused_at:
        stage.resume()
    assert stage.to_the_end().words[-1] == "finished"


def test_an_order_that_runs_late_on_a_stopped_robot_is_ended():
    stage = Stage(*FETCH).run(1)
    stage.robot.freeze(6)
    stage.dispatch().run(2)
    stage.stop()
    stage.run(10)
    assert stage.robot.paused or stage.robot.resting
    assert "stopped" in stage.words


def test_a_stop_is_told_also_when_nothing_is_known_of_the_robot():
    stage = Stage(*FETCH)
    stage.robot.out.clear()
    stage.net.up = lambda message: []
    stage._heard("connection", {"connectionState": "ONLINE"})()
    stage.stop()
    stage.run(1)
    assert stage.instant("startPause")
    assert "stopped" not in stage.words
