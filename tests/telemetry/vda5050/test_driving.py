"""Missions driven from the order to the last receipt, with a robot that keeps to the standard."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from telemetry.drivers.contract import Complaint, Offers
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050.stage import START, Stage, charge, custom, drive, drop, pick, wait

FETCH = (drive("A"), pick("B"), drop("C"))
MISSIONS = {
    # steps, profile, orders that are sent (without updates)
    "navigate, pick and drop": (FETCH, {}, 1),
    "every command": ((drive("A"), pick("A"), wait(5), drop("B"), charge(80, "C"), drive("D")), {}, 3),
    "the robot waits by itself": ((drive("A"), wait(5), drive("B")), {"wait": "wait"}, 1),
    "waits first and last": ((wait(5), wait(3), drive("B"), wait(4)), {}, 2),
    "at once, where it stands": ((custom("honk"), pick("B"), custom("turn"), drop("B")), {}, 1),
    "the same places again and again": (tuple(drive(x) for x in "ABAABB"), {"base_steps": 1}, 1),
    "node ids as they are": (tuple(drive(x) for x in "ABAB"), {"unique_node_ids": False}, 1),
    "one step ahead": (tuple(drive(x) for x in "ABCDABCD"), {"base_steps": 1}, 1),
    "charge at the end": ((drive("A"), charge(70)), {}, 1),
    "charge twice": ((charge(60, "A"), charge(80, "B")), {}, 2),
}


@pytest.mark.parametrize("lag_s", [0.0, 1.0])
@pytest.mark.parametrize("name", MISSIONS)
def test_a_mission_from_its_order_to_its_end(name, lag_s):
    steps, profile, orders = MISSIONS[name]
    stage = Stage(*steps, profile=Profile(**profile), lag_s=lag_s).dispatch().to_the_end()
    done = [f"completed {number}" for number in range(1, len(steps) + 1)]
    assert stage.words == ["accepted", *done, "finished"]
    assert stage.site.row.state == "success"
    assert len({order["orderId"] for order in stage.orders}) == orders
    assert len(stage.orders) == len({(o["orderId"], o["orderUpdateId"]) for o in stage.orders}), "sent more than once"


@pytest.mark.parametrize("half_seconds", range(0, 90, 3))
def test_a_gateway_that_is_restarted_in_the_middle_goes_on(half_seconds):
    """Nothing is sent twice that the robot shows, and no word has another id."""
    steps, _, orders = MISSIONS["every command"]
    stage = Stage(*steps).dispatch().run(half_seconds / 2)
    stage.restart_driver()
    stage.to_the_end()
    done = [f"completed {number}" for number in range(1, len(steps) + 1)]
    assert stage.words == ["accepted", *done, "finished"]
    assert len({order["orderId"] for order in stage.orders}) == orders


def test_what_is_ahead_is_released_one_drive_after_the_other():
    stage = Stage(*[drive(x) for x in "ABCD"], profile=Profile(base_steps=1)).dispatch().to_the_end()
    told = [(o["orderUpdateId"], [(n["sequenceId"], n["released"]) for n in o["nodes"]]) for o in stage.orders]
    assert told == [
        (0, [(0, True), (2, True), (4, False), (6, False), (8, False)]),
        (1, [(2, True), (4, True), (6, False), (8, False)]),
        (2, [(4, True), (6, True), (8, False)]),
        (3, [(6, True), (8, True)]),
    ]


@pytest.mark.parametrize("before, after", [(3, 1), (2, 1), (1, 3), (1, 1000), (1000, 1)])
@pytest.mark.parametrize("half_seconds", range(3, 40, 6))
def test_how_much_is_released_ahead_may_be_set_otherwise_while_it_drives(before, after, half_seconds):
    """An update goes on from what the robot has, and not from what it would have been given now."""
    stage = Stage(*[drive(x) for x in "ABCDABCD"], profile=Profile(base_steps=before)).dispatch()
    stage.run(half_seconds / 2)
    stage.profile = Profile(base_steps=after)
    stage.spec = replace(stage.spec, profile=stage.profile)
    stage.restart_driver()
    stage.to_the_end()
    assert stage.words == ["accepted", *(f"completed {number}" for number in range(1, 9)), "finished"]
    assert len({order["orderId"] for order in stage.orders}) == 1


def test_a_robot_that_asks_for_more_base_gets_it():
    stage = Stage(*[drive(x) for x in "ABCD"], profile=Profile(base_steps=1)).dispatch()
    stage.run_until(lambda s: "accepted" in s.words)
    asks = stage.robot.state() | {"newBaseRequest": True}
    stage._heard("state", asks)()
    assert [order["orderUpdateId"] for order in stage.orders] == [0, 1]


def test_a_lost_order_is_sent_again_by_the_clock_with_the_same_content():
    stage = Stage(*FETCH)
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.dispatch().run(26)
    stage.robot.tell()
    stage.run(1)
    times = [(at - START).total_seconds() for at, part, _ in stage.sent if part == "order"]
    assert [round(b - a) for a, b in pairwise(times)] == [2, 4, 8, 8]
    headers = {order.pop("headerId") for order in stage.orders}, {order.pop("timestamp") for order in stage.orders}
    assert [len(h) for h in headers] == [5, 5]
    assert all(order == stage.orders[0] for order in stage.orders)


def test_states_in_between_make_nothing_be_sent_again():
    """A robot that answers each message with a state and a master that answers each state with an order make a storm."""
    stage = Stage(*FETCH)
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.dispatch().run(1)
    before = len(stage.sent)
    for _ in range(30):
        stage.robot.tell()
    stage.run(1)
    assert stage.talk._known.picture.header_id >= 30
    assert len(stage.sent) - before <= 1


def test_it_stops_charging_before_it_takes_an_order():
    stage = Stage(*FETCH, habits=("strict",))
    stage.robot.charging = True
    stage.run(2).dispatch().to_the_end()
    assert stage.words[-1] == "finished"
    assert stage.instant("stopCharging")


def test_it_stops_charging_by_the_name_that_its_brand_has_for_it():
    stage = Stage(*FETCH, habits=("strict",), profile=Profile(stop_charging="undock"))
    stage.robot.charging, stage.robot.unplugs = True, "undock"
    stage.run(2).dispatch().to_the_end()
    assert stage.words[-1] == "finished"
    assert stage.instant("undock")
    assert not stage.instant("stopCharging")


def test_one_that_goes_on_saying_that_it_charges_is_given_its_order_all_the_same():
    stage = Stage(*FETCH, brand={"accept_s": 120})
    stage.robot.charging, stage.robot.unplugs = True, "nothing"
    stage.run(2).dispatch().run(25)
    assert stage.orders == []
    assert stage.to_the_end().words[-1] == "finished"


def test_an_order_that_it_takes_for_nothing_is_not_sent_round_after_round():
    """A robot that was silent all the while gets all tries again; this one talks, and the site does not ask again."""
    stage = Stage(*FETCH, brand={"accept_s": 600})
    stage.robot.every_s = 3
    stage.net.down = lambda part, message: [] if part == "order" else [0.02]
    stage.dispatch().run(120)
    assert len(stage.orders) == 5


def test_an_order_waits_while_it_is_in_manual_mode():
    stage = Stage(*FETCH)
    stage.robot.mode = "MANUAL"
    stage.run(1).dispatch().run(10)
    assert stage.orders == []
    stage.robot.mode = "AUTOMATIC"
    stage.robot.tell()
    assert stage.to_the_end().words[-1] == "finished"


def test_a_question_is_answered_by_the_next_state():
    stage = Stage(*FETCH).dispatch().run_until(lambda s: "completed 1" in s.words)
    question = stage.ask()
    stage.run(2)
    (answer,) = [say for say in stage.said if say.data.get("reply_to") == str(question)]
    row = stage.site.row
    assert answer.data == {
        "mode": "running", "mission": str(row.pk), "dispatch_no": 1, "step": 2, "ended": "", "completed": [1],
        "reply_to": str(question),
    }  # fmt: skip


def test_numbers_of_messages_go_on_rising_after_a_restart():
    stage = Stage(*FETCH).run(2)
    before = [message["headerId"] for _, part, message in stage.sent if part == "instantActions"]
    stage.restart_driver()
    stage.robot.tell()
    stage.run(3)
    after = [message["headerId"] for _, part, message in stage.sent if part == "instantActions"][len(before) :]
    assert after
    assert sorted({*before, *after}) == before + after


def test_a_question_that_was_not_answered_for_long_is_forgotten():
    stage = Stage(*FETCH).run(1)
    stage.net.up = lambda message: []
    question = stage.ask()
    stage.run(62)
    stage.net.up = lambda message: [0.02]
    stage.robot.tell()
    stage.run(2)
    assert not [say for say in stage.said if say.data.get("reply_to") == str(question)]


def test_a_question_to_a_robot_without_an_order():
    stage = Stage(*FETCH).run(1)
    question = stage.ask()
    stage.run(2)
    (answer,) = [say.data for say in stage.said if say.data.get("reply_to") == str(question)]
    assert (answer["mode"], answer["mission"], answer["ended"]) == ("idle", None, "")


def test_a_factsheet_says_what_it_can_do():
    stage = Stage(*FETCH).run(1)
    sheet = {"protocolFeatures": {"agvActions": [{"actionType": "pick", "actionScopes": ["NODE"]}]}}
    stage._heard("factsheet", sheet)()
    offers = [effect for effect in stage.effects if isinstance(effect, Offers)]
    assert [o.capabilities >= {"navigate", "pick"} and "drop" not in o.capabilities for o in offers] == [True]


def test_nothing_is_sent_before_its_state_is_known():
    stage = Stage(*FETCH).dispatch()
    stage.robot.out.clear()
    stage.net.down = lambda part, message: []
    stage._heard("connection", {"connectionState": "ONLINE"})()
    stage.run(5)
    assert {part for _, part, _ in stage.sent} == {"instantActions"}
    assert stage.instant("stateRequest")


def test_a_command_that_nobody_knows_is_complained_of_once():
    stage = Stage(*FETCH).run(1)
    stage._command("robot.dance", {})
    stage.run(5)
    assert [e.field for e in stage.effects if isinstance(e, Complaint)] == ["command"]
