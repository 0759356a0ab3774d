"""The form that draws up a mission: typed rows become steps, errors name step and field, nothing entered is lost."""

import pytest
from django.utils.html import escape

from fleet.brands.actions import edit_brand
from fleet.commit import Conflict
from fleet.models import Event, Robot
from fleet.refusals import MOVED_ON
from missions import actions
from missions.command_types import TYPES
from missions.forms import choices
from missions.models import Mission, State
from tests.actors import SYSTEM

pytestmark = pytest.mark.django_db
ADD = "/admin/missions/mission/add/"
CHECK = "/admin/missions/mission/check/"
DRIVE = {"command": "navigate", "place": "Dock A"}


def page(mission: Mission, verb: str = "change") -> str:
    return f"/admin/missions/mission/{mission.pk}/{verb}/"


def head(of: Robot, **more: object) -> dict:
    return {"title": "Pallet 7", "site": of.site_id, "robot": of.pk, "priority": "2", "timeout_s": "900", **more}


def rows(*steps: dict) -> dict:
    """A posted form set. A step may bring its own ORDER and DELETE."""
    data = {"steps-TOTAL_FORMS": str(len(steps)), "steps-INITIAL_FORMS": "0"}
    return data | {f"steps-{i}-{name}": value for i, step in enumerate(steps) for name, value in step.items()}


def test_typed_rows_become_a_mission(client, supervisor, robot):
    client.force_login(supervisor)
    steps = rows(
        {"command": "wait", "seconds": "2.5", "ORDER": "3"},
        {},
        {**DRIVE, "ORDER": "1", "timeout_s": "45"},
        {"command": "pick", "place": "Dock A", "load": "pallet 7", "ORDER": "2"},
        {"command": "drop", "place": "nowhere", "DELETE": "on"},
        {"command": "charge", "until_percent": "80"},
    )
    answer = client.post(ADD, head(robot) | steps)
    mission = Mission.objects.get()
    assert answer.url == page(mission)
    assert (mission.title, mission.priority, mission.timeout_s, mission.robot_id) == ("Pallet 7", 2, 900, "RB-001")
    assert [(s.number, s.command, s.params, s.timeout_s) for s in mission.steps.all()] == [
        (1, "navigate", {"place": "Dock A"}, 45),
        (2, "pick", {"place": "Dock A", "load": "pallet 7"}, 60),
        (3, "wait", {"seconds": 2.5}, 63),
        (4, "charge", {"place": "", "until_percent": 80}, 3600),
    ]
    assert mission.created_by == supervisor.get_username()
    assert "drawn up" in client.get(page(mission)).content.decode()


