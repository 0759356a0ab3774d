"""What a step does when it takes too long or fails: every policy, apart for the two, and no attempt too many."""

from itertools import product

import pytest

from fleet.refusals import Refused
from missions import actions, drawing_up, step_policy
from missions.command_types import TYPES
from missions.facts import Accepted, Answered, Cancelled, Due, Finished, StepCompleted, StepFailed, StepStarted
from missions.models import Mission, Step
from tests.actors import STEPS, SYSTEM
from tests.missions.machine import Machine, step

AT_IT = Answered("running", named=True)


def time_is_up(m: Machine, answer=AT_IT) -> None:
    """The step's deadline passes and the robot, asked, says that it is at it (None: says nothing)."""
    m.pass_("step")
    if answer is None:
        m.pass_("answer")
    else:
        m.tell(answer)


def go_wrong(m: Machine, how: str) -> None:
    if how == "timeout":
        time_is_up(m)
    else:
        m.tell(StepFailed(1, 1, m.steps[1].attempt, "blocked"))


@pytest.mark.parametrize(
    ("how", "retries", "then", "repeatable"),
    [*product(("timeout", "failure"), (0, 1, 2, 6), ("abort", "skip"), (True, False))],
)
def test_every_policy_to_its_end(how, retries, then, repeatable):
    """It goes wrong again and again: as many tries as allowed, then skip or abort. Never again on a mere timeout."""
    m = Machine(
        step(repeatable=repeatable, **{f"{how}_retries": retries, f"{how}_then": then}), step("wait"),
    ).run()  # fmt: skip
    allowed = 0 if how == "timeout" and not repeatable else retries
    waits = []
    for _ in range(allowed):
        go_wrong(m, how)
        assert (m.row.retry_for, set(m.due)) == (how, {"retry", "mission"})
        waits.append(m.due["retry"])
        m.pass_("retry")
        assert (m.row.retry_for, set(m.due)) == ("", {"step", "mission"})
        assert m.last_command.kind == "mission.retry_step"
        assert f'"data":{{"step":1,"attempt":{m.steps[1].attempt}}}' in m.last_command.body
    assert waits == [1, 2, 4, 8, 16, 16][:allowed]
    assert m.steps[1].attempt == 1 + allowed
    go_wrong(m, how)
    assert m.kinds.count("step_retried") == allowed
    if then == "skip":
        assert (m.outcomes, m.row.current_step, m.row.state) == (["skipped", ""], 2, "executing")
        assert m.last_command.kind == "mission.skip_step" and set(m.due) == {"step", "mission"}
    else:
        assert m.row.abort_reason == ("timeout" if how == "timeout" else "robot_fault")
        assert (set(m.due), m.last_command.kind) == ({"stop"}, "mission.cancel")


def test_the_two_are_counted_apart():
    m = Machine(step(timeout_retries=1, failure_retries=2)).run()
    for how in ("failure", "timeout", "failure"):
        go_wrong(m, how)
        m.pass_("retry")
    assert (m.steps[1].attempt, m.steps[1].failed_attempts) == (4, 2)
    go_wrong(m, "timeout")
    assert m.row.abort_reason == "timeout"


@pytest.mark.parametrize("how", ["timeout", "failure"])
def test_what_is_skipped_at_the_end_waits_for_finished(how):
    m = Machine(step(**{f"{how}_then": "skip"})).run()
    go_wrong(m, how)
    assert (m.row.state, set(m.due)) == ("step_completed", {"finished", "mission"})
    m.tell(Finished(1))
    assert (m.row.state, m.outcomes) == ("success", ["skipped"])


@pytest.mark.parametrize("policy", ["abort", "skip"])
def test_the_robot_is_asked_before_a_timeout_counts(policy):
    m = Machine(step(timeout_then=policy, timeout_retries=1)).run()
    m.pass_("step")
    assert m.last_command.kind == "robot.query_state" and set(m.due) == {"answer", "mission"}
    assert m.kinds[-1] == "step_timeout"
    m.tell(StepCompleted(1, 1, 1))
    assert (m.outcomes, m.row.asked_for, "answer" in m.due) == (["completed"], "", False)


