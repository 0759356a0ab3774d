"""Audit: who did what, where, when and why; each event's page; who may look at what."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import connection, transaction
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from fleet import triggers
from fleet.audit import one_event as audit_event
from fleet.audit import questions as audit
from fleet.history import KINDS, Origin, by_user, sentence
from fleet.models import Event
from fleet.robots import actions as robots
from fleet.robots import facts as words
from fleet.robots import stopping
from missions import actions, drawing_up, facts
from missions.ledger import Ledger
from telemetry.models import ProcessedMessage
from tests.actors import STEPS, SYSTEM, tell

pytestmark = pytest.mark.django_db
LIST = "/admin/fleet/event/"


def asked(user, **question) -> list[str]:
    return [e.kind for e in audit.Question(question, user).events()]


def page(client, user, **question) -> str:
    client.force_login(user)
    response = client.get(LIST, question)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def aborted(dispatched, supervisor):
    tell(dispatched, facts.Delivered(), facts.Accepted(1), at=timezone.now())
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor), reason="wrong pallet")
    tell(dispatched, facts.Cancelled(1, ""), at=timezone.now())
    dispatched.refresh_from_db(fields=["version"])
    return dispatched


# --- filters


def test_by_who(aborted, auditor, supervisor):
    kinds = asked(auditor, who="Ana")
    assert {"mission.drafted", "mission.dispatched", "mission.stop_requested"} <= set(kinds)
    assert "robot.enrolled" not in kinds
    assert asked(auditor, who=str(supervisor.pk), by="user") == kinds


def test_by_kind_and_by_all_kinds_of_a_thing(aborted, auditor):
    assert asked(auditor, what="mission.aborted") == ["mission.aborted"]
    assert {kind.partition(".")[0] for kind in asked(auditor, what="person.")} == {"person"}


def test_by_robot_with_what_belongs_to_it(aborted, other_robot, auditor):
    for name in ("RB-001", "Ella"):
        kinds = asked(auditor, robot=name)
        assert {"robot.enrolled", "mission.drafted", "mission.aborted"} <= set(kinds)
    assert "mission.drafted" not in asked(auditor, robot="RB-002")
    assert asked(auditor, robot="RB-999") == []


def test_by_mission(aborted, auditor):
    by_title = asked(auditor, mission="fetc")
    assert by_title == asked(auditor, mission=str(aborted.pk)) == asked(auditor, q=str(aborted.pk))
    assert by_title[-1] == "mission.drafted"


def test_by_reason_of_the_end(aborted, auditor):
    assert asked(auditor, reason="operator") == ["mission.aborted", "mission.stop_requested"]
    assert asked(auditor, reason="any") == asked(auditor, reason="operator")
    assert asked(auditor, reason="timeout") == []


def test_by_words_trace_cause_and_period(aborted, auditor):
    assert asked(auditor, text="WRONG pallet") == ["mission.aborted", "mission.stop_requested"]
    event = Event.objects.get(kind="mission.stop_requested")
    assert "mission.stop_requested" in asked(auditor, trace=event.trace_id)
    assert asked(auditor, trace=event.cause) == asked(auditor, q=event.trace_id)
    assert "mission.stop_requested" in asked(auditor, period="today")
    assert "mission.stop_requested" not in asked(auditor, period="yesterday")
    assert asked(auditor, end="2020-01-01T00:00:00") == []
    now = timezone.now()
    said = {"period": "between", "start": now, "end": now}  # the whole second that is named belongs to it
    assert audit.bounds(said, now) == (now, now + timedelta(seconds=1))


def test_words_are_those_that_people_read(aborted, robot, auditor):
    """They stand in the data, in the kind's own text, or behind a code."""
    for event in Event.objects.all():
        said = sentence(event)
        found = audit.Question({"text": said}, auditor).events()
        assert event in found, f"{event.kind} is not found by its own words: {said}"
    assert asked(auditor, text="aborted: person") == ["mission.aborted"]
    assert asked(auditor, text="by a person  Cancelled") == ["mission.aborted", "mission.stop_requested"]
    assert asked(auditor, text="accepted by the robot") == ["mission.started"]
    assert asked(auditor, text="taken as accepted") == []
    assert asked(auditor, text="not confirmed") == []


