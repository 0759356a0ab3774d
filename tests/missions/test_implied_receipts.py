"""What a later word proves of earlier ones: only successes, only in strict sequence, never a step to be confirmed."""

from datetime import timedelta

import pytest

from missions.facts import (
    Accepted,
    Answered,
    Cancel,
    Delivered,
    Finished,
    Paused,
    Resumed,
    StepCompleted,
    StepFailed,
)
from tests.missions.machine import Machine, step

STRICT = {"strict_sequence": True}
DRIVES = (step(), step(), step())


def test_strict_sequence_waits_two_seconds_for_what_is_missing():
    m = Machine(*DRIVES, brand=STRICT).run()
    m.tell(StepCompleted(1, 2, 1))
    assert m.due["gap"] == 2 and m.outcomes == ["", "", ""]
    m.tell(StepCompleted(1, 1, 1))
    assert m.outcomes == ["completed", "completed", ""] and "gap" not in m.due


def test_then_it_takes_the_earlier_as_done_and_says_so():
    m = Machine(*DRIVES, brand=STRICT).run()
    m.tell(StepCompleted(1, 3, 1))
    m.pass_("gap")
    assert m.outcomes == ["completed?", "completed?", "completed"]
    assert m.kinds.count("receipt_missing") == 1
    assert "robot.query_state" not in m.commands
    inferred = [e.data.get("inferred", False) for e in m.change.events if e.kind == "mission.step_completed"]
    assert inferred == [True, True, False]


def test_finished_proves_all_steps():
    m = Machine(*DRIVES, brand=STRICT).run()
    m.tell(Finished(1))
    m.pass_("gap")
    assert (m.row.state, m.outcomes) == ("success", ["completed?"] * 3)


@pytest.mark.parametrize("word", [StepCompleted(1, 2, 1), Finished(1)])
def test_it_proves_that_the_robot_has_accepted(word):
    m = Machine(*DRIVES, brand=STRICT).dispatch()
    m.tell(Delivered(), word)
    m.pass_("gap")
    assert m.row.started_at and m.change.events[m.kinds.index("started")].data["inferred"] is True
    assert m.row.state == ("success" if isinstance(word, Finished) else "executing")


@pytest.mark.parametrize("word", [StepCompleted(1, 3, 1), Finished(1)])
@pytest.mark.parametrize("kept", [step("pick"), step("drop"), step(confirm=True)])
def test_a_step_to_be_confirmed_is_asked_for_and_never_inferred(word, kept):
    m = Machine(step(), kept, step(), brand=STRICT).run()
    m.tell(word)
    m.pass_("gap")
    assert m.outcomes == ["completed?", "", ""]
    assert (m.row.asked_for, m.last_command.kind, m.kinds[-1]) == ("gap", "robot.query_state", "receipt_asked")
    m.tell(Answered("running", named=True, completed=(1, 2)))
    assert m.outcomes[1] == "completed"  # its own word


def test_a_receipt_that_comes_after_all_is_the_answer():
    m = Machine(step("pick"), step(), brand=STRICT).run()
    m.tell(StepCompleted(1, 2, 1))
    m.pass_("gap")
    m.tell(StepCompleted(1, 1, 1))
    assert (m.row.asked_for, m.outcomes, set(m.due)) == ("", ["completed"] * 2, {"finished", "mission"})


@pytest.mark.parametrize("answer", [Answered("running", named=True), None], ids=["at it", "silent"])
def test_without_its_word_the_steps_own_time_decides(answer):
    m = Machine(step("pick"), step(), brand=STRICT).run()
    m.tell(StepCompleted(1, 2, 1))
    m.pass_("gap")
    m.tell(answer) if answer else m.pass_("answer")
    assert m.row.current_step == 1 and set(m.due) == {"step", "mission"}
    m.pass_("step")
    m.tell(answer) if answer else m.pass_("answer")
    assert (m.row.abort_reason, m.row.abort_detail) == ("timeout", "step 1 (pick) was not completed in time")


def test_a_step_that_is_not_confirmed_is_skipped_where_that_is_its_policy_and_the_robot_is_not_told_to_go_on():
    m = Machine(step("pick", timeout_then="skip"), step(), brand=STRICT).run()
    m.tell(Finished(1), StepCompleted(1, 2, 1))
    m.pass_("gap")
    m.tell(Answered("idle", named=True, ended="finished"))
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished"))
    m.pass_("gap")
    assert (m.row.state, m.outcomes) == ("success", ["skipped", "completed"])
    assert "mission.skip_step" not in m.commands


@pytest.mark.parametrize("brand", [STRICT, {}], ids=["strict", "not strict"])
def test_a_failure_proves_nothing_and_is_never_inferred(brand):
    m = Machine(*DRIVES, brand=brand).run()
    m.tell(StepFailed(1, 3, 1, "blocked"))
    assert "gap" not in m.due and m.outcomes == ["", "", ""]


def test_success_does_not_undo_a_failure_that_was_said():
    m = Machine(step(failure_retries=1), step(), brand=STRICT).run()
    m.tell(StepFailed(1, 1, 1), StepCompleted(1, 2, 1))
    m.pass_("gap")
    assert m.outcomes == ["", ""] and m.row.retry_for == "failure"


def test_other_brands_infer_nothing():
    m = Machine(*DRIVES).run()
    m.tell(StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Finished(1))
    assert set(m.due) == {"step", "mission"} and m.outcomes == ["", "", ""]


