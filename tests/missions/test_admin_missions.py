"""Missions in admin: typed rows become a mission, errors name step and field, the page says what is going on."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Event, Robot
from missions import actions, facts
from missions.ledger import Ledger
from missions.models import DeadLetter, Mission, State
from telemetry import translate
from tests.actors import STEPS, tell

pytestmark = pytest.mark.django_db
LIST = "/admin/missions/mission/"
ADD = f"{LIST}add/"
HOSTILE = "<img src=x onerror=alert(1)> \"'&{{7*7}} 🤖 שלום"


def page(mission: Mission, verb: str = "change") -> str:
    return f"{LIST}{mission.pk}/{verb}/"


def head(of: Robot, **more: object) -> dict:
    return {"title": "Pallet 7", "site": of.site_id, "robot": of.pk, "priority": "2", "timeout_s": "900", **more}


def rows(*steps: dict) -> dict:
    """A posted form set. A step may bring its own ORDER and DELETE."""
    data = {"steps-TOTAL_FORMS": str(len(steps)), "steps-INITIAL_FORMS": "0"}
    return data | {f"steps-{i}-{name}": value for i, step in enumerate(steps) for name, value in step.items()}


DRIVE = {"command": "navigate", "place": "Dock A"}


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


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"command": "navigate"}, "Step 2, place: This is needed."),
        ({"command": "navigate", "place": "Mars"}, "Step 2, place: Mars is no place of this site."),
        ({"command": "navigate", "place": "Dock A", "seconds": "3"}, "Step 2, seconds: Navigate has no seconds"),
        ({"command": "wait", "seconds": "0"}, "Step 2, seconds: More than 0 and at most 86400 (one day)."),
        ({"command": "wait", "seconds": "nan"}, "Step 2, seconds: "),
        ({"command": "wait", "seconds": "1e99"}, "Step 2, seconds: "),
        ({"command": "charge", "until_percent": "50.5"}, "Step 2, until (%): A whole number from 1 to 100."),
        ({"command": "custom", "name": "beep"}, "Step 2, command: Robots of this brand cannot do custom"),
        ({"command": "fly"}, "Step 2, command: "),
        ({"place": "Dock A"}, "Step 2, command: Choose what the robot should do."),
        ({**DRIVE, "timeout_s": "0"}, "Step 2, time (s): "),
        ({**DRIVE, "timeout_s": "99999"}, "Step 2, time (s): "),
        ({"command": "pick", "place": "Dock A", "load": "x" * 201}, "Step 2, load: "),
        ({"command": "pick", "place": "Dock A", "load": "a\x00b"}, "Step 2, load: "),
    ],
)
def test_an_error_names_step_and_field_and_stores_nothing(client, supervisor, robot, step, said):
    client.force_login(supervisor)
    before = Event.objects.count()
    answer = client.post(ADD, head(robot) | rows({}, DRIVE, step))
    assert answer.status_code == 200
    assert any(said in problem for problem in answer.context["problems"]), answer.context["problems"]
    assert (Mission.objects.count(), Event.objects.count()) == (0, before)


def test_steps_are_numbered_as_people_see_them(client, supervisor, robot):
    client.force_login(supervisor)
    steps = rows({"command": "navigate", "ORDER": "3"}, {**DRIVE, "ORDER": "2"}, {"command": "wait", "ORDER": "1"})
    problems = client.post(ADD, head(robot) | steps).context["problems"]
    assert problems == ["Step 1, seconds: This is needed.", "Step 3, place: This is needed."]


@pytest.mark.parametrize("args", ["[", "[1]", '{"a": NaN}', "[" * 4000, '{"a": "\\u0000"}', '{"a": "\\ud800"}', "7"])
def test_custom_arguments_are_a_bounded_json_object(client, supervisor, robot, brand, args):
    brand.capabilities = ["custom"]
    brand.save()
    client.force_login(supervisor)
    answer = client.post(ADD, head(robot) | rows({"command": "custom", "name": "beep", "args": args}))
    assert any(p.startswith("Step 1, arguments: ") for p in answer.context["problems"])
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
    assert answer.context["problems"] == ["A mission needs at least one step."]


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


def test_buttons_steer_and_report(client, supervisor, mission):
    client.force_login(supervisor)

    def press(verb, **data):
        answer = client.post(page(mission, verb), data, follow=True)
        return [str(m) for m in answer.context["messages"]]

    assert press("dispatch", version=mission.version) == ["Dispatching “Fetch” to Ella…"]
    assert press("dispatch", version=mission.version) == [
        "It has changed since you looked. Read it again and decide anew."
    ]
    assert press("dispatch") == ["This page is out of date: look at it again, then repeat."]
    assert press("pause")[0].startswith("Pausing “Fetch”")
    assert press("resume", version=Mission.objects.get().version) == ["Resuming “Fetch”…"]
    tell(mission, facts.Accepted(1))
    assert press("cancel", reason="wrong\x00 aisle " + "x" * 9000)[0].startswith("Stopping “Fetch”…")
    assert press("cancel") == ["“Fetch” is already stopping."]
    stopping = Mission.objects.get()
    assert (stopping.stop_requested_by, stopping.abort_detail[:12]) == (supervisor.get_username(), "wrong aisle ")
    tell(stopping, facts.Cancelled(1))
    assert press("cancel") == ["“Fetch” had already ended."]


def test_cancel_ignores_the_version(client, supervisor, mission):
    client.force_login(supervisor)
    client.post(page(mission, "cancel"), {"version": "99"})
    assert Mission.objects.get().state == State.ABORTED


def test_save_and_dispatch(client, supervisor, robot):
    client.force_login(supervisor)
    client.post(ADD, head(robot, _dispatch="1") | rows(DRIVE))
    assert Mission.objects.get().dispatched_at
    assert "Dispatching…" in client.get(ADD).content.decode()
    answer = client.post(ADD, head(robot, _dispatch="1", title="Second") | rows(DRIVE), follow=True)
    assert "Not dispatched: Ella is busy with “Pallet 7”" in str(next(iter(answer.context["messages"])))
    assert Mission.objects.get(title="Second").dispatched_at is None


@pytest.mark.parametrize(
    ("columns", "word", "token"),
    [
        ({}, "Pending", "ok"),
        ({"dispatched_at": 1}, "Dispatching…", "info"),
        ({"state": "executing", "dispatched_at": 1}, "Executing", "ok"),
        ({"state": "executing", "dispatched_at": 1, "paused_at": 1}, "Paused", "ok"),
        ({"state": "executing", "dispatched_at": 1, "paused_at": 1, "stop_requested_at": 1}, "Stopping…", "info"),
        ({"state": "pending", "dispatched_at": 1, "stop_requested_at": 1}, "Stopping…", "info"),
        ({"state": "success"}, "Success", "ok"),
        ({"state": "aborted", "abort_reason": "timeout", "stop_confirmed": True}, "Aborted: timeout", "off"),
        (
            {"state": "aborted", "abort_reason": "timeout", "stop_confirmed": False},
            "Aborted, stop not confirmed",
            "bad",
        ),
    ],
)
def test_state_is_said_in_words_and_shape(columns, word, token):
    from missions.wording import mission_said

    said = mission_said(Mission(**{k: timezone.now() if v == 1 else v for k, v in columns.items()}))
    assert (said.word, said.token) == (word, token)
    assert said.shape


def test_page_shows_steps_deadlines_and_timeline_with_who_and_why(client, auditor, dispatched, supervisor):
    tell(dispatched, facts.Accepted(1), facts.StepCompleted(1, 1, 1, HOSTILE))
    client.force_login(auditor)
    answer = client.get(page(dispatched))
    html = answer.content.decode()
    assert [(e.edge, e.who, e.cause.split(":")[0]) for e in answer.context["entries"] if e.edge] == [
        (("new", "pending"), "Ana", "request"),
        (("pending", "executing"), "Ella", "message"),
        (("executing", "step_completed"), "Ella", "message"),
        (("step_completed", "executing"), "Ella", "message"),
    ]
    assert "Drive to Dock A" in html
    assert "Pick pallet 7 at Dock A" in html
    assert [d.kind for d, _, _ in answer.context["deadlines"]] == ["step", "mission"]
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror" in html
    assert not answer.context["buttons"]
    assert not answer.context["can_edit"]


def test_hostile_text_is_text_everywhere(client, supervisor, admin_person, site, brand, robot):
    from fleet import actions as robots

    site.name = "Site " + HOSTILE
    site.save()
    brand.name = "Brand " + HOSTILE
    brand.save()
    site.places.create(name=HOSTILE, x=0, y=0)
    by = by_user(admin_person)
    robots.edit_robot(robot.pk, name=HOSTILE, site=site, brand=brand, by=by)
    pk = actions.draft_mission(
        title=HOSTILE, site=site, robot=robot, by=by, steps=[{"command": "navigate", "params": {"place": HOSTILE}}]
    )
    actions.dispatch_mission(pk, by=by)
    mission = Mission.objects.get(pk=pk)
    actions.cancel_mission(pk, by=by, reason=HOSTILE)
    robots.stop_robot(robot.pk, by=by, why=HOSTILE)
    robots.issue_credential(robot.pk, label=HOSTILE, by=by)
    DeadLetter.objects.create(
        direction="in", robot_id=HOSTILE[:60], msg_id=pk, kind=HOSTILE[:60], body=HOSTILE, reason=HOSTILE,
        created_at=timezone.now(),
    )  # fmt: skip
    client.force_login(admin_person)
    events = [f"/admin/fleet/event/{e}/change/" for e in Event.objects.values_list("pk", flat=True)]
    letter = f"/admin/missions/deadletter/{DeadLetter.objects.get().pk}/change/"
    for url in (
        "/admin/", LIST, page(mission), ADD, "/admin/fleet/robot/", "/admin/fleet/robot/RB-001/change/",
        "/admin/fleet/robot/RB-001/edit/", "/admin/fleet/event/", "/admin/fleet/site/", "/admin/fleet/place/",
        "/admin/fleet/brand/", "/admin/missions/deadletter/", letter, "/admin/fleet/command/", *events,
    ):  # fmt: skip
        answer = client.get(url)
        assert answer.status_code == 200, url
        assert "<img src=x" not in answer.content.decode(), url


def test_64_kb_from_a_robot_do_not_swell_the_pages(client, auditor, dispatched):
    tell(dispatched, facts.Accepted(1), facts.StepCompleted(1, 1, 1, HOSTILE + "x" * 65536))
    client.force_login(auditor)
    for url in (page(dispatched), "/admin/fleet/event/", "/admin/fleet/event/?q=" + str(dispatched.pk)):
        assert len(client.get(url).content) < 50_000
    event = Event.objects.get(kind="mission.step_completed")
    assert len(client.get(f"/admin/fleet/event/{event.pk}/change/").content) > 65_000


def test_an_unconfirmed_stop_is_never_plain_aborted(client, auditor, dispatched, supervisor):
    tell(dispatched, facts.Accepted(1))
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    while due := Mission.objects.get().next_due_at:  # the stop is sent again a few times, then given up
        with transaction.atomic():
            ledger = Ledger.open(["RB-001"], [dispatched.pk], now=due)
            translate.due(ledger, dispatched.pk, due)
            ledger.commit()
    client.force_login(auditor)
    for url in (page(dispatched), f"{LIST}?shown=unconfirmed"):
        html = client.get(url).content.decode()
        assert "Aborted, stop not confirmed" in html
    assert "it may still be moving" in client.get(page(dispatched)).content.decode()
    assert "stop was not confirmed" in client.get("/admin/").content.decode()
    robot = client.get("/admin/fleet/robot/RB-001/change/").content.decode()
    assert "Stop not confirmed" in robot


def draw(robot: Robot, person, count: int) -> None:
    for i in range(count):
        actions.draft_mission(title=f"Round {i}", site=robot.site_id, robot=robot, steps=STEPS, by=by_user(person))


def test_the_list_asks_as_much_for_200_rows_as_for_5(client, supervisor, robot, other_robot):
    client.force_login(supervisor)

    def queries():
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"{LIST}?all=").status_code == 200
        return len(asked)

    draw(robot, supervisor, 5)
    actions.dispatch_mission(Mission.objects.first().pk, by=by_user(supervisor))
    few = queries()
    draw(robot, supervisor, 100)
    draw(other_robot, supervisor, 95)
    assert Mission.objects.count() == 200
    assert queries() == few


def test_the_list_says_why_a_mission_was_aborted(client, auditor, mission, supervisor):
    actions.cancel_mission(mission.pk, by=by_user(supervisor), reason="<b>blocked</b> aisle")
    client.force_login(auditor)
    html = client.get(f"{LIST}?state__exact=aborted&ended_at__isnull=False").content.decode()
    assert "Aborted: cancelled by a person" in html and "&lt;b&gt;blocked&lt;/b&gt; aisle" in html


def test_a_refused_page_says_what_to_do(client, auditor):
    client.force_login(auditor)
    for url, status, words in ((ADD, 403, "An admin can give you another role"), ("/nowhere/", 404, "no such page")):
        answer = client.get(url)
        assert (answer.status_code, words in answer.content.decode()) == (status, True)


def test_the_list_answers_who_where_how_far_and_why(client, auditor, dispatched, supervisor):
    tell(dispatched, facts.Accepted(1), facts.StepCompleted(1, 1, 1))
    draw(dispatched.robot, supervisor, 1)
    client.force_login(auditor)
    html = client.get(LIST).content.decode()
    for text in ("Executing", "1/3", "RB-001", "Ana", "Ella is busy with “Fetch”"):
        assert text in html
    assert "_selected_action" not in html
    assert "delete" not in html.lower()


@pytest.mark.parametrize("query", ["shown=draft", "shown=running", "state__exact=pending", "robot__id__exact=RB-001", "q=fetch", "q=RB-001"])  # fmt: skip
def test_filters_and_search_find(client, auditor, mission, query):
    client.force_login(auditor)
    found = client.get(f"{LIST}?{query}").context["cl"].result_list
    assert len(found) == (0 if query == "shown=running" else 1)


@pytest.mark.parametrize("query", ["q=%00", "robot__id__exact=%00", "site__id__exact=x", "shown=%00", "nonsense=1", "p=9999999999999999999"])  # fmt: skip
def test_nonsense_in_the_address_is_no_crash(client, auditor, mission, query):
    client.force_login(auditor)
    assert client.get(f"{LIST}?{query}").status_code in (200, 302)
    assert client.get(f"{LIST}%00/change/").status_code == 404
    assert client.get(f"{LIST}no-uuid/change/").status_code == 404