@pytest.mark.parametrize("answer", [AT_IT, None, Answered("running", named=False)])
def test_a_step_to_be_tried_again_is_tried_whatever_the_robot_says_but_that_it_is_done(answer):
    m = Machine(step(timeout_retries=1)).run()
    time_is_up(m, answer)
    assert m.row.retry_for == "timeout"


def test_an_answer_that_names_the_step_as_completed_is_its_receipt():
    m = Machine(step("pick"), step()).run()
    time_is_up(m, Answered("running", named=True, completed=(1,)))
    assert (m.outcomes, m.row.current_step, m.steps[1].inferred) == (["completed", ""], 2, False)


def test_a_robot_that_has_forgotten_it_is_not_told_to_try_again():
    m = Machine(step(timeout_retries=1)).run()
    time_is_up(m, Answered("idle", named=False))
    assert (m.row.state, m.row.abort_reason, m.row.stop_confirmed) == ("aborted", "robot_fault", True)


@pytest.mark.parametrize(
    ("ended", "reason"), [("cancelled", "operator"), ("failed", "robot_fault"), ("rejected", "rejected")]
)
def test_a_robot_that_has_ended_it_needs_no_stop(ended, reason):
    m = Machine(step(timeout_then="skip")).run()
    time_is_up(m, Answered("idle", named=True, ended=ended))
    assert (m.row.state, m.row.abort_reason, m.row.stop_confirmed) == ("aborted", reason, True)
    assert "mission.cancel" not in m.commands


def test_words_of_another_attempt_are_stale_unless_they_say_completed():
    m = Machine(step(failure_retries=2), step()).run()
    m.tell(StepFailed(1, 1, 1, "blocked"))
    assert m.tell(StepFailed(1, 1, 1, "blocked")) == ["redundant"]  # of the attempt that is to be made again
    m.pass_("retry")
    assert m.tell(StepFailed(1, 1, 1, "blocked"), StepStarted(1, 1, 1), StepFailed(1, 1, 3)) == [
        "stale",
        "redundant",
        "stale",
    ]
    assert m.steps[1].attempt == 2 and m.row.stop_requested_at is None
    assert m.tell(StepCompleted(1, 1, 1)) == ["applied"]
    assert m.outcomes == ["completed", ""]


@pytest.mark.parametrize("word", [StepCompleted(1, 1, 1), StepFailed(1, 1, 1, "blocked")])
def test_a_word_before_the_next_attempt_decides_instead(word):
    m = Machine(step(timeout_retries=1)).run()
    time_is_up(m)
    m.tell(word)
    assert m.row.retry_for == "" and "retry" not in m.due
    assert m.outcomes == ["completed"] if isinstance(word, StepCompleted) else m.row.abort_reason == "robot_fault"


def test_a_failure_that_came_early_is_tried_again_in_its_turn():
    m = Machine(step(), step(failure_retries=1)).run()
    m.tell(StepFailed(1, 2, 1, "no grip"), StepCompleted(1, 1, 1))
    assert (m.row.retry_for, m.steps[2].claimed, m.steps[2].result) == ("failure", "", "no grip")
    m.pass_("retry")
    m.tell(StepCompleted(1, 2, 2), Finished(1))
    assert m.row.state == "success"


def test_a_word_on_a_skipped_step_is_kept_and_changes_nothing():
    m = Machine(step(timeout_then="skip"), step()).run()
    time_is_up(m)
    assert m.tell(StepCompleted(1, 1, 1, "there")) == ["late"]
    assert (m.outcomes, m.kinds[-1]) == (["skipped", ""], "late_receipt")
    assert m.change.events[-1].data["says"] == "step 1 is completed: there"
    assert m.tell(StepFailed(1, 1, 1)) == ["redundant"]