def test_by_site(aborted, other_site, auditor):
    assert "mission.aborted" in asked(auditor, site=str(aborted.site_id))
    assert {kind.partition(".")[0] for kind in asked(auditor, site=str(other_site.pk))} <= {"site"}


@pytest.mark.parametrize(
    "question",
    [
        {"site": "x"},
        {"what": "no.such"},
        {"start": "yesterday"},
        {"start": "2026-01-02T00:00", "end": "2026-01-01T00:00"},
    ],
)
def test_a_question_that_makes_no_sense_finds_nothing_and_says_so(aborted, auditor, client, question):
    assert asked(auditor, **question) == []
    assert "errorlist" in page(client, auditor, **question)


def test_the_days_of_the_presets():
    now = timezone.datetime(2026, 11, 29, 22, 0, tzinfo=timezone.get_default_timezone())
    day = now.replace(hour=0)
    assert audit.bounds({"period": "today"}, now) == (day, None)
    assert audit.bounds({"period": "yesterday"}, now) == (day - timedelta(days=1), day)
    assert audit.bounds({"period": "7days"}, now) == (day - timedelta(days=6), None)


def test_a_preset_keeps_what_else_was_asked(auditor):
    """When or what is answered anew; the robot, the site and the words stay. A page further on begins at the newest."""
    asked = QueryDict("robot=RB-001&site=1&what=person.&reason=&period=between&start=2026-01-01T00:00:00&older=1-1")
    kept = {"robot": "RB-001", "site": "1"}
    found = {words: QueryDict(address).dict() for words, address in audit.presets(asked)}
    assert found["yesterday"] == {**kept, "what": "person.", "period": "yesterday"}
    assert found["aborted yesterday"] == {**kept, "period": "yesterday", "reason": "any"}
    between = {"period": "between", "start": "2026-01-01T00:00:00"}
    assert found["stops and holds"] == {**kept, "what": "robot.hold_opened", **between}
    assert len(found) == 7


def test_every_kind_has_words():
    for name in KINDS:
        said = audit.kind_in_words(name)
        assert said and "{" not in said and "}" not in said, name
        assert said.count("(") == said.count(")"), said


# --- the list


def test_names_instead_of_ids_and_no_query_per_row(aborted, auditor, client, django_assert_max_num_queries):
    text = page(client, auditor)
    assert "Ella" in text
    assert "Fetch" in text
    assert "cancelled by a person" in text
    few = queries(client)
    for number in range(40):
        drawing_up.draft_mission(title=f"More {number}", site=aborted.site, robot=None, steps=STEPS, by=SYSTEM)
    assert queries(client) == few


def queries(client) -> int:
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as caught:
        assert client.get(LIST).status_code == 200
    return len(caught)


def test_pages_by_key_show_each_event_once(robot, auditor, client):
    with transaction.atomic():  # many with the very same time
        ledger = Ledger.open(["RB-001"], now=timezone.now())
        for seq in range(1, 251):
            ledger.tell_robot("RB-001", words.Reported(1, seq, "idle"), SYSTEM, timezone.now())
        ledger.commit()
    client.force_login(auditor)
    seen, address = [], LIST
    while address:
        context = client.get(address).context
        seen += [line.event.pk for line in context["lines"]]
        address = LIST + context["older"] if context["older"] else ""
    assert seen == list(Event.objects.order_by("-recorded_at", "-id").values_list("pk", flat=True))
    chunks = audit.in_chunks(audit.Question({}, auditor).events(), 7)
    assert [event.pk for chunk in chunks for event in chunk] == seen


def test_a_damaged_key_or_nul_breaks_nothing(robot, auditor, client):
    assert "Enrolled" in page(client, auditor, older="99x-1")
    client.force_login(auditor)
    assert client.get(LIST, {"q": "\x00"}).status_code == 302


def test_a_search_that_takes_too_long_says_what_to_do(robot, auditor, client, monkeypatch):
    def slow(question, value):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(1)")

    monkeypatch.setattr("fleet.admin.audit.PATIENCE_MS", 20)
    monkeypatch.setitem(audit.CONDITIONS, "text", slow)
    assert "Choose a period" in page(client, auditor, text="x")


