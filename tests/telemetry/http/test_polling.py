"""The link of a robot over HTTP in memory: what a poll is told, and when."""

import pytest

from telemetry.gateways.complaints import Complaints
from telemetry.gateways.http.polling import PolledLink
from telemetry.gateways.rows import OpenCommand
from telemetry.protocol import REPLACED, Bad
from tests.telemetry.test_one_link import ONE


@pytest.fixture
async def link():
    return PolledLink("RB-001", 7, 1, {1: 5, 7: 2}, clock=lambda: 100.0)


async def test_a_poll_that_does_not_want_to_wait_is_answered_by_a_look_that_began_after_it(link):
    link.ask()  # a look is under way
    poll = link.begin(0)
    link.take_due(100.0)
    assert not poll.answer.done()
    assert link.ask().takes
    link.take_due(100.0)
    assert poll.answer.result() == ([], "")


async def test_nothing_is_taken_for_sent_while_no_poll_is_open_or_it_has_its_answer(link):
    link.learn([OpenCommand(ONE, "robot.stop", "stop")])
    assert not link.ask().takes
    link.take_due(100.0)
    assert link.commands[ONE].sent == 0
    poll = link.begin(25)
    link.ask()
    link.take_due(100.0)
    assert poll.answer.result() == (["stop"], "")
    link.take_due(1000.0)
    assert link.commands[ONE].sent == 1


async def test_a_poll_of_a_link_that_has_ended_is_told_so(link):
    await link.close(REPLACED)
    assert link.begin(25).answer.result() == REPLACED


async def test_what_is_told_of_watermarks_are_those_that_the_robot_may_wait_for(link):
    link.applied[3] = 9
    assert link.told() == {1: 5, 7: 2}


def test_what_a_robot_wrote_makes_no_line_of_its_own_in_the_log(caplog):
    caplog.set_level("INFO")
    Complaints("RB-001", lambda: 0.0).add(Bad("data", "x\nERROR forged\x1b[2J"))
    [line] = [r.getMessage() for r in caplog.records]
    assert line == r"bad message from RB-001: data: x\nERROR forged\x1b[2J"
