"""A pick or a drop counts as done by the robot's own word about it, never because something later was said."""

import pytest

from missions.facts import Finished, StepCompleted
from tests.missions.machine import Machine, step


class Unchecked(Machine):
    """What must hold is asserted here, by the test itself."""

    def _holds(self, before: str, events: int, verdict: str) -> None:
        pass


@pytest.mark.parametrize("later", [StepCompleted(1, 3, 1), Finished(1)], ids=["a later step", "finished"])
@pytest.mark.parametrize("command", ["pick", "drop"])
def test_no_later_word_implies_it(command, later):
    mission = Unchecked(step(), step(command), step(), brand={"strict_sequence": True}).run()
    mission.tell(later)
    mission.pass_("gap")
    assert mission.outcomes == ["completed?", "", ""]