def test_text_of_a_robot_is_text(robot, auditor, client):
    with transaction.atomic():
        ledger = Ledger.open(["RB-001"], now=timezone.now())
        ledger.tell_robot("RB-001", words.Faulted(1, 1, "<script>alert(1)</script>"), SYSTEM)
        ledger.commit()
    text = page(client, auditor, what="robot.faulted")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    event = Event.objects.get(kind="robot.faulted")
    assert b"<script>alert" not in client.get(f"{LIST}{event.pk}/change/").content


# --- one event


def test_the_page_of_an_event_says_before_and_after(aborted, auditor, client):
    event = Event.objects.get(kind="mission.stop_requested")
    moved = {m.column: (m.before, m.after) for m in audit_event.changes(event)[0]}
    assert moved["abort_detail"] == ("–", "wrong pallet")
    assert moved["abort_reason"] == ("–", "Cancelled by a person")
    assert moved["stop_requested_by"] == ("–", "Ana")
    client.force_login(auditor)
    text = client.get(f"{LIST}{event.pk}/change/").content.decode()
    for expected in ("wrong pallet", "mission.cancel", "what was written", "Fetch", bytes(event.hash).hex()):
        assert expected in text


def test_a_person_is_a_link_only_for_who_may_open_that_page(auditor, admin_person, client):
    link = f'href="/admin/auth/user/{auditor.pk}/change/"'
    for person, linked in ((auditor, False), (admin_person, True)):
        client.force_login(person)
        page = client.get(f"{LIST}?q=person:{auditor.pk}").content.decode()
        assert (link in page, auditor.username in page) == (linked, True)


def test_what_stays_empty_is_no_change(robot):
    moved, _ = audit_event.changes(Event.objects.get(kind="robot.enrolled"))
    assert moved and not [m for m in moved if m.after == "–"]


def test_a_child_that_comes_changes_and_goes(mission, supervisor):
    drawing_up.edit_mission(
        mission.pk, version=mission.version, title="Fetch", site=mission.site, robot=mission.robot, steps=STEPS[:1],
        by=by_user(supervisor),
    )  # fmt: skip
    moved, why_not = audit_event.changes(Event.objects.get(kind="mission.edited"))
    columns = {m.column: (m.before, m.after) for m in moved}
    assert why_not == ""
    assert columns["steps 3: command"] == ("drop", "–")
    assert "steps 1: command" not in columns


@pytest.mark.tampers
@pytest.mark.django_db(transaction=True)
def test_an_event_that_was_tampered_with_is_named(mission, auditor, client):
    event = Event.objects.get(kind="mission.drafted")
    assert audit_event.verified(event) == ""
    triggers.drop()
    Event.objects.filter(pk=event.pk).update(actor_name="Somebody else")
    triggers.create()
    client.force_login(auditor)
    assert "Not genuine: its hash does not fit" in client.get(f"{LIST}{event.pk}/change/").content.decode()


def test_the_message_it_came_of_and_what_it_belongs_with(dispatched, auditor, client):
    msg_id = "11111111-2222-4333-8444-555555555555"
    ProcessedMessage.objects.create(
        robot_id="RB-001", msg_id=msg_id, session=3, seq=9, verdict="applied",
        received_at=timezone.now(), applied_at=timezone.now(),
    )  # fmt: skip
    tell(
        dispatched, facts.Accepted(1), origin=Origin("robot", "RB-001", "Ella", f"message:{msg_id}"), at=timezone.now()
    )
    event = Event.objects.get(kind="mission.started")
    client.force_login(auditor)
    response = client.get(f"{LIST}{event.pk}/change/")
    text = response.content.decode()
    assert "Message from the robot" in text
    assert "3, 9" in text
    assert [line.event.kind for line in response.context["together"]] == ["mission.started"]


def test_a_long_history_shows_what_the_event_says(mission, monkeypatch):
    monkeypatch.setattr(audit_event, "FOLDED", 0)
    moved, why_not = audit_event.changes(Event.objects.get(kind="mission.drafted"))
    assert "not worked out" in why_not
    assert {m.column: m.before for m in moved}["title"] is None


