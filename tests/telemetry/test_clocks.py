"""A clock that jumps is noticed; a process that was starved, or a step that took long, is no jump."""

from datetime import timedelta

from telemetry.clocks import Clocks, read
from tests.telemetry.robots_talk import NOW


def later(seconds: float):
    return NOW + timedelta(seconds=seconds)


def test_both_clocks_are_read_again_when_the_process_was_frozen_between_them():
    ticks = iter([0.0, 7.0, 7.0, 7.01])  # frozen for 7 s after the wall clock was read
    walls = iter([NOW, later(7)])
    assert read(lambda: next(walls), lambda: next(ticks)) == (later(7), 7.01)


def test_a_machine_that_is_always_starved_gets_an_answer_all_the_same():
    ticks = iter(range(100))
    assert read(lambda: NOW, lambda: float(next(ticks)), tries=3).now == NOW


def test_a_long_step_is_no_jump(caplog):
    clocks = Clocks(5)
    assert clocks.steady(NOW, 0.0)
    assert clocks.steady(later(3600), 3600.0)  # the process stood still for an hour
    assert caplog.text == ""


def test_a_jump_rests_until_it_has_gone_well_for_a_while(caplog):
    clocks = Clocks(5)
    assert clocks.steady(NOW, 0.0)
    assert not clocks.steady(later(-7), 1.0)
    assert not clocks.steady(later(-3), 5.0)
    assert clocks.steady(later(-2), 6.0)
    assert caplog.text.count("clock jumped by -8.0 s") == 1
