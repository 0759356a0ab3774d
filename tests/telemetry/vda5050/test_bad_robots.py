"""Each bad habit of real robots ends well: the right receipts, nothing doubled, nothing hangs (NOTES of foreign robots)."""

import pytest

from missions.models import FINAL
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.robot_double import HABITS
from tests.telemetry.vda5050.stage import Stage, charge, drive, drop, pick, wait

FETCH = (drive("A"), pick("B"), drop("C"))
EVERYTHING = (drive("A"), pick("A"), wait(5), drop("B"), charge(80, "C"), drive("D"))
DONE = ["accepted", "completed 1", "completed 2", "completed 3", "finished"]
THEIRS = {
    "orderId": "theirs", "orderUpdateId": 0,
    "nodes": [{"nodeId": n, "sequenceId": s, "released": True, "actions": []} for n, s in (("q", 0), ("r", 2))],
    "edges": [{"edgeId": "e", "sequenceId": 1, "released": True, "startNodeId": "q", "endNodeId": "r", "actions": []}],
}  # fmt: skip


def ended(stage):
    row = stage.site.row
    return f"{row.state} {row.abort_reason}".strip()


@pytest.mark.parametrize("habit", [habit for habit in HABITS if habit != "no_position"])
def test_a_mission_is_done_whatever_its_habits(habit):
    stage = Stage(*EVERYTHING, habits=(habit,), profile=Profile(base_steps=1)).dispatch().to_the_end()
    assert stage.words == ["accepted", *[f"completed {n}" for n in range(1, 7)], "finished"]


