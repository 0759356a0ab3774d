"""A word that others overtook still counts, and the judge of chaos knows what counted: not by when it was received."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest

from missions.models import Mission
from telemetry.stream import partition_of
from telemetry.worker.loop import LOOK_S
from tests.chaos.judging import Judge
from tests.model import oracle
from tests.telemetry.robots_talk import say, whole_life, work


def note(line: dict) -> str:
    about = [line["type"], line.get("mission"), line.get("step"), line.get("attempt"), line["data"]]
    return json.dumps(["said", line["robot"], line["msg_id"], *about])


@pytest.fixture
def overtaken(worker, clock, dispatched):
    """All that was said. A former owner had been handed "step 2 completed" when the new one went on with the rest."""
    life = whole_life(dispatched, 3)
    accepted, one, two, three, finished = life
    began = dispatched.dispatched_at
    worker.step(clock.now, clock.tick)
    say(accepted, one, at=began + timedelta(seconds=1))
    work(worker, clock)
    say(two, at=began + timedelta(seconds=2))
    assert worker.streams.read_new([partition_of("RB-001")], 1, None)
    say(three, finished, at=began + timedelta(seconds=3))
    work(worker, clock)
    assert Mission.objects.get(pk=dispatched.pk).state == "executing"
    clock.advance(LOOK_S)
    work(worker, clock)
    return life


@pytest.fixture
def judged(dispatched, tmp_path):
    """judged(lines that the robot noted) → what is wrong."""

    def judge(lines: list[dict]) -> list[str]:
        (tmp_path / "robots-ws.notes").write_text("".join(f"{note(line)}\n" for line in lines))
        world = SimpleNamespace(folder=tmp_path, children={})
        return Judge(world, [dispatched.pk], {dispatched.pk: [oracle.Step(60)] * 3}).wrong()

    return judge


def test_the_mission_succeeds_with_the_word_that_was_missing(overtaken, dispatched, judged):
    done = Mission.objects.get(pk=dispatched.pk)
    assert (done.state, done.ended_at) == ("success", dispatched.dispatched_at + timedelta(seconds=2))
    assert judged(overtaken) == []


def test_a_step_that_nobody_said_was_completed_is_found(overtaken, judged):
    assert "Fetch: step 2 counts as completed and nobody said so" in judged([*overtaken[:2], *overtaken[3:]])