def test_their_missing_receipt_is_asked_for_at_the_steps_deadline():
    m = Machine(*DRIVES).run()
    m.tell(StepCompleted(1, 2, 1), StepCompleted(1, 3, 1), Finished(1))
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished", completed=(1, 2, 3)))
    assert (m.row.state, m.outcomes) == ("success", ["completed"] * 3)


def test_a_robot_that_has_finished_and_never_says_what_it_did_is_not_stopped_and_not_believed():
    m = Machine(*DRIVES).run()
    m.tell(StepCompleted(1, 2, 1), StepCompleted(1, 3, 1))
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished"))
    assert m.due["gap"] == 2  # its receipts may be on their way
    m.pass_("gap")
    assert (m.row.state, m.row.abort_reason, m.row.stop_confirmed) == ("aborted", "timeout", True)
    assert m.row.abort_detail == "it says that it has finished, but not that step 1 (navigate) was completed"
    assert "mission.cancel" not in m.commands


def test_that_moment_is_not_made_longer_by_saying_it_again():
    m = Machine(*DRIVES, timeout_s=61).run()
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished"))
    ends = m.row.gap_due_at
    m.pass_("mission")
    m.tell(Answered("idle", named=True, ended="finished"))
    assert (m.row.asked_for, m.row.gap_due_at) == ("", ends)


def test_receipts_that_come_in_that_moment_save_it():
    m = Machine(*DRIVES).run()
    m.pass_("step")
    m.tell(Answered("idle", named=True, ended="finished"))
    m.tell(StepCompleted(1, 1, 1), StepCompleted(1, 2, 1), StepCompleted(1, 3, 1))
    assert m.row.state == "success"


def test_a_step_that_was_done_later_is_not_told_to_begin_again():
    m = Machine(step(timeout_retries=3), step()).run()
    m.tell(StepCompleted(1, 2, 1))
    m.pass_("step")
    m.tell(Answered("running", named=True))
    assert m.row.stop_requested_at and "mission.retry_step" not in m.commands


def test_accepted_is_asked_for_when_the_robot_speaks_of_its_steps():
    m = Machine(*DRIVES).dispatch()
    m.tell(Delivered(), StepCompleted(1, 1, 1))
    m.pass_("accepted")
    assert m.row.asked_for == "accepted" and set(m.due) == {"answer"}
    m.tell(Answered("running", named=True))
    assert (m.row.state, m.outcomes) == ("executing", ["completed", "", ""])


def test_also_of_one_that_never_acknowledged_the_assignment():
    m = Machine(*DRIVES).dispatch()
    m.tell(StepCompleted(1, 1, 1))
    m.pass_("undelivered")
    assert m.row.asked_for == "accepted" and set(m.due) == {"answer"}
    m.tell(Answered("running", named=True))
    assert (m.row.state, m.outcomes) == ("executing", ["completed", "", ""])


def test_and_without_an_answer_it_is_sent_the_assignment_as_often_as_any():
    m = Machine(*DRIVES).dispatch()
    m.tell(Delivered(), StepCompleted(1, 1, 1))
    while m.row.stop_requested_at is None:
        m.pass_()
    assert (m.row.abort_reason, m.row.accept_tries) == ("undeliverable", 5)


def test_a_gap_waits_while_clocks_stand_still():
    m = Machine(*DRIVES, brand=STRICT).run()
    m.tell(StepCompleted(1, 2, 1))
    m.tell(Paused(1, 1, 1))
    assert "gap" not in m.due
    m.now += timedelta(minutes=5)
    m.tell(Resumed(1, 1, 2))
    assert m.due["gap"] == 2


def test_finished_while_stopping_ends_it_as_confirmed_unless_the_rest_comes():
    m = Machine(*DRIVES).run()
    m.tell(Cancel("Ana", "aisle"))
    m.tell(Finished(1))
    assert m.due["gap"] == 2
    m.pass_("gap")
    assert (m.row.state, m.row.abort_reason, m.row.stop_confirmed) == ("aborted", "operator", True)
    other = Machine(*DRIVES).run()
    other.tell(Cancel("Ana", "aisle"), Finished(1))
    other.tell(*(StepCompleted(1, n, 1) for n in (1, 2, 3)))
    assert other.row.state == "success"


def test_early_words_in_strict_sequence_are_told_once():
    m = Machine(*DRIVES, brand=STRICT).run()
    assert m.tell(StepCompleted(1, 2, 1), StepCompleted(1, 2, 1), Accepted(1)) == ["applied", "redundant", "redundant"]


def test_more_words_before_their_turn_put_the_question_off_no_longer():
    m = Machine(*DRIVES, brand=STRICT).run()
    m.tell(StepCompleted(1, 2, 1))
    assert m.due["gap"] == 2
    m.tell(StepCompleted(1, 3, 1))
    assert m.due["gap"] == 1


def test_who_is_at_a_step_and_answers_of_something_else_is_sent_the_assignment_again():
    """It took the assignment, as it spoke of a step; by its answer it does not know of it, and is not idle either."""
    m = Machine(*DRIVES).dispatch()
    m.tell(Delivered(), StepCompleted(1, 2, 1))
    assert m.pass_("accepted") == "accepted" and m.row.asked_for == "accepted"
    m.tell(Answered("running", False, "", (), True))
    assert (m.row.state, m.row.asked_for, "accepted" in m.due) == ("pending", "", True)