NEEDED = "This is needed."
SECONDS = "More than 0 and at most 86400 (one day)."
PERCENT = "A whole number from 1 to 100."
OBJECT = 'A JSON object, e.g. {"height": 2}.'
NO_PLACE = "Mars is no place of this site. Choose one of the list."
INVALID = [  # what is entered, the input that is named, in which words, and what is wrong
    ({"command": "navigate"}, "place", "place", NEEDED),
    ({"command": "navigate", "place": "Mars"}, "place", "place", NO_PLACE),
    ({**DRIVE, "seconds": "3"}, "seconds", "wait for (s)", "Navigate has no wait for (s): leave it empty."),
    ({**DRIVE, "load": "box"}, "load", "load", "Navigate has no load: leave it empty."),
    ({**DRIVE, "timeout_s": "0"}, "timeout_s", "time allowed (s)", "greater than or equal to 1."),
    ({**DRIVE, "timeout_s": "99999"}, "timeout_s", "time allowed (s)", "less than or equal to 86400."),
    ({**DRIVE, "timeout_s": "soon"}, "timeout_s", "time allowed (s)", "Enter a whole number."),
    ({"command": "pick", "load": "box"}, "place", "place", NEEDED),
    ({"command": "pick", "place": "Mars"}, "place", "place", NO_PLACE),
    ({"command": "pick", "place": "Dock A", "load": "x" * 201}, "load", "load", "at most 200 characters"),
    ({"command": "pick", "place": "Dock A", "load": "a\x00b"}, "load", "load", "Null characters are not allowed."),
    ({"command": "drop"}, "place", "place", NEEDED),
    ({"command": "drop", "place": "Mars"}, "place", "place", NO_PLACE),
    ({"command": "wait"}, "seconds", "wait for (s)", NEEDED),
    ({"command": "wait", "seconds": "0"}, "seconds", "wait for (s)", SECONDS),
    ({"command": "wait", "seconds": "-1"}, "seconds", "wait for (s)", SECONDS),
    ({"command": "wait", "seconds": "86400.5"}, "seconds", "wait for (s)", SECONDS),
    ({"command": "wait", "seconds": "nan"}, "seconds", "wait for (s)", SECONDS),
    ({"command": "wait", "seconds": "1e99"}, "seconds", "wait for (s)", "Number out of range."),
    ({"command": "wait", "seconds": "a while"}, "seconds", "wait for (s)", SECONDS),
    ({"command": "charge", "place": "Mars"}, "place", "place", NO_PLACE),
    ({"command": "charge", "until_percent": "0"}, "until_percent", "charge to (%)", PERCENT),
    ({"command": "charge", "until_percent": "50.5"}, "until_percent", "charge to (%)", PERCENT),
    ({"command": "charge", "until_percent": "full"}, "until_percent", "charge to (%)", PERCENT),
    ({"command": "custom"}, "name", "name", NEEDED),
    ({"command": "custom", "name": "beep", "args": "[1]"}, "args", "arguments", OBJECT),
    ({"command": "custom", "name": "beep", "args": "{"}, "args", "arguments", OBJECT),
    ({"command": "fly"}, "command", "command", "Select a valid choice."),
    ({"place": "Dock A"}, "command", "command", "Choose what the robot should do."),
]
VALID = [  # what is entered, and what is stored
    (DRIVE, {"place": "Dock A"}),
    ({"command": "pick", "place": "Dock A"}, {"place": "Dock A", "load": ""}),
    ({"command": "drop", "place": "Shelf 3", "load": "box"}, {"place": "Shelf 3", "load": "box"}),
    ({"command": "wait", "seconds": "0.5"}, {"seconds": 0.5}),
    ({"command": "wait", "seconds": "86400"}, {"seconds": 86400.0}),
    ({"command": "charge"}, {"place": "", "until_percent": 100}),
    ({"command": "charge", "place": "Charger 1", "until_percent": "1"}, {"place": "Charger 1", "until_percent": 1}),
    ({"command": "custom", "name": "beep"}, {"name": "beep", "args": {}}),
    ({"command": "custom", "name": "beep", "args": '{"n": 1}'}, {"name": "beep", "args": {"n": 1}}),
]


@pytest.fixture
def able(brand):
    """Robots that can do everything."""
    edit_brand(brand.pk, capabilities=list(TYPES), by=SYSTEM)


def test_the_tables_leave_no_command_type_out():
    assert {step["command"] for step, _ in VALID} == set(TYPES)
    assert {step.get("command") for step, *_ in INVALID} >= set(TYPES)


@pytest.mark.parametrize(("step", "stored"), VALID)
def test_what_is_right_is_stored_and_the_check_has_nothing_to_say(client, supervisor, able, robot, step, stored):
    client.force_login(supervisor)
    data = head(robot) | rows(step)
    assert client.post(CHECK, data).json() == {"problems": [], "robot": ""}
    assert not Mission.objects.exists()
    client.post(ADD, data)
    assert Mission.objects.get().steps.get().params == stored


@pytest.mark.parametrize(("step", "name", "label", "reason"), INVALID)
def test_what_is_wrong_names_step_and_field_and_stores_nothing(
    client, supervisor, able, robot, step, name, label, reason
):
    client.force_login(supervisor)
    before = Event.objects.count()
    data = head(robot) | rows({}, DRIVE, step)
    answer = client.post(ADD, data)
    (problem,) = answer.context["problems"]
    assert (problem.name, problem.text[: problem.text.index(": ")]) == (f"steps-2-{name}", f"Step 2, {label}")
    assert reason in problem.text
    assert client.post(CHECK, data).json()["problems"] == [problem._asdict()]
    html = answer.content.decode()
    assert html.count(escape(problem.text)) == 2, "above the form, and next to the field"
    assert (Mission.objects.count(), Event.objects.count()) == (0, before)


def test_a_command_that_the_robot_cannot_do_is_refused_at_once(client, supervisor, robot):
    client.force_login(supervisor)
    for chosen in ("RB-001", ""):  # and no robot of the site either
        data = head(robot, robot=chosen) | rows({"command": "custom", "name": "beep"})
        (problem,) = client.post(CHECK, data).json()["problems"]
        assert problem["name"] == "steps-0-command"
        assert problem["text"].startswith("Step 1, command: Robots of this brand cannot do custom; they can do charge")