# --- who may


def test_a_site_auditor_sees_the_own_site_only(aborted, other_site, brand, site_auditor, other_supervisor, client):
    robots.enrol_robot(id="RB-900", name="Zelda", site=other_site, brand=brand, by=SYSTEM)
    mine = set(Event.objects.filter(site_id=aborted.site_id).values_list("pk", flat=True))
    assert {e.pk for e in audit.Question({}, site_auditor).events()} == mine
    text = page(client, site_auditor)
    assert "Zelda" not in text
    assert "Hall 2" not in text
    foreign = Event.objects.get(aggregate="robot:RB-900")
    assert client.get(f"{LIST}{foreign.pk}/change/").status_code == 404
    assert asked(site_auditor, q="robot:RB-900") == asked(site_auditor, robot="Zelda") == []
    assert asked(site_auditor, site=str(other_site.pk)) == []
    assert "Fetch" not in page(client, other_supervisor)


def test_what_a_robot_did_before_it_moved_away_shows_nothing_of_where_it_is(
    robot, other_site, brand, site_auditor, auditor, client
):
    by = Origin("user", "1", "Ana", "request:move", "ab" * 16)
    stopping.stop_robot("RB-001", by=by)
    robots.edit_robot("RB-001", name="Ella", site=other_site, brand=brand, by=by)
    stopped = Event.objects.get(kind="robot.hold_opened")

    def shown(who):
        client.force_login(who)
        found = client.get(f"{LIST}{stopped.pk}/change/").context
        together = [line.event.kind for line in found["together"]]
        return together, found["next_in_history"] is not None, len(found["commands"])

    assert shown(auditor) == (["robot.hold_opened", "robot.edited"], True, 1)
    assert shown(site_auditor) == (["robot.hold_opened"], False, 0)


def test_nobody_without_the_permission(aborted, outsider, client):
    client.force_login(outsider)
    assert client.get(LIST).status_code in (302, 403)
    assert client.get(f"{LIST}export.csv").status_code in (302, 403)


@pytest.mark.parametrize("who", ["auditor", "site_auditor", "supervisor", "admin_person"])
def test_nothing_here_can_be_changed(aborted, who, client, request):
    client.force_login(request.getfixturevalue(who))
    event = Event.objects.filter(site_id=aborted.site_id).first()
    paths = [
        "",
        "add/",
        f"{event.pk}/change/",
        f"{event.pk}/delete/",
        f"{event.pk}/history/",
        "export.csv",
        "export.jsonl",
    ]
    for path in paths:
        assert client.post(LIST + path, {"post": "yes", "_save": "1"}).status_code == 403, path


# --- the task of the first day


def test_find_who_aborted_yesterdays_mission_and_why_and_export_it(aborted, auditor, client, monkeypatch):
    tomorrow = timezone.now() + timedelta(days=1)
    monkeypatch.setattr("fleet.audit.questions.timezone.now", lambda: tomorrow)
    client.force_login(auditor)
    start = client.get("/admin/").content.decode()
    assert LIST in start  # one click
    listed = client.get(LIST).content.decode()
    preset = "?period=yesterday&amp;reason=any"
    assert preset in listed  # two
    found = client.get(LIST, {"period": "yesterday", "reason": "any"})
    [_ended, asked_for] = found.context["lines"]
    assert (asked_for.who, asked_for.about.name) == ("Ana", "Fetch")
    assert "wrong pallet" in asked_for.words
    export = reverse("admin:fleet_event_export", kwargs={"kind": "csv"})
    query = urlencode({"period": "yesterday", "reason": "any"})
    assert f"{export}?{query}" in found.content.decode().replace("&amp;", "&")
    rows = b"".join(client.get(f"{export}?{query}").streaming_content).decode().splitlines()
    assert len(rows) == 3
    assert "Ana" in rows[2]
    assert "wrong pallet" in rows[2]


@pytest.mark.parametrize("name", ["start", "end"])
@pytest.mark.parametrize("at", ["9999-12-31T23:59:59", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_times_at_the_edges_of_the_calendar_are_answered(client, auditor, aborted, name, at):
    page(client, auditor, **{name: at})
