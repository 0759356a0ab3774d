"""Stop and release of many robots in admin: from the list and from a site's page, reported per robot."""

import pytest
from django.urls import reverse

from fleet.models import Hold
from fleet.robots import stopping
from tests.actors import SYSTEM

LIST = reverse("admin:fleet_robot_changelist")
STOP = {"action": "stop", "_selected_action": ["RB-001", "RB-002"]}
RELEASE = {**STOP, "action": "release"}


def held() -> set[str]:
    return set(Hold.objects.filter(released_at=None).values_list("robot_id", flat=True))


def text(answer) -> str:
    return answer.content.decode()


def test_chosen_robots_are_stopped_at_once_with_a_line_each(client, supervisor, robot, other_robot):
    client.force_login(supervisor)
    page = text(client.post(LIST, STOP, follow=True))
    assert held() == {"RB-001", "RB-002"}
    assert "Stop: 2 stopping." in page
    assert page.count('<li><a href="/admin/fleet/robot/RB-00') == 2


def test_release_names_them_first(client, supervisor, robot, other_robot):
    stopping.stop_robots(["RB-002"], by=SYSTEM, why="spill")
    client.force_login(supervisor)
    page = text(client.post(LIST, RELEASE))
    assert "Release 1 robot<" in page and "Bruno" in page and "spill" in page and "has not said that it stands" in page
    assert held() == {"RB-002"}
    page = text(client.post(LIST, {**RELEASE, "confirmed": "1"}, follow=True))
    assert "Release: 1 not stopped, 1 released." in page
    assert not held()


def test_with_none_stopped_there_is_nothing_to_release(client, supervisor, robot):
    client.force_login(supervisor)
    page = text(client.post(LIST, RELEASE))
    assert "None of the chosen robots is stopped." in page and "No, go back" not in page


def test_a_site_is_stopped_from_its_page(client, supervisor, robot, other_robot, site):
    client.force_login(supervisor)
    here = reverse("admin:fleet_site_change", args=[site.pk])
    assert "Stop all" in text(client.get(here))
    page = text(client.post(reverse("admin:fleet_site_stop_all", args=[site.pk]), follow=True))
    assert held() == {"RB-001", "RB-002"}
    assert "Stop all: 2 stopping." in page


def test_an_empty_site_says_so(client, supervisor, site):
    client.force_login(supervisor)
    assert "there is no robot here" in text(
        client.post(reverse("admin:fleet_site_stop_all", args=[site.pk]), follow=True)
    )


@pytest.mark.parametrize("data", [STOP, RELEASE, {**RELEASE, "confirmed": "1"}])
def test_an_auditor_is_offered_none_of_it(client, auditor, robot, other_robot, site, data):
    stopping.stop_robots(["RB-002"], by=SYSTEM)
    client.force_login(auditor)
    assert 'value="stop"' not in text(client.get(LIST))
    client.post(LIST, data)
    assert client.post(reverse("admin:fleet_site_stop_all", args=[site.pk])).status_code == 403
    assert held() == {"RB-002"}


def test_a_supervisor_of_another_site_reaches_none_of_them(client, other_supervisor, robot, other_robot, site):
    client.force_login(other_supervisor)
    client.post(LIST, STOP)
    assert client.post(reverse("admin:fleet_site_stop_all", args=[site.pk])).status_code == 404
    assert not held()


def test_what_was_not_done_comes_first(client, supervisor, robot, other_robot, monkeypatch):
    said = {"RB-001": "stopping", "RB-002": "Not done: something else keeps RB-002 busy. Do it again."}
    monkeypatch.setattr(stopping, "stop_robots", lambda ids, **_: said)
    client.force_login(supervisor)
    page = text(client.post(LIST, STOP, follow=True))
    assert "Stop: 1 not done, 1 stopping." in page
    assert page.index("keeps RB-002 busy") < page.index("</code>: stopping")
