"""What happens when a step goes wrong, in the forms: as usual unless it is said, refused in words, kept when it is edited."""

import json

import pytest

from fleet.brands.actions import edit_brand
from missions.command_types import TYPES
from missions.drawing_up import clone_mission, draft_mission
from missions.models import Mission, Template
from missions.step_policy import COLUMNS
from missions.step_wording import policy_words
from tests.actors import SYSTEM
from tests.missions.test_admin_mission_form import ADD, CHECK, DRIVE, head, page, rows

pytestmark = pytest.mark.django_db
USUAL = {"timeout_retries": 0, "failure_retries": 0, "timeout_then": "abort", "failure_then": "abort"}
PICK = {"command": "pick", "place": "Dock A"}


def stored(mission):
    return [{name: getattr(step, name) for name in COLUMNS} for step in mission.steps.all()]


def test_what_is_not_said_is_as_usual_for_the_command(client, supervisor, robot):
    client.force_login(supervisor)
    client.post(ADD, head(robot) | rows(DRIVE, PICK))
    assert stored(Mission.objects.get()) == [
        {**USUAL, "repeatable": True, "confirm": False}, {**USUAL, "repeatable": False, "confirm": True},
    ]  # fmt: skip


def test_what_is_said_is_stored_shown_and_kept(client, supervisor, robot):
    client.force_login(supervisor)
    said = {
        "timeout_retries": "2",
        "timeout_then": "skip",
        "failure_retries": "1",
        "failure_then": "",
        "confirm": "yes",
    }
    client.post(ADD, head(robot, offline_policy="wait") | rows({**DRIVE, **said}))
    mission = Mission.objects.get()
    want = {
        "timeout_retries": 2,
        "timeout_then": "skip",
        "failure_retries": 1,
        "failure_then": "abort",
        "confirm": True,
    }
    assert stored(mission) == [{**want, "repeatable": True}]
    assert mission.offline_policy == "wait"
    form = client.get(page(mission, "edit"))
    row = form.context["steps"][0]
    assert {name: row[name].value() for name in COLUMNS} == {
        "timeout_retries": 2, "timeout_then": "skip", "failure_retries": 1, "failure_then": None, "repeatable": "",
        "confirm": "yes",
    }  # fmt: skip
    assert row.policy_says == (
        "after a timeout 2 more tries, then the step is skipped; after a failure 1 more try, then the mission is aborted."
    )
    assert row.policy_says in form.content.decode()
    assert form.context["form"]["offline_policy"].value() == "wait"
    assert stored(Mission.objects.get(pk=clone_mission(mission.pk, by=SYSTEM))) == stored(mission)


@pytest.mark.parametrize(
    ("step", "name", "says"),
    [
        ({**DRIVE, "timeout_retries": "11"}, "timeout_retries", "Step 1, timeout: more tries: Ensure"),
        ({**DRIVE, "failure_retries": "-1"}, "failure_retries", "Step 1, failure: more tries: Ensure"),
        ({**DRIVE, "failure_then": "pray"}, "failure_then", "Step 1, failure: at last: Select a valid choice."),
        ({**PICK, "timeout_retries": "1"}, "timeout_retries", "Step 1, timeout: more tries: It is not repeatable"),
        ({**DRIVE, "repeatable": "no", "timeout_retries": "1"}, "timeout_retries", "It is not repeatable"),
        ({**PICK, "confirm": "no"}, "confirm", "Pick counts as done only by the robot's own word."),
    ],
)
def test_what_cannot_be_is_said_at_its_field(client, supervisor, robot, step, name, says):
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot) | rows(step))
    (problem,) = answer.context["problems"]
    assert problem.name == f"steps-0-{name}"
    assert says in problem.text
    assert answer.content.decode().count(problem.text.replace("'", "&#x27;")) == 2, "above the form, and at the field"
    assert client.post(CHECK, head(robot) | rows(step)).json()["problems"] == [problem._asdict()]
    assert not Mission.objects.exists()


def test_empty_times_are_the_brands(client, supervisor, robot, brand):
    edit_brand(brand.pk, mission_timeout_s=1234, step_timeouts={"navigate": 77}, offline_policy="wait", by=SYSTEM)
    client.force_login(supervisor)
    client.post(ADD, head(robot, timeout_s="") | rows(DRIVE))
    mission = Mission.objects.get()
    assert (mission.timeout_s, mission.steps.get().timeout_s, mission.offline_policy) == (1234, 77, "")
    html = client.get(ADD).content.decode()
    told = html.split('<script id="mission-choices" type="application/json">')[1].split("</script>")[0]
    known = json.loads(told)
    assert known["robots"] == {"RB-001": {"site": robot.site_id, "kind": 0}}
    assert [kind | {"can": []} for kind in known["kinds"]] == [
        {"can": [], "step_timeouts": {"navigate": 77}, "timeout_s": 1234, "offline": "Wait for the robot"}
    ]
    assert {name: (t["repeatable"], t["confirm"]) for name, t in known["types"].items()} == {
        t.name: (t.repeatable, t.confirm) for t in TYPES.values()
    }


def test_a_template_keeps_it_and_passes_it_on(client, supervisor, robot, site):
    client.force_login(supervisor)
    form = {
        "name": "Fetch",
        "site": site.pk,
        "title": "Fetch",
        "importance": "normal",
        "priority": "0",
        "timeout_s": "600",
    }
    form |= {"parameters-TOTAL_FORMS": "0", "parameters-INITIAL_FORMS": "0"}
    client.post("/admin/missions/template/add/", form | rows({**DRIVE, "timeout_retries": "1", "timeout_then": "skip"}))
    template = Template.objects.get()
    edit = client.get(f"/admin/missions/template/{template.pk}/edit/")
    assert edit.context["steps"][0]["timeout_retries"].value() == 1
    shown = client.get(f"/admin/missions/template/{template.pk}/change/").content.decode()
    assert "After a timeout 1 more try, then the step is skipped" in shown
    client.post(f"/admin/missions/template/{template.pk}/use/", {"robot": "RB-001"})
    want = {"timeout_retries": 1, "timeout_then": "skip", "repeatable": True, "confirm": False}
    assert stored(Mission.objects.get()) == [{**USUAL, **want}]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "After a timeout or a failure the mission is aborted."),
        ({"timeout_then": "skip", "failure_then": "skip"}, "After a timeout or a failure the step is skipped."),
        ({"timeout_retries": 1, "failure_retries": 1},
         "After a timeout or a failure 1 more try, then the mission is aborted."),
        ({"failure_retries": 3, "failure_then": "skip"},
         "After a timeout the mission is aborted; after a failure 3 more tries, then the step is skipped."),
    ],
)  # fmt: skip
def test_one_line_says_it(policy, words):
    assert policy_words({**USUAL, **policy}) == words


def test_programs_may_not_take_a_pick_as_done_either(robot, site):
    with pytest.raises(ValueError, match="Step 1, confirm: Pick counts as done only"):
        step = {"command": "pick", "params": {"place": "Dock A"}, "confirm": False}
        draft_mission(title="Fetch", site=site, robot=robot, steps=[step], by=SYSTEM)
