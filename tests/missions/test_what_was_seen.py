"""Only edit, dispatch, resume and the like carry the version that somebody saw; on an older one they do nothing."""

import pytest

from fleet.refusals import Refused
from missions import actions, drawing_up
from missions.facts import Accepted
from missions.models import Mission
from tests.actors import STEPS, SYSTEM, tell


def _dispatch(mission: Mission, version: int) -> None:
    actions.dispatch_mission(mission.pk, by=SYSTEM, version=version)


def _edit(mission: Mission, version: int) -> None:
    drawing_up.edit_mission(
        mission.pk, title="Mine", site=mission.site, robot=mission.robot, steps=STEPS, by=SYSTEM, version=version
    )


def _queue(mission: Mission, version: int) -> None:
    actions.queue_mission(mission.pk, by=SYSTEM, version=version)


VERBS = {"dispatch": _dispatch, "edit": _edit, "queue": _queue}


def refusal(verb, mission: Mission, version: int) -> str:
    try:
        verb(mission, version)
    except Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_what_was_decided_on_an_older_version_does_nothing(mission, verb):
    seen = mission.version
    actions.set_priority(mission.pk, priority=7, by=SYSTEM)
    assert "changed since you looked" in refusal(verb, mission, seen)
    after = Mission.objects.get(pk=mission.pk)
    assert (after.version, after.dispatched_at, after.queued_at, after.title) == (seen + 1, None, None, mission.title)
    assert refusal(verb, mission, after.version) == ""


def test_resume_too(dispatched):
    tell(dispatched, Accepted(1))
    assert "changed since you looked" in refusal(
        lambda m, version: actions.resume_mission(m.pk, by=SYSTEM, version=version), dispatched, dispatched.version
    )
