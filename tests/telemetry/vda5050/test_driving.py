"""Missions driven from order to the last receipt, with a robot that keeps to the standard."""

from tests.telemetry.vda5050.stage import Stage, drive, drop, pick


def test_navigate_pick_and_drop():
    stage = Stage(drive("A"), pick("B"), drop("C")).dispatch().to_the_end()
    assert stage.words == ["accepted", "completed 1", "completed 2", "completed 3", "finished"]
    assert stage.site.row.state == "success"


def test_a_mission_that_is_cancelled_on_the_way():
    stage = Stage(drive("A"), pick("B"), drop("C")).dispatch()
    stage.run_until(lambda s: "completed 1" in s.words)
    stage.cancel()
    stage.to_the_end()
    assert stage.words == ["accepted", "completed 1", "cancelled"]
    assert (stage.site.row.state, stage.site.row.stop_confirmed) == ("aborted", True)
