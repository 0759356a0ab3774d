"""Dead letters in admin: found, looked at, requeued and discarded, one by one and many at once; never buried."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from fleet.history import by_user
from fleet.models import Command, Event
from fleet.robots import stopping
from missions import actions
from missions.admin import letter_bulk
from missions.models import DeadLetter, LetterState
from tests.actors import SYSTEM

LIST = "/admin/missions/deadletter/"


def letter(robot="RB-001", **over):
    columns = {"direction": "in", "kind": "robot.fault", "body": "{}", "reason": "data.code: is missing"} | over
    columns.setdefault("created_at", timezone.now())
    return DeadLetter.objects.create(robot_id=robot, msg_id=uuid4(), **columns)


def page(row):
    return f"{LIST}{row.pk}/change/"


@pytest.fixture
def seat(client, robot, supervisor):
    client.force_login(supervisor)
    return client


def html(client, url, **kwargs):
    answer = client.get(url, **kwargs)
    assert answer.status_code == 200
    return answer.content.decode()


def test_thousands_of_one_kind_are_one_line_and_bury_nothing(seat):
    letter(kind="mission.finished", reason="ZeroDivisionError: a bug")
    DeadLetter.objects.bulk_create(
        DeadLetter(direction="in", robot_id="RB-001", msg_id=uuid4(), kind="robot.fault", body="{}",
                   reason=f"event {n} has no code", created_at=timezone.now())
        for n in range(1500)
    )  # fmt: skip
    text = html(seat, LIST)
    assert "1500 alike" in text and "mission.finished" in text and "event # has no code" in text
    assert "1501 letters in 2 lines" in text, "as many as the start page says"
    assert "1501 dead letters: " in html(seat, "/admin/")
    each = html(seat, f"{LIST}?each=each&why=event+%23+has+no+code")
    assert "1500" in each and "mission.finished" not in each.partition("<tbody>")[2].partition("</tbody>")[0]


def test_what_was_decided_is_out_of_the_way_unless_asked_for(seat):
    for state in LetterState.values:
        letter(kind=f"kind.{state}", state=state)
    rows = html(seat, LIST).partition("<tbody>")[2].partition("</tbody>")[0]
    assert "kind.open" in rows and "kind.failed" in rows
    assert "kind.discarded" not in rows and "kind.applied" not in rows and "kind.requeued" not in rows
    assert "kind.discarded" in html(seat, f"{LIST}?state=discarded")
    assert all(f"kind.{state}" in html(seat, f"{LIST}?state=all") for state in LetterState.values)


def test_filters_find_by_direction_robot_kind_reason_and_age(seat):
    now = timezone.now()
    letter(kind="one.kind", direction="out", reason="no answer", created_at=now - timedelta(days=9))
    letter(kind="two.kind")

    def found(query):
        rows = html(seat, f"{LIST}?{query}").partition("<tbody>")[2].partition("</tbody>")[0]
        return ("one.kind" in rows, "two.kind" in rows)

    assert found("direction__exact=out") == found("kind=one.kind") == found("why=no+answer") == (True, False)
    assert found("age=older") == (True, False) and found("age=1h") == (False, True)
    assert found("robot=RB-001") == (True, True)
    assert found("q=answer") == (True, False)


def test_the_site_filter_is_narrowed_and_survives_nonsense(seat, site):
    letter(kind="one.kind")
    assert "one.kind" in html(seat, f"{LIST}?site={site.pk}")
    for nonsense in ("x", "9" * 30, "-1", "²"):
        assert "one.kind" not in html(seat, f"{LIST}?site={nonsense}").partition("<tbody>")[2].partition("</tbody>")[0]


def test_requeue_and_discard_are_buttons_that_report(seat, supervisor):
    first, second = letter(), letter()
    assert "Requeued. What becomes of it" in html_after(seat, first, "requeue")
    assert "It is requeued already: once is enough." in html_after(seat, first, "requeue")
    assert "Say why nothing is to be done" in html_after(seat, second, "discard")
    text = html_after(seat, second, "discard", reason="known bug")
    assert "Discarded" in text and "known bug" in text and supervisor.username in text
    assert [e.kind for e in Event.objects.filter(kind__startswith="letter.")] == ["letter.requeued", "letter.discarded"]


def html_after(client, row, verb, **data):
    answer = client.post(f"{LIST}{row.pk}/{verb}/", data, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("person", ["auditor", "site_auditor"])
def test_who_only_looks_gets_no_buttons(client, robot, person, request):
    client.force_login(request.getfixturevalue(person))
    row = letter()
    assert "Requeue" not in html(client, page(row)).partition('class="actions"')[2].partition("</header>")[0]
    for verb in ("requeue", "discard"):
        assert client.post(f"{LIST}{row.pk}/{verb}/", {"reason": "x"}).status_code == 403
        client.post(LIST, {"action": verb, "_selected_action": row.pk, "confirmed": "1", "text": "x"})
    assert DeadLetter.objects.get().state == "open"


def test_letters_of_unknown_robots_are_for_those_of_every_site(client, robot, supervisor, admin_person):
    row = letter("NOBODY")
    client.force_login(supervisor)
    assert client.get(page(row)).status_code == 404
    assert client.post(f"{LIST}{row.pk}/requeue/").status_code == 404
    client.force_login(admin_person)
    assert "unknown" in html(client, page(row))
    assert "Requeued" in html_after(client, row, "requeue")


def _bulk(client, name, rows, *, query="", **data):
    chosen = {"action": name, "_selected_action": [r.pk for r in rows], **data}
    return client.post(f"{LIST}{query}", chosen, follow=True).content.decode()


def test_many_are_asked_once_and_reported_one_by_one(seat):
    rows = [letter(kind=f"kind.{n}") for n in range(3)]
    letter_bulk.discard_letter(rows[0].pk, by=SYSTEM, why="known")
    asked = _bulk(seat, "requeue", rows[1:])
    assert "Requeue: 2 dead letters" in asked and "applied once more" in asked
    assert set(DeadLetter.objects.values_list("state", flat=True)) == {"discarded", "open"}
    report = _bulk(seat, "requeue", rows, query="?each=each&state=all", confirmed="1")
    assert "Requeue: 2 requeued, 1 refused." in report and "test discarded it" in report
    assert DeadLetter.objects.filter(state="requeued").count() == 2


def test_what_is_done_to_a_line_is_done_to_all_of_it_and_says_how_many(seat, monkeypatch):
    rows = [letter(reason=f"event {n} has no code") for n in range(5)]
    asked = _bulk(seat, "discard", rows[-1:])
    assert "Discard: 5 dead letters" in asked
    assert "This is needed" in _bulk(seat, "discard", rows, query="?each=each&state=all", confirmed="1")
    monkeypatch.setattr(letter_bulk, "MOST", 3)
    asked = _bulk(seat, "discard", rows[-1:])
    assert "Discard: 3 dead letters" in asked and "2 more are alike" in asked
    report = _bulk(seat, "discard", rows[:3], query="?each=each&state=all", confirmed="1", text="known")
    assert "3 discarded" in report
    assert DeadLetter.objects.filter(state="open").count() == 2


def test_a_command_of_an_ended_mission_says_to_rerun_it(seat, dispatched, supervisor):
    command = Command.objects.get(kind="mission.assign")
    actions.cancel_mission(dispatched.pk, by=by_user(supervisor))
    row = DeadLetter.objects.create(
        direction="out", robot_id="RB-001", msg_id=command.pk, kind=command.kind, body=command.body,
        reason="no answer", created_at=timezone.now(),
    )  # fmt: skip
    assert f"{LIST}{row.pk}/requeue/" not in html(seat, page(row))
    text = html_after(seat, row, "requeue")
    assert "has ended (aborted)" in text and "Rerun it from its page" in text and "It cannot be requeued" in text
    assert f"/admin/missions/mission/{dispatched.pk}/change/" in text


def test_a_requeued_command_says_where_it_is(seat, robot):
    stopping.stop_robot("RB-001", by=SYSTEM)
    command = Command.objects.get()
    Command.objects.update(state="dead")
    row = DeadLetter.objects.create(
        direction="out", robot_id="RB-001", msg_id=command.pk, kind=command.kind, body=command.body,
        reason="no answer", created_at=timezone.now(),
    )  # fmt: skip
    assert "It is to be sent, under the same message id." in html_after(seat, row, "requeue")
    Command.objects.update(state="delivered")
    assert "The robot has taken it." in html(seat, page(row))


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\N{REPLACEMENT CHARACTER}\u202e"


@pytest.mark.parametrize(
    "body",
    [
        HOSTILE,
        "x" * 65536,
        "[" * 30000,
        '{"mission": "no id"}',
        '{"mission": 7}',
        '{"mission": null}',
        "",
        "\\u0000",
        "[]",
        '{"data": {"why": "\\ud800"}}',
    ],
    ids=["html", "64 kB", "deep", "no id", "number", "null", "empty", "escaped nul", "list", "half a pair"],
)
def test_whatever_a_letter_holds_is_shown_as_text(seat, body):
    row = letter(body=body, reason=HOSTILE, kind=HOSTILE[:60], result=HOSTILE)
    for url in (LIST, page(row), f"{LIST}?each=each&state=all"):
        text = html(seat, url)
        assert "<script>alert" not in text and "<img src=x" not in text
    assert "What to do now" in html(seat, page(row))


def test_the_start_page_counts_those_that_wait_for_somebody(seat):
    for state in ("open", "failed", "discarded", "applied"):
        letter(state=state)
    assert "2 dead letters: could not be applied or delivered" in html(seat, "/admin/")


def test_an_address_with_nul_or_nonsense_is_no_error(seat):
    letter()
    for query in ("each=%00", "robot=%00", "age=x", "state=x", "why=%F0%9F%92%A9"):
        assert seat.get(f"{LIST}?{query}", follow=True).status_code == 200


def test_one_whose_message_never_came_can_only_be_discarded(seat):
    row = letter(body="", kind="")
    text = html(seat, page(row))
    assert "it never came" in text and "/requeue/" not in text and "/discard/" in text
    assert "There is no message to apply" in html_after(seat, row, "requeue")
    assert DeadLetter.objects.get().state == "open"


def test_a_letter_that_is_under_way_is_looked_at_again_by_itself_and_its_events_lead_to_it(seat):
    row = letter()
    assert 'http-equiv="refresh"' not in html(seat, page(row))
    assert 'http-equiv="refresh"' in html_after(seat, row, "requeue")
    event = Event.objects.get(kind="letter.requeued")
    assert page(row) in html(seat, f"/admin/fleet/event/{event.pk}/change/")
