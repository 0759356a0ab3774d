"""Empty lists say what will appear in them and offer the first step."""

import re

import pytest

from fleet.models import Command


@pytest.mark.parametrize(
    ("path", "says", "offers"),
    [
        ("fleet/alert", "listed until it is dealt with", ""),
        ("fleet/silence", "Nothing is silenced", "Silence something"),
        ("fleet/apitoken", "No API tokens yet", "Issue the first"),
        ("fleet/site", "No sites yet", "Make the first"),
        ("fleet/brand", "No brands yet", "Make the first"),
        ("fleet/command", "No commands yet", ""),
        ("missions/mission", "No missions yet", "Draw up the first"),
        ("missions/template", "No templates yet", "Draw up the first"),
        ("missions/deadletter", "No dead letters", ""),
        ("fleet/robot", "Robots will be listed here", "Enrol the first"),
        ("fleet/place", "Named poses will be listed here", "Add the first"),
    ],
)
def test_an_empty_list_says_what_will_appear(client, admin_person, path, says, offers):
    client.force_login(admin_person)
    page = client.get(f"/admin/{path}/").content.decode()
    assert says in page
    assert offers in page
    assert "Nothing fits" not in page


@pytest.mark.parametrize("path", ["fleet/apitoken", "fleet/site", "fleet/brand"])
def test_a_search_without_a_hit_leads_back(client, admin_person, site, brand, path):
    client.force_login(admin_person)
    assert "Nothing fits" in client.get(f"/admin/{path}/?q=zebra").content.decode()


def test_the_list_of_tokens_is_called_api_tokens(client, admin_person):
    client.force_login(admin_person)
    assert "<h1>API tokens</h1>" in client.get("/admin/fleet/apitoken/").content.decode()


@pytest.mark.parametrize("year", ["0", "-1", "99999"])
@pytest.mark.parametrize("page", ["fleet/command", "missions/template", "missions/deadletter", "missions/mission"])
def test_a_year_that_the_calendar_has_not_is_answered(client, admin_person, page, year):
    client.force_login(admin_person)
    answer = client.get(f"/admin/{page}/", {"created_at__year": year})
    assert (answer.status_code, answer["Location"]) == (302, f"/admin/{page}/?e=1")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("fleet/silence", "Silence alerts"),
        ("fleet/apitoken", "Issue an API token"),
        ("fleet/site", "Add a site"),
        ("fleet/brand", "Add a brand"),
        ("fleet/place", "Add a place"),
        ("fleet/robot", "Enrol a robot"),
        ("auth/user", "Add a person"),
        ("missions/mission", "Draw up a mission"),
        ("missions/template", "Draw up a template"),
    ],
)
def test_the_button_above_a_list_and_its_page_say_the_same(client, admin_person, path, words):
    client.force_login(admin_person)
    assert f'class="addlink">{words}</a>' in client.get(f"/admin/{path}/").content.decode()
    page = client.get(f"/admin/{path}/add/").content.decode()
    assert page.partition('class="breadcrumbs"')[2].partition("</div>")[0].split("\u203a")[-1].strip() == words
    assert f"{words}</h1>" in page
    # what describes a field, and the name of a group of boxes, are really there
    assert 'for=""' not in page
    ids = [name for names in re.findall(r'aria-(?:describedby|labelledby)="([^"]+)"', page) for name in names.split()]
    assert ids and not [name for name in ids if f'id="{name}"' not in page]


def test_nobody_is_sent_where_they_may_not_go(client, admin_person, supervisor, auditor):
    add_robot, add_mission = 'href="/admin/fleet/robot/add/"', 'href="/admin/missions/mission/add/"'
    for person, links in ((admin_person, (True, True)), (supervisor, (False, True)), (auditor, (False, False))):
        client.force_login(person)
        page = client.get("/fleet/").content.decode()
        assert (add_robot in page, add_mission in page) == links
        assert "Robots appear here" in page and "No mission is open" in page


def test_the_start_page_uses_the_words_of_the_pages(client, admin_person):
    client.force_login(admin_person)
    lists = client.get("/admin/").content.decode().partition('class="apps"')[2]
    for words in ("People and roles", ">People<", ">Roles<", ">Audit<", ">Robots that knocked<"):
        assert words in lists
    assert "Authentication" not in lists and ">Users<" not in lists


def test_a_time_is_written_as_everywhere_else(dispatched, client, admin_person):
    client.force_login(admin_person)
    command = Command.objects.get()
    page = client.get(f"/admin/fleet/command/{command.pk}/change/").content.decode()
    assert f"{command.created_at:%Y-%m-%d %H:%M:%S}" in page and "p.m." not in page
    assert f'href="/admin/missions/mission/{command.mission}/change/"' in page
    trail = page.partition('class="breadcrumbs"')[2].partition("</div>")[0]
    assert re.findall(r'href="([^"]+)"', trail) == ["/admin/", "/admin/fleet/command/"], (
        "as on every page: no room between"
    )
