"""The list of missions in admin: who, where, how far, why it waits; filters that count what they show, and few queries."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.history import by_user
from fleet.models import Robot
from missions import actions, drawing_up, facts
from missions.models import Mission
from tests.actors import STEPS, tell

pytestmark = pytest.mark.django_db
LIST = "/admin/missions/mission/"


def draw(robot: Robot, person, count: int) -> None:
    for i in range(count):
        drawing_up.draft_mission(title=f"Round {i}", site=robot.site_id, robot=robot, steps=STEPS, by=by_user(person))


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


def test_the_list_answers_who_where_how_far_and_why(client, auditor, dispatched, supervisor):
    tell(dispatched, facts.Accepted(1), facts.StepCompleted(1, 1, 1))
    draw(dispatched.robot, supervisor, 1)
    client.force_login(auditor)
    html = client.get(LIST).content.decode()
    for text in ("Executing", "1/3", "RB-001", "Ana", "Ella is busy with “Fetch”"):
        assert text in html
    assert "_selected_action" not in html, "an auditor does nothing to many"
    assert "delete" not in html.lower()


@pytest.mark.parametrize("query", ["shown=draft", "shown=running", "shown=waiting", "state__exact=pending", "robot__id__exact=RB-001", "q=fetch", "q=RB-001"])  # fmt: skip
def test_filters_and_search_find(client, auditor, mission, query):
    client.force_login(auditor)
    found = client.get(f"{LIST}?{query}").context["cl"].result_list
    assert len(found) == (0 if query in ("shown=running", "shown=waiting") else 1)


def test_the_robot_filter_stays_short(client, auditor, mission, robot, other_robot, monkeypatch):
    """With many robots the search finds one; who comes from a robot's page sees which it is."""

    def offered(query=""):
        html = client.get(f"{LIST}{query}").content.decode()
        robots = html.partition('data-filter-title="robot"')[2].partition("</details>")[0]
        return re.findall(r"robot__id__exact=([^\"&]+)", robots)

    client.force_login(auditor)
    assert offered() == ["RB-001", "RB-002"]
    monkeypatch.setattr("fleet.admin.filters.FEW", 0)
    assert offered() == []
    assert offered("?robot__id__exact=RB-001") == ["RB-001"]
    assert offered("?robot__id__exact=RB-404") == []


@pytest.mark.parametrize("query", ["q=%00", "robot__id__exact=%00", "site__id__exact=x", "shown=%00", "nonsense=1", "p=9999999999999999999"])  # fmt: skip
def test_nonsense_in_the_address_is_no_crash(client, auditor, mission, query):
    client.force_login(auditor)
    assert client.get(f"{LIST}?{query}").status_code in (200, 302)
    assert client.get(f"{LIST}%00/change/").status_code == 404
    assert client.get(f"{LIST}no-uuid/change/").status_code == 404


def test_the_daily_filters_count_what_they_show(client, supervisor, robot, other_robot):
    by = by_user(supervisor)

    def make(title, **more):
        return drawing_up.draft_mission(title=title, site=robot.site_id, steps=STEPS, by=by, **more)

    actions.queue_mission(make("runs", robot=robot), by=by)
    actions.queue_mission(make("waits", robot=robot), by=by)
    actions.queue_mission(make("waits, goes first", robot=robot, priority=5), by=by)
    actions.cancel_mission(make("went wrong"), by=by, reason="x")
    make("to approve", needs_approval=True)
    make("drawn up", importance="important")
    client.force_login(supervisor)
    counted = {d.name: d.count for d in client.get(LIST).context["cl"].daily}
    assert counted == {
        "waiting": 2, "running": 1, "approval": 1, "stopping": 0, "wrong": 1, "unconfirmed": 0, "important": 1,
        "draft": 1, "done": 0,
    }  # fmt: skip
    for name, count in counted.items():
        assert len(client.get(f"{LIST}?shown={name}").context["cl"].result_list) == count, name
    waiting = client.get(f"{LIST}?shown=waiting").context["cl"].result_list
    assert [m.title for m in waiting] == ["waits, goes first", "waits"], "the order of the queue"
    found = client.get(f"{LIST}?q=goes first&site__id__exact={robot.site_id}&state__exact=success").context["cl"].daily
    address = f"?q=goes+first&shown=waiting&site__id__exact={robot.site_id}"
    assert [(d.address, d.count) for d in found if d.count] == [(address, 1)], "search and site are kept, and counted"


def test_the_start_page_counts_as_the_list_does(client, supervisor, dispatched, robot):
    actions.queue_mission(
        drawing_up.draft_mission(title="Waits", site=robot.site_id, robot=robot, steps=STEPS, by=by_user(supervisor)),
        by=by_user(supervisor),
    )
    client.force_login(supervisor)
    html = client.get("/admin/").content.decode()
    for name, count, label in (("waiting", 1, "Waiting"), ("running", 1, "Running"), ("draft", 0, "Pending")):
        tile = html.partition(f"?shown={name}")[2].partition("</a>")[0]
        assert f">{count}</b>" in tile and label in tile


def test_nothing_yet_says_what_will_be_here_and_offers_the_first_step(client, supervisor):
    client.force_login(supervisor)
    html = client.get(LIST).content.decode()
    assert "No missions yet." in html and "Draw up the first" in html
    assert "Nothing here now." in client.get(f"{LIST}?shown=waiting").content.decode()
