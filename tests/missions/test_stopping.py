"""How a stop is asked for, again and again, and what counts as its confirmation, by brand."""

import pytest

from fleet.robots.facts import HoldBack
from missions.facts import Answered, Cancel, Cancelled, Finished, Rejected, SaysIdle, StepCompleted
from tests.missions.machine import Machine, step

ASKS = {"idle_cancel": False}


def stopping(**brand) -> Machine:
    m = Machine(step(), step(), brand=brand).run()
    m.tell(Cancel("Ana", "aisle"))
    return m


def in_vain(m: Machine) -> Machine:
    while m.due:
        m.pass_()
    return m


@pytest.mark.parametrize(
    ("stop_s", "again_after"), [(15, [2, 4, 8, 15]), (3, [2, 3]), (1, [1]), (60, [2, 4, 8, 16, 32, 60])]
)
def test_a_stop_is_sent_again_after_pauses_that_double_until_the_brands_time_is_over(stop_s, again_after):
    m = stopping(stop_s=stop_s)
    asked, seen = m.now, []
    while m.due:
        m.pass_("stop")
        seen.append((m.now - asked).total_seconds())
    assert seen == again_after
    assert m.change.command_moves.count((("mission.cancel",), "delivered", "open")) == len(again_after)
    assert (m.row.stop_confirmed, [type(fact) for fact in m.change.follow]) == (False, [HoldBack])


def test_one_that_says_finished_in_the_end_is_confirmed_although_receipts_are_missing():
    m = stopping(stop_s=3)
    m.pass_("stop")
    m.tell(Finished(1))  # the window ends before the receipts' 2 s
    m.pass_("stop")
    assert (m.row.state, m.row.stop_confirmed, m.row.abort_detail) == ("aborted", True, "aisle")
    assert m.change.follow == []


def test_brands_that_take_no_cancel_when_idle_are_asked_first():
    m = stopping(**ASKS)
    assert (m.last_command.kind, m.row.asked_for, set(m.due)) == ("robot.query_state", "stop", {"answer", "stop"})


@pytest.mark.parametrize("answer", [Answered("idle", named=True), Answered("idle", named=False)])
def test_idle_is_their_confirmation(answer):
    m = stopping(**ASKS)
    m.tell(answer)
    assert (m.row.state, m.row.stop_confirmed, m.row.abort_reason) == ("aborted", True, "operator")
    assert "mission.cancel" not in m.commands


@pytest.mark.parametrize("answer", [Answered("running", named=True), Answered("running", named=False), None])
def test_else_they_get_the_cancel(answer):
    m = stopping(**ASKS)
    if answer:
        m.tell(answer)
    else:
        m.pass_("answer")
    assert m.last_command.kind == "mission.cancel" and set(m.due) == {"stop"}
    m.tell(Cancelled(1))
    assert m.row.stop_confirmed is True


def test_one_that_never_answered_finds_a_cancel_when_it_is_back():
    m = in_vain(stopping(**ASKS, answer_s=60))
    assert (m.row.stop_confirmed, m.last_command.kind) == (False, "mission.cancel")


@pytest.mark.parametrize(
    ("word", "kept"),
    [(Cancelled(1), "stop_confirmed_late"), (Finished(1), "stop_confirmed_late"), (Rejected(1), "stop_confirmed_late"),
     (StepCompleted(1, 1, 1), "late_receipt")],
)  # fmt: skip
def test_what_the_robot_says_after_an_unconfirmed_end(word, kept):
    m = in_vain(stopping())
    assert m.tell(word) == ["late"] and m.kinds[-1] == kept
    assert m.row.stop_confirmed is (kept == "stop_confirmed_late")
    ends = m.change.command_moves[-1] == ((), "open", "withdrawn")  # the cancel as well: there is nothing more to end
    assert ends is m.row.stop_confirmed


def test_that_it_says_idle_is_no_news_while_it_is_being_stopped():
    m = stopping()
    assert m.tell(SaysIdle()) == ["redundant"]


def test_the_answer_to_a_cancel_that_was_sent_twice_is_no_news():
    m = stopping()
    m.pass_("stop")
    assert m.tell(Cancelled(1), Cancelled(1), Finished(1)) == ["applied", "redundant", "late"]
