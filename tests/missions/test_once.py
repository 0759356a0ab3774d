"""Five clicks, one mission: whoever sends the same wish again, at once or later, is led to what the first one made."""

import re

import pytest
from django.db import connection
from django.test import Client

from fleet.history import by_user
from fleet.models import Event
from missions import actions, drawing_up, templates
from missions.drawing_up import DrawnUp
from missions.models import Mission
from tests.together import together

ADD = "/admin/missions/mission/add/"
KEY = re.compile(r'name="once" value="([0-9a-f]{32})"')
STEPS = {"steps-TOTAL_FORMS": "1", "steps-INITIAL_FORMS": "0", "steps-0-command": "navigate", "steps-0-place": "Dock A"}


def form(robot, **over):
    said = {"title": "Fetch it", "site": robot.site_id, "robot": robot.pk, "priority": "0", "timeout_s": "60"}
    return {**said, "importance": "normal", **STEPS, "once": "a" * 32, **over}


def browser(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def five(user, url, data):
    """Five clicks at once, each in a connection of its own; where each was led to."""
    browsers = [browser(user) for _ in range(5)]
    answers = together(*(lambda b=b: b.post(url, data) for b in browsers))
    assert [getattr(a, "status_code", a) for a in answers] == [302] * 5
    return {a["location"] for a in answers}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("button", ["_save", "_run"])
def test_five_clicks_on_the_form_make_one_mission(robot, supervisor, button):
    places = five(supervisor, ADD, form(robot, **{button: "1"}))
    mission = Mission.objects.get()
    assert places == {f"/admin/missions/mission/{mission.pk}/change/"}
    assert Event.objects.filter(kind="mission.drafted").count() == 1
    assert (mission.queued_at is not None) is (button == "_run")


@pytest.mark.django_db(transaction=True)
def test_five_clicks_on_clone_rerun_and_template_make_one_mission_each(mission, supervisor):
    by = by_user(supervisor)
    actions.cancel_mission(mission.pk, by=by)
    for verb, page in (("clone", "edit"), ("rerun", "change")):
        [place] = five(supervisor, f"/admin/missions/mission/{mission.pk}/{verb}/", {"once": "b" * 32})
        assert place.endswith(f"/{page}/")
    template = templates.save_template(
        name="Round", site=mission.site, title="Round", by=by,
        steps=[{"command": "navigate", "params": {"place": "Dock A"}}],
    )  # fmt: skip
    five(supervisor, f"/admin/missions/template/{template}/use/", {"once": "c" * 32, "robot": "RB-001"})
    assert sorted(Mission.objects.exclude(pk=mission.pk).values_list("origin_kind", flat=True)) == [
        "clone", "rerun", "template",
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_five_reruns_of_many_make_one_each(mission, supervisor):
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    data = {"action": "rerun", "_selected_action": mission.pk, "confirmed": "1", "once": "d" * 32}
    five(supervisor, "/admin/missions/mission/", data)
    assert Mission.objects.count() == 2


def test_all_steps_and_those_that_are_left_are_two_wishes(mission, supervisor):
    by = by_user(supervisor)
    actions.cancel_mission(mission.pk, by=by)
    one = drawing_up.rerun_mission(mission.pk, by=by, key="k")
    other = drawing_up.rerun_mission(mission.pk, by=by, key="k", unfinished=True)
    assert one != other
    with pytest.raises(DrawnUp) as known:
        drawing_up.rerun_mission(mission.pk, by=by, key="k")
    assert known.value.mission_id == one


def test_a_repeat_says_so_and_leads_to_the_first(client, robot, supervisor):
    client.force_login(supervisor)
    client.post(ADD, form(robot))
    page = client.post(ADD, form(robot), follow=True).content.decode()
    assert "Your first click has drawn it up already: this is it." in page and "Fetch it" in page
    assert Mission.objects.count() == 1


def test_run_after_save_runs_what_save_has_made(client, robot, supervisor):
    client.force_login(supervisor)
    client.post(ADD, form(robot, _save="1"))
    client.post(ADD, form(robot, _run="1"))
    assert Mission.objects.get().queued_at


def test_going_back_and_changing_something_is_another_wish(client, robot, supervisor):
    client.force_login(supervisor)
    client.post(ADD, form(robot))
    client.post(ADD, form(robot, title="Fetch another"))
    assert set(Mission.objects.values_list("title", flat=True)) == {"Fetch it", "Fetch another"}


def test_the_key_of_one_person_is_not_that_of_another(client, robot, supervisor, admin_person):
    for user in (supervisor, admin_person):
        client.force_login(user)
        client.post(ADD, form(robot))
    assert Mission.objects.count() == 2


@pytest.mark.parametrize("key", ["", "x" * 65, "<script>", "a b"])
def test_a_page_without_a_good_key_works_as_ever(client, robot, supervisor, key):
    client.force_login(supervisor)
    for _ in range(2):
        assert client.post(ADD, form(robot, once=key)).status_code == 302
    assert Mission.objects.count() == 2


def test_every_page_that_makes_missions_carries_a_new_key(client, mission, supervisor):
    client.force_login(supervisor)
    template = templates.save_template(
        name="Round", site=mission.site, title="Round", by=by_user(supervisor),
        steps=[{"command": "navigate", "params": {"place": "Dock A"}}],
    )  # fmt: skip
    actions.cancel_mission(mission.pk, by=by_user(supervisor))
    keys = []
    for url in (ADD, ADD, f"/admin/missions/template/{template}/use/", f"/admin/missions/mission/{mission.pk}/change/"):
        found = KEY.findall(client.get(url).content.decode())
        assert found, url
        keys += found
    asked = client.post("/admin/missions/mission/", {"action": "rerun", "_selected_action": mission.pk})
    keys += KEY.findall(asked.content.decode())
    assert len(set(keys)) == len(keys) == 6  # the page of one has two such buttons: clone and rerun


def test_what_is_refused_may_be_sent_again(client, robot, supervisor):
    client.force_login(supervisor)
    assert client.post(ADD, form(robot, **{"steps-0-place": "Mars"})).status_code == 200
    assert client.post(ADD, form(robot)).status_code == 302
    assert Mission.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_key_is_the_missions_own_id_so_nothing_else_has_to_be_kept(robot, supervisor):
    by, said = (
        by_user(supervisor),
        {"title": "Fetch", "site": robot.site, "steps": [{"command": "wait", "params": {"seconds": 1}}]},
    )
    first = drawing_up.draft_mission(**said, by=by, key="one wish")
    results = together(*[lambda: drawing_up.draft_mission(**said, by=by, key="one wish")] * 4)
    assert {r.mission_id for r in results} == {first}
    assert connection.in_atomic_block is False and Mission.objects.count() == 1


def test_bulk_approve_refuses_what_was_changed_since_the_question(client, mission, supervisor, admin_person):
    """Who approves has read this version, not the next."""
    said = {"title": "Fetch", "site": mission.site_id, "steps": [{"command": "wait", "params": {"seconds": 1}}]}
    pk = drawing_up.draft_mission(**said, needs_approval=True, by=by_user(supervisor))
    client.force_login(admin_person)
    asked = client.post("/admin/missions/mission/", {"action": "approve", "_selected_action": pk}).content.decode()
    seen = re.search(r'name="seen" value="([^"]*)"', asked)[1]
    assert seen.split() == [f"{pk}:1"]
    confirm = {"action": "approve", "_selected_action": pk, "confirmed": "1", "seen": seen}
    drawing_up.edit_mission(
        pk, **said | {"title": "Something else"}, needs_approval=True, version=1, by=by_user(supervisor)
    )
    report = client.post("/admin/missions/mission/", confirm, follow=True).content.decode()
    assert "Approve: 1 refused." in report and "It has changed since you looked" in report
    client.post("/admin/missions/mission/", confirm | {"seen": f"{pk}:2"})
    assert Mission.objects.get(pk=pk).approved_at
