"""One link in memory, with its own clock: the order of commands, when they go again, and what is no try."""

import uuid

from telemetry.gateways import link as one_link
from telemetry.gateways.http.polling import PolledLink
from telemetry.gateways.link import JITTER, RETRY_S, SILENT_S, Link
from telemetry.gateways.rows import OpenCommand

ONE, TWO, THREE = (uuid.UUID(int=n) for n in (1, 2, 3))


def opened(*commands):
    return [OpenCommand(id, kind, f"{kind} {id.int}") for id, kind in commands]


def test_commands_go_out_in_order_and_stops_before_all_others(link):
    link.learn(opened((ONE, "mission.assign"), (TWO, "mission.pause"), (THREE, "robot.stop")))
    assert link.take_due(0.0) == ["robot.stop 3", "mission.assign 1", "mission.pause 2"]
    assert link.take_due(0.0) == []


def test_a_stop_goes_out_while_others_wait_for_their_next_try(link):
    link.learn(opened((ONE, "mission.assign")))
    link.take_due(0.0)
    link.learn(opened((ONE, "mission.assign"), (TWO, "robot.stop")))
    assert link.take_due(0.1) == ["robot.stop 2"]


def test_an_unacknowledged_command_is_sent_again_after_1_2_4_8_16_s_and_then_every_16(link):
    link.learn(opened((ONE, "mission.assign")))
    sent = []
    for tenths in range(1000):
        link.learn(opened((ONE, "mission.assign")))
        sent += [tenths / 10] * len(link.take_due(tenths / 10))
    assert RETRY_S == (1, 2, 4, 8, 16)
    assert sent == [0, 1, 3, 7, 15, 31, 47, 63, 79, 95]


def test_an_acknowledged_command_is_not_sent_again_until_it_was_done_and_opened_again(link):
    link.learn(opened((ONE, "mission.assign")))
    assert link.acknowledge(ONE) is None  # it was not sent yet
    link.take_due(0.0)
    assert link.acknowledge(ONE).command.id == ONE
    assert link.acknowledge(ONE) is None
    link.learn(opened((ONE, "mission.assign")))
    assert link.take_due(100.0) == []
    link.learn([])
    link.learn(opened((ONE, "mission.assign")))
    assert link.take_due(101.0) == ["mission.assign 1"]


def test_a_robot_that_speaks_of_endless_sessions_costs_no_more_than_one_that_speaks_of_many(link):
    """As many as a restore leaves between two generations; the newest count."""
    for session in range(1, 3 * one_link.TOLD):
        link.heard_of((session,))
        link.passed({session: 5})
    assert len(link.ask().sessions) <= one_link.TOLD + 1
    assert len(link.applied) <= 2 * one_link.TOLD
    assert {3 * one_link.TOLD - 1, 2 * one_link.TOLD} <= link.applied.keys() & set(link.ask().sessions)


def test_a_withdrawn_command_is_forgotten(link):
    link.learn(opened((ONE, "mission.assign")))
    link.take_due(0.0)
    link.learn([])
    assert link.take_due(100.0) == []
    assert link.acknowledge(ONE) is None


def test_waits_between_tries_are_spread_so_that_a_fleet_does_not_repeat_in_step():
    waits = []
    for _ in range(200):
        link = Link("RB-001", 7, 1, send=None, close=None)
        one = uuid.uuid4()
        link.learn(opened((one, "mission.assign")))
        link.take_due(0.0)
        waits.append(link.commands[one].due)
    assert RETRY_S[0] * (1 - JITTER) <= min(waits) < max(waits) <= RETRY_S[0] * (1 + JITTER)
    assert len(set(waits)) > 100


def test_a_robot_that_is_silent_is_sent_nothing_but_stops_until_it_is_heard_again(link):
    link.learn(opened((ONE, "mission.assign"), (TWO, "robot.stop")))
    link.heard = 0.0
    assert link.take_due(SILENT_S + 0.1) == ["robot.stop 2"]
    assert link.commands[ONE].sent == 0
    link.heard = SILENT_S + 1
    assert link.take_due(SILENT_S + 1) == ["mission.assign 1"]  # the wait did not grow meanwhile


def test_what_could_not_leave_is_no_try(link):
    link.learn(opened((ONE, "mission.assign"), (TWO, "mission.pause")))
    _first, second = link.take_due(0.0)
    assert link.settle([second]) == ([ONE], [TWO])
    assert [link.commands[id].sent for id in (ONE, TWO)] == [1, 0]
    assert link.settle([]) == ([], [])


async def test_a_robot_over_http_is_tried_only_while_a_poll_is_open():
    polled = PolledLink("RB-001", 7, 1, {}, clock=lambda: 0.0)
    polled.learn(opened((ONE, "mission.assign")))
    for second in range(100):
        polled.take_due(float(second))
    assert polled.settle([]) == ([], []) and polled.commands[ONE].sent == 0
    poll = polled.begin(25)
    polled.take_due(100.0)
    assert await poll.answer == (["mission.assign 1"], "") and polled.over == "HTTP"
    assert polled.settle([]) == ([ONE], [])


def test_a_link_is_silent_when_its_robot_was_not_heard_for_long(link):
    link.heard = 100.0
    assert [link.ask(100 + SILENT_S + late).quiet for late in (0, 0.1)] == [False, True]
    assert Link("RB-001", 7, 1, send=None, close=None).ask(10**9).quiet is False  # nobody keeps track