def test_the_missions_own_time_goes_on_through_all_attempts():
    m = Machine(step(timeout_retries=10), timeout_s=200).run()
    while m.row.stop_requested_at is None:
        m.pass_()
    assert m.row.abort_detail == "it took longer than 200 s"
    assert (m.now - m.row.started_at).total_seconds() == 205


def test_a_step_that_passes_while_the_mission_is_asked_about_does_not_save_the_mission():
    m = Machine(step(timeout_retries=5), timeout_s=60).run()
    m.pass_("mission")
    m.pass_("step")
    assert m.row.asked_for == "mission" and m.kinds[-2:] == ["timeout", "step_timeout"]
    m.tell(AT_IT)
    assert m.row.abort_detail == "it took longer than 60 s"


def test_stopping_ends_all_tries():
    m = Machine(step(failure_retries=3)).run()
    m.tell(StepFailed(1, 1, 1))
    m.pass_("mission")
    m.pass_("answer")
    assert (m.row.retry_for, set(m.due)) == ("", {"stop"})
    m.tell(StepFailed(1, 1, 1), Cancelled(1))
    assert m.row.state == "aborted" and m.kinds.count("step_retried") == 0


@pytest.mark.parametrize("kind", ["step", "retry"])
def test_a_deadline_that_has_moved_is_nothing(kind):
    assert Machine(step()).run().tell(Due(kind)) == ["redundant"]


# how policies are said


def draw_up(robot, **policy):
    steps = [{**STEPS[0], **policy}]
    pk = drawing_up.draft_mission(title="Fetch", site=robot.site, robot=robot, steps=steps, by=SYSTEM)
    return Mission.objects.get(pk=pk)


def test_what_is_not_said_is_the_command_types(robot):
    pk = drawing_up.draft_mission(title="Fetch", site=robot.site, robot=robot, steps=STEPS, by=SYSTEM)
    rows = list(Step.objects.filter(mission=pk).order_by("number"))
    assert [row.command for row in rows] == ["navigate", "pick", "drop"]
    for row in rows:
        known = TYPES[row.command]
        assert (
            (row.repeatable, row.confirm)
            == (known.repeatable, known.confirm)
            == (row.command == "navigate", row.command != "navigate")
        )
        assert (row.timeout_retries, row.failure_retries, row.timeout_then, row.failure_then) == (
            0,
            0,
            "abort",
            "abort",
        )


def test_what_is_said_is_kept_by_edit_and_rerun(robot):
    policy = {"repeatable": True, "confirm": True, "timeout_retries": 2, "failure_retries": 3,
              "timeout_then": "skip", "failure_then": "skip"}  # fmt: skip
    mission = draw_up(robot, **policy)
    assert step_policy.of(mission.steps.get()) == policy
    drawing_up.edit_mission(
        mission.pk, title="Fetch", site=robot.site, robot=robot, by=SYSTEM, version=1,
        steps=[{**STEPS[0], **policy, "failure_retries": 0}], offline_policy="wait",
    )  # fmt: skip
    actions.cancel_mission(mission.pk, by=SYSTEM)
    again = Mission.objects.get(pk=drawing_up.rerun_mission(mission.pk, by=SYSTEM))
    assert step_policy.of(again.steps.get()) == policy | {"failure_retries": 0}
    assert again.offline_policy == "wait"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"timeout_retries": -1}, "timeout_retries: From 0 to 10"), ({"failure_retries": 11}, "failure_retries: From 0"),
        ({"timeout_retries": True}, "timeout_retries: From 0"), ({"repeatable": "yes"}, "repeatable: Yes or no"),
        ({"timeout_then": "retry"}, "timeout_then: Choose one of abort, skip"),
        ({"repeatable": False, "timeout_retries": 1}, "timeout_retries: It is not repeatable"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(robot, policy, said):
    with pytest.raises(Refused, match=f"Step 1, {said}"):
        draw_up(robot, **policy)


def test_accepted_is_what_starts_it():
    assert Machine(step()).dispatch().tell(Accepted(1)) == ["applied"]
