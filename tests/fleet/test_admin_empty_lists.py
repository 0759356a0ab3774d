"""Empty lists say what will appear in them and offer the first step."""

import pytest


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
