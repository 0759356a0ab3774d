"""The oracle stands alone, and it can say no."""

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.model import oracle
from tests.model.oracle import Asked, End, Life, Said, Step, StepEnd, allowed, complaints

ORDINARY = Life(
    [Step(10), Step(10)], 60, dispatched_at=0, until=200,
    said=[Said(1, "accepted", 1), Said(5, "completed", 1, 1, 1), Said(9, "completed", 1, 2, 1), Said(10, "finished", 1)],
)  # fmt: skip
EDGES = [
    ("pending", "executing"), ("executing", "step_completed"), ("step_completed", "executing"),
    ("executing", "step_completed"), ("step_completed", "success"),
]  # fmt: skip
DONE = StepEnd("completed", 1)
SUCCEEDED = End("success", steps=[DONE, DONE], edges=EDGES)


def test_it_imports_no_code_of_the_product():
    tree = ast.parse(Path(oracle.__file__).read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert names
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "__import__"]


def test_an_ordinary_life_may_only_succeed():
    assert set(allowed(ORDINARY)) == {("success", "")}
    assert complaints(ORDINARY, SUCCEEDED) == []


def without(*what: str, **more: object) -> Life:
    return replace(ORDINARY, said=[s for s in ORDINARY.said if s.what not in what], **more)


@pytest.mark.parametrize(
    ("life", "reason"),
    [
        (without("finished"), "timeout"),
        (without("completed"), "timeout"),
        (without("accepted"), "undeliverable"),
        (replace(ORDINARY, steps=[Step(2), Step(10)]), "timeout"),
        (replace(ORDINARY, mission_s=5), "timeout"),
        (replace(ORDINARY, asked=[Asked(3, "cancel")]), "operator"),
        (replace(ORDINARY, asked=[Asked(3, "danger")]), "safety"),
        (replace(ORDINARY, said=[*ORDINARY.said, Said(2, "failed", 1, 1, 1)]), "robot_fault"),
        (replace(ORDINARY, said=[*ORDINARY.said, Said(2, "rejected", 1)]), "rejected"),
        (replace(ORDINARY, silences=[(2, 100)]), "robot_fault"),
    ],
)
def test_each_reason_to_abort_has_its_cause(life, reason):
    assert ("aborted", reason) in allowed(life)
    assert ("aborted", reason) not in allowed(ORDINARY)


@pytest.mark.parametrize(
    "said",
    [Said(2, "failed", 2, 1, 1), Said(2, "failed", 1, 1, 9), Said(2, "failed", 1, 1, 0), Said(2, "cancelled", 2)],
    ids=["another dispatch", "an attempt never given", "no attempt", "cancelled of another dispatch"],
)
def test_words_about_something_else_allow_nothing(said):
    assert set(allowed(replace(ORDINARY, said=[*ORDINARY.said, said]))) == {("success", "")}


def test_a_failure_that_is_to_be_tried_again_is_no_reason_yet():
    steps = [Step(10, failure_retries=1), Step(10)]
    once = [*ORDINARY.said, Said(2, "failed", 1, 1, 1)]
    assert ("aborted", "robot_fault") not in allowed(replace(ORDINARY, steps=steps, said=once))
    twice = [*once, Said(4, "failed", 1, 1, 2)]
    assert ("aborted", "robot_fault") in allowed(replace(ORDINARY, steps=steps, said=twice))


ABORTED = End("aborted", "operator", True, 3.0, 4.0, [DONE, StepEnd("", 1)], [*EDGES[:3], ("executing", "aborted")])
CANCELLED = replace(ORDINARY, until=4, said=[*ORDINARY.said[:2], Said(4, "cancelled", 1)], asked=[Asked(3, "cancel")])


@pytest.mark.parametrize(
    ("life", "end", "word"),
    [
        (without("finished"), SUCCEEDED, "it is success"),
        (without("completed"), SUCCEEDED, "nobody said so"),
        (ORDINARY, replace(SUCCEEDED, edges=[*EDGES, ("success", "aborted")]), "not of the machine"),
        (ORDINARY, replace(SUCCEEDED, edges=EDGES[:-1]), "its edges end at"),
        (ORDINARY, replace(SUCCEEDED, edges=EDGES[:1] + EDGES[2:]), "an edge begins at"),
        (ORDINARY, replace(SUCCEEDED, edges=[*EDGES[:3], *EDGES[1:]]), "steps are over, by"),
        (ORDINARY, replace(SUCCEEDED, steps=[DONE, StepEnd("completed", 1, inferred=True)]), "inferred"),
        (ORDINARY, replace(SUCCEEDED, steps=[DONE, StepEnd("skipped", 1)]), "against its policy"),
        (ORDINARY, replace(SUCCEEDED, steps=[DONE, StepEnd("completed", 2)]), "was tried 2 times"),
        (without("finished"), End("executing", steps=[DONE, DONE], edges=EDGES[:3]), "nothing is due"),
        (CANCELLED, replace(ABORTED, stop_confirmed=None), "without a word about whether"),
        (replace(CANCELLED, said=ORDINARY.said[:2]), ABORTED, "the robot never said so"),
        (replace(CANCELLED, said=ORDINARY.said[:2]), replace(ABORTED, stop_confirmed=False), "without the robot's word"),
        (replace(CANCELLED, until=20), replace(ABORTED, stop_confirmed=False, ended_at=20.0), "that is not known"),
    ],
)  # fmt: skip
def test_it_complains(life, end, word):
    assert any(word in text for text in complaints(life, end))


def test_a_cancel_that_the_robot_confirmed_is_fine():
    assert complaints(CANCELLED, ABORTED) == []
