"""A mission's page in admin: it says what is going on and who did what, its buttons steer, what others wrote is text."""

from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from fleet.brands.actions import edit_brand
from fleet.history import by_user
from fleet.models import Event
from fleet.robots.stopping import stop_robot
from fleet.sites.actions import add_place, rename_site
from missions import actions, drawing_up, facts
from missions.ledger import Ledger
from missions.models import DeadLetter, Mission, State
from telemetry import translate
from tests.actors import STEPS, SYSTEM, tell

pytestmark = pytest.mark.django_db
LIST = "/admin/missions/mission/"
ADD = f"{LIST}add/"
HOSTILE = "<img src=x onerror=alert(1)> \"'&{{7*7}} 🤖 שלום"


def page(mission: Mission, verb: str = "change") -> str:
    return f"{LIST}{mission.pk}/{verb}/"


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
    assert press("cancel") == ["“Fetch” had already ended (aborted)."]


def test_cancel_ignores_the_version(client, supervisor, mission):
    client.force_login(supervisor)
    client.post(page(mission, "cancel"), {"version": "99"})
    assert Mission.objects.get().state == State.ABORTED


@pytest.mark.parametrize(
    ("columns", "word", "token"),
    [
        ({}, "Pending", "ok"),
        ({"queued_at": 1}, "Waiting", "ok"),
        ({"needs_approval": True}, "Needs approval", "warn"),
        ({"needs_approval": True, "approved_at": 1, "queued_at": 1}, "Waiting", "ok"),
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
    assert [d.then[:13] for d in answer.context["deadlines"]] == ["ask about ste", "ask about the"]
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror" in html
    assert not answer.context["buttons"]
    assert not answer.context["can_edit"]


def test_hostile_text_is_text_everywhere(client, supervisor, admin_person, site, brand, robot):
    from fleet.robots import actions as robots
    from fleet.robots import credentials

    rename_site(site.pk, name="Site " + HOSTILE, by=SYSTEM)
    edit_brand(brand.pk, name="Brand " + HOSTILE, by=SYSTEM)
    add_place(site, name=HOSTILE, x=0, y=0, by=SYSTEM)
    by = by_user(admin_person)
    robots.edit_robot(robot.pk, name=HOSTILE, site=site, brand=brand, by=by)
    pk = drawing_up.draft_mission(
        title=HOSTILE, site=site, robot=robot, by=by, steps=[{"command": "navigate", "params": {"place": HOSTILE}}]
    )
    actions.dispatch_mission(pk, by=by)
    mission = Mission.objects.get(pk=pk)
    actions.cancel_mission(pk, by=by, reason=HOSTILE)
    stop_robot(robot.pk, by=by, why=HOSTILE)
    credentials.issue_credential(robot.pk, label=HOSTILE, by=by)
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
    assert "Aborted, stop not confirmed: it may still be moving" in robot


def test_a_refused_page_says_what_to_do(client, auditor):
    client.force_login(auditor)
    for url, status, words in ((ADD, 403, "An admin can give you another role"), ("/nowhere/", 404, "no such page")):
        answer = client.get(url)
        assert (answer.status_code, words in answer.content.decode()) == (status, True)


def test_the_page_says_what_it_was_made_from_and_what_waits_for_it(client, supervisor, mission, robot):
    by = by_user(supervisor)
    later = drawing_up.draft_mission(title="Later", site=robot.site_id, steps=STEPS, by=by, after=[mission.pk])
    actions.cancel_mission(mission.pk, by=by)
    client.force_login(supervisor)
    answer = client.post(page(mission, "rerun"), follow=True)
    rerun = Mission.objects.get(origin=mission.pk)
    assert answer.redirect_chain[-1][0] == page(rerun)
    assert [(r.how, r.mission.pk) for r in answer.context["related"]] == [("Rerun of", mission.pk)]
    related = client.get(page(mission)).context["related"]
    assert [(r.how, r.mission.pk) for r in related] == [("Rerun as", rerun.pk), ("Comes before", later)]
    assert [r.how for r in client.get(page(Mission.objects.get(pk=later))).context["related"]] == ["Comes after"]
    clone = client.post(page(mission, "clone"))
    assert clone.url == page(Mission.objects.get(origin_kind="clone"), "edit")


def test_an_open_page_is_told_only_what_is_new(client, supervisor, dispatched):
    client.force_login(supervisor)
    shown = client.get(page(dispatched))
    now = f"{page(dispatched, 'now')}?seen="
    assert client.get(now + shown.context["stamp"]).status_code == 204
    tell(dispatched, facts.Accepted(1))
    fresh = client.get(now + shown.context["stamp"])
    assert (fresh.status_code, "Executing" in fresh.content.decode()) == (200, True)
    assert "<html" not in fresh.content.decode()
    old, new = shown.context["parts"], fresh.context["parts"]
    assert {name for name in old if old[name] != new[name]} == {"head", "buttons", "rows", "history"}
    assert client.get(now + fresh.context["stamp"]).status_code == 204


def test_an_open_page_hears_what_is_written_just_after_the_end(client, supervisor, dispatched, monkeypatch):
    """How often commands were tried comes a second later, and so may the mission that goes on with it."""
    tell(dispatched, facts.Delivered(), facts.Accepted(1), facts.Cancelled(1))
    client.force_login(supervisor)
    shown = client.get(page(dispatched)).context
    assert (shown["row"].state, shown["every_s"]) == ("aborted", 3)
    monkeypatch.setattr("missions.admin.mission_page.SETTLES_S", -3600)
    last = client.get(f"{page(dispatched, 'now')}?seen={shown['stamp']}")
    assert (last.status_code, last.context["every_s"]) == (200, 0), "it is told to ask no more"


def test_an_open_page_hears_of_a_new_reason_to_wait(client, supervisor, mission, robot):
    client.force_login(supervisor)
    stamp = client.get(page(mission)).context["stamp"]
    stop_robot(robot.pk, by=by_user(supervisor), why="blocked aisle")
    fresh = client.get(f"{page(mission, 'now')}?seen={stamp}")
    assert "blocked aisle" in fresh.content.decode()


def test_an_author_is_not_offered_to_approve(client, supervisor, admin_person, robot):
    pk = drawing_up.draft_mission(
        title="Move", site=robot.site_id, steps=STEPS, by=by_user(supervisor), needs_approval=True
    )
    for person, offered in ((supervisor, False), (admin_person, True)):
        client.force_login(person)
        verbs = [b.verb for b in client.get(f"{LIST}{pk}/change/").context["buttons"]]
        assert (("approve" in verbs), ("run" in verbs)) == (offered, False)


def test_dead_letters_say_what_to_do(client, auditor):
    client.force_login(auditor)
    address = "/admin/missions/deadletter/"
    assert "No dead letters: everything that robots said was applied" in client.get(address).content.decode()
    for direction, words in (("in", "Nothing of it was applied."), ("out", "The robot never took it")):
        letter = DeadLetter.objects.create(
            direction=direction,
            robot_id="RB-001",
            msg_id=uuid4(),
            kind="x",
            body="{}",
            reason="r",
            created_at=timezone.now(),
        )
        assert words in client.get(f"{address}{letter.pk}/change/").content.decode()
    assert "Each says what to do now." in client.get(address).content.decode()