def test_nothing_that_was_entered_is_lost(client, supervisor, able, robot):
    client.force_login(supervisor)
    steps = [{**step, "ORDER": str(i)} for i, (step, *_) in enumerate(INVALID, 1) if "\x00" not in str(step)]
    answer = client.post(ADD, head(robot, title="Kept", priority="7", timeout_s="x") | rows(*steps))
    form, shown = answer.context["form"], list(answer.context["steps"])
    assert [form[name].value() for name in ("title", "priority", "timeout_s", "robot")] == ["Kept", "7", "x", "RB-001"]
    assert [{name: row[name].value() for name in step} for row, step in zip(shown, steps, strict=False)] == steps


@pytest.mark.parametrize(
    ("more", "unfolded"),
    [
        ({}, False), ({"importance": "important"}, True), ({"priority": "1"}, True), ({"priority": "high"}, True),
        ({"timeout_s": "60"}, True), ({"not_before": "2026-12-01T14:30"}, True), ({"needs_approval": "on"}, True),
    ],
)  # fmt: skip
def test_what_is_usual_stays_folded_when_the_form_comes_back(client, supervisor, robot, more, unfolded):
    client.force_login(supervisor)
    usual = {"importance": "normal", "priority": "0", "timeout_s": "", "not_before": "", "offline_policy": ""}
    answer = client.post(ADD, head(robot) | usual | {"title": ""} | more | rows(DRIVE))
    assert ('<details class="panel more" open>' in answer.content.decode()) == unfolded


def test_the_check_is_for_those_who_may_draw_up(client, auditor, supervisor):
    client.force_login(auditor)
    assert client.post(CHECK, {}).status_code == 403
    client.force_login(supervisor)
    assert client.get(CHECK).status_code == 405
    assert client.post(CHECK, {}).json()["problems"]


def test_steps_are_numbered_as_people_see_them(client, supervisor, robot):
    client.force_login(supervisor)
    steps = rows({"command": "navigate", "ORDER": "3"}, {**DRIVE, "ORDER": "2"}, {"command": "wait", "ORDER": "1"})
    problems = client.post(ADD, head(robot) | steps).context["problems"]
    assert [(p.name, p.text) for p in problems] == [
        ("steps-2-seconds", "Step 1, wait for (s): This is needed."),
        ("steps-0-place", "Step 3, place: This is needed."),
    ]


@pytest.mark.parametrize("args", ["[", "[1]", '{"a": NaN}', "[" * 4000, '{"a": "\\u0000"}', '{"a": "\\ud800"}', "7"])
def test_custom_arguments_are_a_bounded_json_object(client, supervisor, robot, brand, args):
    edit_brand(brand.pk, capabilities=["custom"], by=SYSTEM)
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot) | rows({"command": "custom", "name": "beep", "args": args}))
    assert any(p.text.startswith("Step 1, arguments: ") for p in answer.context["problems"])
    client.post(ADD, head(robot) | rows({"command": "custom", "name": "beep", "args": '{"mm": [1, 2.5]}'}))
    assert Mission.objects.get().steps.get().params == {"name": "beep", "args": {"mm": [1, 2.5]}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", ""), ("title", "x" * 201), ("title", "a\x00b"), ("site", "999"), ("site", ""), ("robot", "RB-999"),
        ("robot", "a\x00"), ("priority", "1000"), ("priority", "x"), ("timeout_s", "0"), ("timeout_s", "86401"),
    ],
)  # fmt: skip
def test_the_head_is_checked(client, supervisor, robot, field, value):
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot, **{field: value}) | rows(DRIVE))
    assert answer.context["form"].errors[field]
    assert not Mission.objects.exists()


@pytest.mark.parametrize("steps", [(), ({},), ({**DRIVE, "DELETE": "on"},)])
def test_a_mission_needs_a_step(client, supervisor, robot, steps):
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot) | rows(*steps))
    assert [p.text for p in answer.context["problems"]] == ["A mission needs at least one step."]


def test_too_many_or_no_rows_are_an_error_not_a_crash(client, supervisor, robot):
    client.force_login(supervisor)
    for data in ({}, {"steps-TOTAL_FORMS": "99999", "steps-INITIAL_FORMS": "0"}, rows(*[DRIVE] * 61)):
        answer = client.post(ADD, head(robot) | data)
        assert answer.status_code == 200
        assert answer.context["problems"]
    assert not Mission.objects.exists()


