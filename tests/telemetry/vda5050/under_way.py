"""Robots under way with a mission, and the habits that one may have while people steer it."""

from tests.telemetry.vda5050.robot_double import HABITS
from tests.telemetry.vda5050.stage import Stage, drive, drop, pick

FETCH = (drive("A"), pick("B"), drop("C"))
QUIET = tuple(habit for habit in HABITS if habit not in ("no_position", "never_pauses"))


def on_its_way(*steps, **more):
    """A second after its first step."""
    return Stage(*(steps or FETCH), **more).dispatch().run_until(lambda s: "completed 1" in s.words).run(1)


def picking(*steps, **more):
    stage = Stage(*(steps or FETCH), **more).dispatch()
    return stage.run_until(lambda s: any(a["actionStatus"] == "RUNNING" for a in s.robot.actions.values()))
