"""How a simulated robot behaves: time is an argument, nothing waits."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.protocol import decode_up
from telemetry.simulator.activities import Place
from telemetry.simulator.machine import Machine
from telemetry.simulator.outbox import Outbox

PLACES = [Place("Dock A", 0.0, 0.0), Place("Shelf 3", 12.0, 0.0, 1.5)]
ABLE = ["navigate", "pick", "drop", "wait", "charge", "custom"]
MISSION = "0c9f6a1e-30a4-4b8e-8f4e-5e2a35c5f001"


class Driver:
    """A machine with a clock, and what it said."""

    def __init__(self, **options):
        self.machine = Machine("RB-001", options.pop("able", ABLE), PLACES, "Dock A", **options)
        self.machine.body.pace = 1.0
        self.now, self.said = 0.0, []

    def command(self, type, mission=MISSION, dispatch_no=1, **data):
        about = (None, None) if type.startswith("robot.") else (mission, dispatch_no)
        body = {
            "type": type,
            "msg_id": f"{type} {self.now}",
            "mission": about[0],
            "dispatch_no": about[1],
            "data": data,
        }
        return self._hear(self.machine.obey(body, self.now))

    def assign(self, *commands, **about):
        steps = [
            {"number": n, "command": name, "params": params, "timeout_s": 60, "attempt": 1}
            for n, (name, params) in enumerate(commands, 1)
        ]
        return self.command("mission.assign", **about, title="Fetch", timeout_s=600, steps=steps)

    def run(self, seconds):
        """Time passes in ticks of 0.1 s; what was said meanwhile."""
        before = len(self.said)
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self._hear(self.machine.step(self.now))
        return self.said[before:]

    def _hear(self, events):
        self.said += events
        return events

    def state(self):
        return self.machine.state().data


def types(events):
    return [e.type.removeprefix("mission.") for e in events]


GO, WAIT = ("navigate", {"place": "Shelf 3"}), ("wait", {"seconds": 2})


def test_a_mission_goes_step_by_step_with_every_receipt():
    robot = Driver()
    assert types(robot.assign(GO, WAIT)) == ["accepted", "step_started", "robot.state"]
    assert robot.machine.mode == "running"
    assert robot.run(9.8) == []
    assert types(robot.run(0.4)) == ["step_completed", "step_started"]
    assert types(robot.run(2.2)) == ["step_completed", "finished", "robot.state"]
    assert [e.step for e in robot.said if "step" in e.type] == [1, 1, 2, 2]
    assert robot.state() == {
        "mode": "idle", "mission": MISSION, "dispatch_no": 1, "step": None, "ended": "finished", "completed": [1, 2],
        "reply_to": None,
    }  # fmt: skip


def test_it_drives_in_a_straight_line_at_its_speed_and_uses_battery():
    robot = Driver()
    battery = robot.machine.body.battery
    robot.assign(GO)
    robot.run(5)
    body = robot.machine.body
    assert (body.x, body.y, body.theta, body.speed, body.place) == (pytest.approx(6.0), 0.0, 0.0, 1.2, "")
    assert body.battery < battery
    robot.run(5.2)
    assert (body.x, body.theta, body.speed, body.place) == (12.0, 1.5, 0.0, "Shelf 3")


@pytest.mark.parametrize("speed_up", [1, 10, 200])
def test_time_can_run_faster(speed_up):
    robot = Driver(speed_up=speed_up)
    robot.assign(GO, ("pick", {"place": "Shelf 3"}), WAIT)
    took = 0.0
    while robot.machine.work:
        robot.run(0.1)
        took += 0.1
    assert took == pytest.approx(16 / speed_up, abs=0.35)


def test_coordinates_from_the_site_go_before_what_the_robot_knows():
    robot = Driver()
    robot.assign(("navigate", {"place": "New place", "x": 1.2, "y": 0.0, "theta": 3.0}))
    robot.run(1.1)
    assert (robot.machine.body.place, robot.machine.body.theta) == ("New place", 3.0)


def test_it_charges_until_the_wanted_level():
    robot = Driver()
    robot.machine.body.battery = 90.0
    robot.assign(("charge", {"place": "", "until_percent": 95}))
    robot.run(1)
    assert robot.machine.mode == "charging"
    robot.run(4.5)
    assert robot.machine.mode == "idle"
    assert robot.machine.body.battery == pytest.approx(95, abs=0.1)


def test_an_idle_robot_with_a_low_battery_tops_up_by_itself_and_still_takes_work():
    robot = Driver()
    robot.machine.body.battery = 20.0
    assert types(robot.run(0.3)) == ["robot.state"]
    assert robot.machine.mode == "charging"
    assert types(robot.assign(WAIT)) == ["accepted", "step_started", "robot.state"]


def test_a_process_that_was_halted_is_a_robot_that_stood_still():
    robot = Driver()
    robot.assign(GO)
    robot.now += 3600
    robot.machine.step(robot.now)
    assert robot.machine.body.x < 1.0


@pytest.mark.parametrize(
    ("prepare", "able", "steps", "why"),
    [
        ([], ["navigate"], [GO, WAIT], "cannot wait"),
        ([], ABLE, [("dance", {})], "cannot dance"),
        ([], ABLE, [], "nothing to do"),
        ([("mission.assign", "other")], ABLE, [WAIT], "busy with mission other"),
        (["fault"], ABLE, [WAIT], "fault E7"),
    ],
)
def test_what_it_cannot_do_is_rejected_and_stays_rejected(prepare, able, steps, why):
    robot = Driver(able=able)
    for what in prepare:
        robot.machine.fail("E7", "wheel") if what == "fault" else robot.assign(WAIT, mission=what[1])
    event = robot.assign(*steps)[0]
    assert (event.type, event.data["why"], event.mission) == ("mission.rejected", why, MISSION)
    assert types(robot.assign(*steps))[0] == "rejected"


def test_the_same_assignment_again_is_only_confirmed():
    robot = Driver()
    robot.assign(WAIT)
    robot.run(1)
    assert types(robot.assign(WAIT)) == ["accepted"]
    assert types(robot.run(1.2)) == ["step_completed", "finished", "robot.state"]
    assert types(robot.assign(WAIT)) == ["finished"]
    assert types(robot.assign(WAIT, dispatch_no=2)) == ["accepted", "step_started", "robot.state"]


def test_pause_and_resume():
    robot = Driver()
    robot.assign(GO)
    robot.run(2)
    assert types(robot.command("mission.pause")) == ["paused", "robot.state"]
    x = robot.machine.body.x
    assert robot.run(5) == []
    assert (robot.machine.body.x, robot.machine.body.speed, robot.machine.mode) == (x, 0.0, "paused")
    assert types(robot.command("mission.pause")) == ["paused"]
    assert types(robot.command("mission.resume")) == ["resumed", "robot.state"]
    assert types(robot.run(9)) == ["step_completed", "finished", "robot.state"]


def test_cancel_ends_the_mission_where_it_stands():
    robot = Driver()
    robot.assign(GO)
    robot.run(2)
    assert types(robot.command("mission.cancel")) == ["cancelled", "robot.state"]
    assert robot.state()["ended"] == "cancelled"
    assert robot.run(3) == []
    assert types(robot.command("mission.cancel")) == ["cancelled"]


def test_cancel_of_a_finished_mission_gets_its_last_word():
    robot = Driver()
    robot.assign(WAIT)
    robot.run(3)
    assert types(robot.command("mission.cancel")) == ["finished"]


def test_cancel_of_an_unknown_mission_is_confirmed_and_it_is_never_begun():
    robot = Driver()
    event = robot.command("mission.cancel")[0]
    assert (event.type, event.data["why"], event.mission) == ("mission.cancelled", "unknown", MISSION)
    assert types(robot.assign(WAIT)) == ["cancelled"]
    assert robot.machine.work is None


def test_cancel_of_another_dispatch_leaves_the_mission_alone():
    robot = Driver()
    robot.assign(WAIT, dispatch_no=2)
    assert types(robot.command("mission.cancel", dispatch_no=1)) == ["cancelled"]
    assert robot.machine.work.key == (MISSION, 2)


def test_a_stop_is_latched_until_released_and_the_mission_waits_for_resume():
    robot = Driver()
    robot.assign(GO)
    robot.run(2)
    events = robot.command("robot.stop", why="blocked aisle")
    assert types(events) == ["robot.stopped", "paused", "robot.state"]
    assert events[0].data["reply_to"] == f"robot.stop {robot.now}"
    x = robot.machine.body.x
    assert types(robot.command("mission.resume")) == ["paused"]
    assert robot.run(3) == []
    assert types(robot.command("robot.release")) == []
    assert (robot.machine.mode, robot.run(3), robot.machine.body.x) == ("paused", [], x)
    assert types(robot.command("mission.resume")) == ["resumed", "robot.state"]
    assert "finished" in types(robot.run(9))


def test_a_stop_without_a_mission():
    robot = Driver()
    assert types(robot.command("robot.stop")) == ["robot.stopped", "robot.state"]
    assert robot.machine.mode == "paused"
    assert types(robot.command("robot.stop")) == ["robot.stopped"]
    assert types(robot.assign(WAIT)) == ["accepted", "step_started", "paused"]
    assert robot.run(5) == []
    assert types(robot.command("robot.release")) == []
    assert types(robot.command("mission.cancel")) == ["cancelled", "robot.state"]
    assert robot.machine.mode == "idle"


def test_a_step_that_fails_waits_for_what_the_site_decides():
    robot = Driver()
    robot.assign(("custom", {"name": "fail"}), WAIT)
    failed = robot.run(4)[-1]
    assert (failed.type, failed.step, failed.attempt) == ("mission.step_failed", 1, 1)
    assert robot.run(10) == []
    assert types(robot.command("mission.retry_step", step=1, attempt=2)) == ["step_started"]
    failed = robot.run(4)[-1]
    assert (failed.type, failed.step, failed.attempt) == ("mission.step_failed", 1, 2)
    assert types(robot.command("mission.skip_step", step=1, attempt=2)) == ["step_started"]
    assert robot.said[-1].step == 2
    assert types(robot.run(3)) == ["step_completed", "finished", "robot.state"]
    assert robot.state()["completed"] == [2], "what was given up is not claimed"


def test_a_step_under_way_is_begun_anew_under_the_new_attempt():
    robot = Driver()
    robot.assign(GO, WAIT)
    robot.run(5)
    (began,) = robot.command("mission.retry_step", step=1, attempt=2)
    assert (began.type, began.step, began.attempt) == ("mission.step_started", 1, 2)
    robot.run(6)  # from where it stood
    done = next(e for e in robot.said if e.type == "mission.step_completed")
    assert (done.step, done.attempt) == (1, 2)
    assert [(e.step, e.attempt) for e in robot.said if e.type == "mission.step_started"] == [(1, 1), (1, 2), (2, 1)]


def test_a_retry_that_comes_twice_or_too_late_begins_nothing():
    robot = Driver()
    robot.assign(GO, WAIT)
    robot.command("mission.retry_step", step=1, attempt=3)
    doing = robot.machine.work.activity
    assert types(robot.command("mission.retry_step", step=1, attempt=3)) == ["step_started"]
    assert types(robot.command("mission.retry_step", step=1, attempt=2)) == ["robot.state"]
    assert types(robot.command("mission.retry_step", step=2, attempt=2)) == ["robot.state"]
    assert robot.machine.work.activity is doing


def test_what_is_done_is_said_again_and_nothing_else_is_given_up():
    robot = Driver()
    robot.assign(WAIT, GO, WAIT)
    robot.run(2.5)
    (done,) = robot.command("mission.retry_step", step=1, attempt=2)
    assert (done.type, done.step, done.attempt) == ("mission.step_completed", 1, 2)
    assert types(robot.command("mission.skip_step", step=1, attempt=2)) == ["robot.state"]
    assert robot.machine.work.number == 2


def test_giving_up_the_last_step_finishes():
    robot = Driver()
    robot.assign(GO)
    assert types(robot.command("mission.skip_step", step=1, attempt=1)) == ["finished", "robot.state"]
    assert robot.state()["ended"] == "finished"


def test_a_paused_robot_begins_again_when_it_is_resumed():
    robot = Driver()
    robot.assign(WAIT)
    robot.command("mission.pause")
    robot.command("mission.retry_step", step=1, attempt=2)
    assert robot.run(5) == []
    robot.command("mission.resume")
    assert types(robot.run(2.2)) == ["step_completed", "finished", "robot.state"]
    assert robot.said[-3].attempt == 2


def test_an_unknown_place_fails_the_step():
    robot = Driver()
    robot.assign(("navigate", {"place": "Nowhere"}))
    assert robot.run(0.1)[0].data == {"why": "does not know the place Nowhere"}


def test_a_fault_halts_and_after_it_the_mission_goes_on():
    robot = Driver()
    robot.assign(("custom", {"name": "fault"}))
    assert types(robot.run(3.2)) == ["robot.fault", "robot.state"]
    assert robot.machine.mode == "fault"
    assert types(robot.run(11)) == ["robot.fault_cleared", "robot.state", "step_completed", "finished", "robot.state"]


def test_a_question_is_answered_with_its_id():
    robot = Driver()
    robot.assign(GO)
    (answer,) = robot.command("robot.query_state")
    assert answer.data == {
        "mode": "running", "mission": MISSION, "dispatch_no": 1, "step": 1, "ended": "", "completed": [],
        "reply_to": f"robot.query_state {robot.now}",
    }  # fmt: skip


def test_the_same_seed_makes_the_same_robot():
    def made(seed):
        return Machine("RB-001", ABLE, PLACES, seed=seed).body.battery

    assert made(1) == made(1) != made(2)


def test_what_it_says_is_what_the_protocol_knows():
    from telemetry.protocol import COMMANDS
    from telemetry.simulator.machine import _COMMANDS

    assert set(_COMMANDS) == set(COMMANDS)


ORDERS = st.one_of(
    st.tuples(st.just("run"), st.floats(0.1, 8)),
    st.tuples(
        st.sampled_from(["pause", "resume", "cancel", "retry_step", "skip_step", "stop", "release", "query_state"]),
        st.integers(1, 3),
    ),
    st.tuples(st.just("assign"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["fail", "clear"]), st.none()),
)
STEPS = (GO, WAIT, ("custom", {"name": "fail"}), ("custom", {"name": "fault"}), ("charge", {"until_percent": 100}))


@settings(max_examples=150, deadline=None)
@given(st.lists(ORDERS, max_size=25), st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
def test_whatever_it_is_told_it_says_what_the_protocol_takes_and_keeps_to_its_word(orders, steps):
    robot, outbox, ended = Driver(), Outbox("RB-001"), {}
    outbox.begin(1, {})
    for order, value in orders:
        before = robot.machine.work
        if order == "run":
            said, asked = robot.run(value), False
        elif order in ("fail", "clear"):
            said, asked = (robot.machine.fail("E1", "x") if order == "fail" else robot.machine.clear_fault()), False
        elif order == "assign":
            said, asked = robot.assign(*steps, dispatch_no=value), True
        else:
            robot_wide = order in ("stop", "release", "query_state")
            said = robot.command(f"robot.{order}" if robot_wide else f"mission.{order}", dispatch_no=value)
            asked = True
        for event in said:
            if event.type == "robot.state":
                event = event._replace(data=event.data | {"reply_to": None})
            elif event.type == "robot.stopped":
                event = event._replace(data={})
            outbox.add(event, datetime(2026, 11, 29, 10, 0, tzinfo=UTC))
            if event.dispatch_no in ended and event.type.startswith("mission."):
                assert asked, f"{event.type} after {ended[event.dispatch_no]}"
                assert event.type == ended[event.dispatch_no]
            elif event.type in ("mission.finished", "mission.cancelled", "mission.rejected"):
                ended[event.dispatch_no] = event.type
        if robot.machine.latched and before:
            assert robot.machine.body.speed == 0
    for text in iter(lambda: outbox.due(0.0), []):
        for message in text:
            up = decode_up(message)
            outbox.acknowledged(str(up.msg_id), "stored")