def test_forged_fields_change_nothing(client, supervisor, robot):
    client.force_login(supervisor)
    forged = {"state": "success", "version": "7", "dispatched_at": "2026-01-01", "id": "x", "created_by": "Eve"}
    client.post(ADD, head(robot, **forged) | rows({**DRIVE, "outcome": "completed", "attempt": "9"}))
    mission = Mission.objects.get()
    step = mission.steps.get()
    assert (mission.state, mission.version, mission.dispatched_at) == (State.PENDING, 1, None)
    assert (mission.created_by, step.outcome, step.attempt) == (supervisor.get_username(), "", 0)


def test_edit_keeps_to_the_version_that_was_seen(client, supervisor, mission):
    client.force_login(supervisor)
    form = client.get(page(mission, "edit"))
    assert form.context["form"]["version"].value() == 1
    assert [row["command"].value() for row in form.context["steps"]][:3] == ["navigate", "pick", "drop"]
    client.post(page(mission, "edit"), head(mission.robot, version="1", title="Renamed") | rows(DRIVE))
    mission = Mission.objects.get()
    assert (mission.title, mission.version, mission.steps.count()) == ("Renamed", 2, 1)
    for version in ("1", ""):
        answer = client.post(page(mission, "edit"), head(mission.robot, version=version, title="Again") | rows(DRIVE))
        assert answer.context["form"].non_field_errors()
    assert Mission.objects.get().title == "Renamed"


def test_a_dispatched_mission_cannot_be_edited(client, supervisor, dispatched):
    client.force_login(supervisor)
    data = head(dispatched.robot, version=str(dispatched.version)) | rows(DRIVE)
    for answer in (client.get(page(dispatched, "edit")), client.post(page(dispatched, "edit"), data)):
        assert answer.url == page(dispatched)
    now = Mission.objects.get()
    assert (now.version, now.steps.count()) == (dispatched.version, 3)
    assert "can no longer be edited" in client.get(page(dispatched)).content.decode()


def test_save_and_run(client, supervisor, robot):
    client.force_login(supervisor)
    client.post(ADD, head(robot, _run="1") | rows(DRIVE))
    assert Mission.objects.get().dispatched_at
    assert "“Pallet 7” is drawn up. Dispatched to Ella." in client.get(ADD).content.decode()
    answer = client.post(ADD, head(robot, _run="1", title="Second") | rows(DRIVE), follow=True)
    said = str(next(iter(answer.context["messages"])))
    assert said == "“Second” is drawn up. Waits: Ella is busy with “Pallet 7”."
    second = Mission.objects.get(title="Second")
    assert (second.dispatched_at, second.queued_at is not None) == (None, True)


def test_a_mission_that_needs_approval_is_saved_and_says_so(client, supervisor, robot):
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot, _run="1", needs_approval="on") | rows(DRIVE), follow=True)
    said = [str(message) for message in answer.context["messages"]]
    assert said[0].startswith("Not run: It needs approval before it can run.")
    assert Mission.objects.get().queued_at is None


def test_a_lost_race_is_said_in_words(client, supervisor, robot, monkeypatch):
    def lost(*_, **__):
        raise Conflict("1 of 1 mission rows had moved on")

    monkeypatch.setattr(actions, "queue_mission", lost)
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot, _run="1") | rows(DRIVE), follow=True)
    assert str(next(iter(answer.context["messages"]))) == f"Not run: {MOVED_ON}"


def test_while_one_types_no_robot_is_put_into_words(client, supervisor, robot, other_robot, monkeypatch):
    """The check comes with every pause: what only the page shows of each robot of the fleet is not made for it."""
    said = []
    words = choices._choice
    monkeypatch.setattr(choices, "_choice", lambda facts: said.append(facts.id) or words(facts))
    client.force_login(supervisor)
    client.get(ADD)
    assert said == ["RB-001", "RB-002"]
    for chosen, problem in (("RB-002", None), ("", None), ("RB-404", "There is no such robot in service")):
        (found,) = client.post(CHECK, head(robot, robot=chosen) | rows(DRIVE)).json()["problems"] or [{"text": ""}]
        assert (problem or "") in found["text"] and bool(problem) == bool(found["text"])
    assert len(said) == 2