# as measured: all their habits at once
MEASURED = {
    "NVIDIA's simulator": (("keeps_nodes", "ignores_released", "never_pauses", "cancel_waits", "no_references"), {"base_steps": 1000}),
    "coatyio": (("strict", "fails_in_errors", "drops_instant_states"), {"idle_cancel": True}),
    "taherfattahi": (("keeps_all_nodes", "rejects_in_silence"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", MEASURED)
def test_robots_as_they_are(name):
    habits, profile = MEASURED[name]
    done = Stage(*EVERYTHING, habits=habits, profile=Profile(**profile)).dispatch().to_the_end()
    assert done.words == ["accepted", *[f"completed {n}" for n in range(1, 7)], "finished"]
    cancelled = Stage(*FETCH, habits=habits, profile=Profile(**profile)).dispatch()
    cancelled.run_until(lambda s: "completed 1" in s.words).run(1)
    cancelled.cancel()
    assert cancelled.to_the_end().words == ["accepted", "completed 1", "cancelled"]
    stopped = Stage(drive("A"), drive("B"), habits=habits, profile=Profile(**profile)).dispatch()
    stopped.run_until(lambda s: "accepted" in s.words)
    stopped.stop()
    stopped.run_until(lambda s: "stopped" in s.words and s.site.row.paused_at, 15)
    stopped.release()
    stopped.run(3).resume()
    words = stopped.to_the_end().words
    assert [words.count(word) for word in ("completed 1", "completed 2", "finished")] == [1, 1, 1]


def test_a_robot_that_does_not_say_where_it_is_gets_no_order_and_that_is_said():
    stage = Stage(*FETCH, habits=("no_position",)).dispatch()
    stage.to_the_end()
    assert stage.orders == []
    assert "agvPosition" in {getattr(effect, "field", "") for effect in stage.effects}
    assert ended(stage) == "aborted undeliverable"


@pytest.mark.parametrize(
    ("habits", "reason", "orders"),
    [((), "rejected", 1), (("rejects_in_silence",), "undeliverable", 10), (("no_references",), "undeliverable", 10)],
)
def test_an_order_that_it_does_not_take(habits, reason, orders):
    """Only its own words reject it; of silence the site makes what it makes of any."""
    stage = Stage(*FETCH, habits=habits)
    stage.robot.refuse = "orderError"
    stage.dispatch().to_the_end()
    assert ended(stage) == f"aborted {reason}"
    assert "accepted" not in stage.words
    assert len(stage.orders) <= orders
    assert not stage.run(5).talk._orders._refused, "of what is over nothing is kept"


@pytest.mark.parametrize("lost", [1, 3])
def test_orders_that_are_lost(lost):
    stage, count = Stage(*FETCH), []
    stage.net.down = lambda part, message: (
        [] if part == "order" and count.append(1) is None and len(count) <= lost else [0.02]
    )
    assert stage.dispatch().to_the_end().words == DONE


FROZEN = {
    # seconds, lost what came meanwhile → how it ends
    "5 s": (5, False, "success"),
    "26 s, and runs the order late": (26, False, "success"),
    "26 s, and lost it": (26, True, "success"),
    "60 s, and runs the order when it was given up": (60, False, "aborted undeliverable"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_a_robot_that_froze_before_its_order(name):
    seconds, loses, how = FROZEN[name]
    stage = Stage(*FETCH).run(1)
    stage.robot.freeze(seconds, loses=loses)
    stage.dispatch().to_the_end()
    stage.run(30)
    assert ended(stage) == how
    assert len({order["orderId"] for order in stage.orders}) == 1
    assert stage.robot.resting, "it drives for nobody"
    assert stage.words.count("accepted") <= 1


@pytest.mark.parametrize("seconds", [0.8, 2, 5, 8])
def test_a_robot_that_froze_on_its_way(seconds):
    stage = Stage(*FETCH).dispatch().run(seconds)
    stage.robot.freeze(26, loses=True)
    assert stage.to_the_end().words == DONE


@pytest.mark.parametrize("seconds", [0.8, 2, 5, 8])
def test_a_robot_that_forgot_its_order_is_asked_and_given_up(seconds):
    stage = Stage(*FETCH).dispatch().run(seconds)
    stage.robot.reboot()
    stage.robot.tell()
    stage.to_the_end(60)
    assert ended(stage) == "aborted robot_fault"
    assert not [word for word in stage.words if word.startswith("failed")]
    assert len({order["orderId"] for order in stage.orders}) == 1, "it was given nothing again"


FAILS = {
    # policy of the pick → words, how it ends
    "abort": ({}, ["accepted", "completed 1", "failed 2/1"], "aborted robot_fault"),
    "again": (
        {"failure_retries": 1},
        ["accepted", "completed 1", "failed 2/1", "completed 2", "completed 3", "finished"],
        "success",
    ),
    "skip": ({"failure_then": "skip"}, ["accepted", "completed 1", "failed 2/1", "completed 3", "finished"], "success"),
}


@pytest.mark.parametrize("habit", ["", "keeps_all_nodes", "ignores_released", "fails_in_errors"])
@pytest.mark.parametrize("name", FAILS)
def test_a_step_that_fails(name, habit):
    policy, words, how = FAILS[name]
    stage = Stage(drive("A"), pick("B", **policy), drop("C"), habits=(habit,) if habit else ())
    stage.robot.fail = {"pick"}
    stage.dispatch().run_until(lambda s: "failed 2/1" in s.words)
    stage.robot.fail = set()
    stage.to_the_end()
    assert [word for word in stage.words if word != "cancelled"] == words
    assert ended(stage) == how
    assert stage.robot.resting


def test_a_drive_that_takes_too_long_is_begun_anew_from_where_it_is():
    stage = Stage(drive("A", timeout_retries=1), pick("B"), drop("C"))
    stage.robot.drive_s = 100
    stage.dispatch().run_until(lambda s: s.site.steps[1].attempt == 2)
    stage.robot.drive_s = 3
    assert stage.to_the_end().words == DONE
    first, again = (next(o for o in stage.orders if o["orderId"].endswith(f".1.1.{n}")) for n in (1, 2))
    assert first["orderId"] != again["orderId"]
    assert len(set(stage.instant("cancelOrder"))) == 1


def test_the_last_step_is_skipped_while_it_is_at_it():
    stage = Stage(drive("A", timeout_then="skip"))
    stage.robot.drive_s = 100
    stage.dispatch().to_the_end()
    assert (stage.words, ended(stage)) == (["accepted", "finished"], "success")
    assert ("cancelled", stage.orders[0]["orderId"]) in stage.robot.did


@pytest.mark.parametrize("seconds", [0.8, 2, 5])
def test_it_is_taken_over_by_hand(seconds):
    stage = Stage(*FETCH).dispatch().run(seconds)
    stage.robot.go_manual()
    stage.to_the_end(60)
    assert ended(stage) == "aborted robot_fault"
    assert {say.data["mode"] for say in stage.said if say.type == "robot.state"} >= {"manual"}


def test_an_order_that_is_being_ended_already_is_not_ended_twice():
    """The site's cancel comes while ours is on its way; the second would be an error at the robot, or kill its next order."""
    stage = Stage(*FETCH).dispatch().run(2)
    stage.net.up = lambda message: [2.5]
    stage.robot.mode = "MANUAL"
    stage.robot.tell()
    stage.to_the_end(60)
    assert ended(stage) == "aborted robot_fault"
    assert len(set(stage.instant("cancelOrder"))) == 1
    lost = Stage(*FETCH).dispatch().run(2)
    lost.net.down = lambda part, message: []
    lost.robot.mode = "MANUAL"
    lost.robot.tell()
    lost.run(40)
    assert len(set(lost.instant("cancelOrder"))) == 2, "one that is never answered is followed by the site's own"


def test_another_master_takes_it():
    stage = Stage(drive("A"), drive("B")).dispatch().run_until(lambda s: "completed 1" in s.words)
    stage.robot._end_order()
    stage.robot.out.clear()
    stage.robot.hear("order", THEIRS)
    stage.to_the_end()
    assert stage.words[2] == "failed 2/1"
    assert "theirs" in stage.site.row.abort_detail
    assert ("finished", "theirs") in stage.robot.did, "theirs is left alone"
    assert not stage.instant("cancelOrder")


def test_it_is_busy_for_another_master_and_is_given_its_order_after_that():
    stage = Stage(*FETCH).run(1)
    stage.robot.drive_s = 20
    stage.robot.hear("order", THEIRS)
    stage.run(1).dispatch().run(10)
    assert stage.orders == []
    stage.robot.drive_s = 3
    assert stage.to_the_end().words == DONE


def test_an_update_that_it_does_not_take():
    stage = Stage(drive("A"), drive("B"), drive("C"), profile=Profile(base_steps=1)).dispatch()
    stage.run_until(lambda s: "accepted" in s.words)
    stage.robot.refuse = "orderUpdateError"
    stage.run_until(lambda s: s.site.row.state in FINAL)
    assert "failed 2/1" in stage.words
    assert stage.run(30).robot.resting


@pytest.mark.parametrize("copies", [[0.02, 0.3, 1.1], [0.5, 0.02]])
def test_messages_that_come_twice_and_out_of_order(copies):
    stage = Stage(*EVERYTHING)
    stage.net.down = lambda part, message: copies
    stage.net.up = lambda message: [0.02, 0.02]
    stage.dispatch().to_the_end()
    assert stage.words == ["accepted", *[f"completed {n}" for n in range(1, 7)], "finished"]


def test_two_thirds_of_its_states_are_lost():
    stage, count = Stage(*EVERYTHING), []
    stage.net.up = lambda message: [0.02] if count.append(1) is None and len(count) % 3 == 0 else []
    stage.dispatch().to_the_end()
    assert sorted(stage.words) == sorted(["accepted", *[f"completed {n}" for n in range(1, 7)], "finished"])


@pytest.mark.parametrize("idle_cancel", [True, False])
def test_a_cancel_while_it_is_idle_would_kill_the_next_order(idle_cancel):
    """Such a brand is never sent one; the next mission runs."""
    stage = Stage(*FETCH, habits=("cancel_waits",), profile=Profile(idle_cancel=idle_cancel)).run(1).dispatch()
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.run(1)
    stage.cancel()
    stage.to_the_end()
    assert stage.robot.kills_next is idle_cancel
