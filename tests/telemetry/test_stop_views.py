"""Stop (I13), release and explain for many, over plain HTTP: who may, where, and what each robot's answer is."""

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from fleet.models import Hold
from fleet.robots import actions as robots
from fleet.robots import stopping
from tests.actors import SYSTEM, online

JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def far(other_site, brand):
    """A robot of the other site."""
    robots.enrol_robot(id="RB-009", name="Far", site=other_site, brand=brand, by=SYSTEM)
    online("RB-009")
    return "RB-009"


@pytest.fixture
def everybody(admin_person, supervisor, other_supervisor, auditor, outsider):
    return {
        "admin": admin_person, "supervisor": supervisor, "other": other_supervisor, "auditor": auditor,
        "outsider": outsider,
    }  # fmt: skip


def held() -> set[str]:
    return set(Hold.objects.filter(released_at=None).values_list("robot_id", flat=True))


def test_a_site_is_stopped_by_one_click(client, supervisor, robot, other_robot, far, site):
    client.force_login(supervisor)
    answer = client.post(f"/fleet/stop?site={site.pk}", **JSON)
    assert answer.json() == {
        "text": "Stopping 2 robots.", "robots": {"RB-001": "stopping", "RB-002": "stopping"},
    }  # fmt: skip
    assert held() == {"RB-001", "RB-002"}


@pytest.mark.parametrize(
    ("who", "stopped"), [("admin", {"RB-001", "RB-009"}), ("supervisor", {"RB-001"}), ("other", {"RB-009"})]
)
def test_all_sites_are_those_of_the_person(client, everybody, robot, far, who, stopped):
    client.force_login(everybody[who])
    assert set(client.post("/fleet/stop?site=all", **JSON).json()["robots"]) == stopped == held()


@pytest.mark.parametrize("verb", ["stop", "release", "explain"])
@pytest.mark.parametrize("who", ["auditor", "outsider"])
def test_who_may_not_is_told_so(client, everybody, robot, who, verb):
    client.force_login(everybody[who])
    answer = client.post(f"/fleet/{verb}", {"robots": "RB-001"}, **JSON)
    assert (answer.status_code, answer.json()["text"][:9]) == (403, "Your role")
    assert not held()


@pytest.mark.parametrize("verb", ["stop", "release", "explain"])
def test_robots_of_other_sites_are_not_there(client, supervisor, robot, far, other_site, verb):
    client.force_login(supervisor)
    for path, data in ((f"/fleet/{verb}", {"robots": "RB-001 RB-009"}), (f"/fleet/{verb}?site={other_site.pk}", {})):
        answer = client.post(path, data, **JSON)
        assert answer.status_code == 404
        assert answer.json()["text"].startswith(("There is no robot RB-009", "There is no such site"))
    assert not held()


def test_a_selection_is_stopped_explained_and_released(client, supervisor, robot, other_robot):
    client.force_login(supervisor)
    two = {"robots": "RB-001 RB-002"}
    client.post("/fleet/stop", two, **JSON)
    assert (
        client.post("/fleet/explain", {**two, "why": "spill"}, **JSON).json()["text"]
        == "The reason is kept with 2 robots."
    )
    assert {h.why for h in Hold.objects.all()} == {"spill"}
    assert client.post("/fleet/release", {"robots": "RB-002"}, **JSON).json()["text"] == "Released 1 robot."
    assert held() == {"RB-001"}
    answer = client.post("/fleet/release", {"robots": "RB-002"}, **JSON).json()
    assert answer == {
        "text": "There was no stop to release: somebody released it before.", "robots": {"RB-002": "not stopped"},
    }  # fmt: skip


def test_with_no_robot_at_all_the_answer_is_a_sentence(client, supervisor, site):
    client.force_login(supervisor)
    assert client.post(f"/fleet/stop?site={site.pk}", **JSON).json()["text"] == "There is no robot to stop here."


@pytest.mark.parametrize("named", ["", "x", "-1", "9" * 30, "\N{SUPERSCRIPT TWO}", "1 OR 1", "999"])
def test_a_damaged_address_stops_nobody_and_says_so(client, supervisor, robot, named):
    client.force_login(supervisor)
    answer = client.post("/fleet/stop", QUERY_STRING=f"site={named}", **JSON)
    assert answer.status_code in (404, 409) and "ook at the page again" in answer.json()["text"]
    assert not held()


def test_one_that_could_not_be_told_is_named(client, supervisor, robot, other_robot, monkeypatch):
    said = {"RB-001": "stopping", "RB-002": "Not done: something else keeps RB-002 busy. Do it again."}
    monkeypatch.setattr(stopping, "stop_robots", lambda ids, **_: said)
    client.force_login(supervisor)
    text = client.post("/fleet/stop?site=all", **JSON).json()["text"]
    assert text == "Stopping 1 robot. Not done: something else keeps RB-002 busy. Do it again."


def test_without_the_database_it_says_that_nothing_is_sure(client, supervisor, robot, monkeypatch):
    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("connection refused")

    client.force_login(supervisor)
    monkeypatch.setattr(stopping, "stop_robots", away)
    assert client.post("/fleet/stop?site=all", **JSON).status_code == 503


def test_without_script_the_button_leads_back_to_the_page(client, supervisor, robot):
    client.force_login(supervisor)
    answer = client.post("/fleet/stop?site=all", follow=True)
    assert answer.redirect_chain == [("/fleet/", 302)] and b"Stopping 1 robot." in answer.content


# --- a page that is out of date


def test_a_page_from_before_a_new_sign_in_still_stops(supervisor, robot):
    """Signing in changes the token in the cookie; the script sends that one, not what its page was made with."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(supervisor)
    client.get("/fleet/")
    client.post("/login/", {"username": "Ana", "password": "correct horse battery"})  # refused or not: a new cookie
    client.get("/fleet/")
    token = client.cookies[settings.CSRF_COOKIE_NAME].value
    assert client.post("/fleet/stop?site=all", HTTP_X_CSRFTOKEN=token, **JSON).status_code == 200
    assert held() == {"RB-001"}


def test_without_a_token_that_fits_it_says_what_to_do(supervisor, robot):
    client = Client(enforce_csrf_checks=True)
    client.force_login(supervisor)
    answer = client.post("/fleet/stop?site=all", **JSON)
    assert answer.status_code == 403
    assert answer.json() == {"text": "Not done: this page is out of date. Load it again, then repeat it."}
    page = client.post("/fleet/stop?site=all").content.decode()  # of a browser without a script
    assert "<p>Not done: this page is out of date." in page and 'href="/fleet/"' in page


def test_signed_out_meanwhile_it_says_to_sign_in_whatever_the_token(robot):
    for client in (Client(), Client(enforce_csrf_checks=True)):
        answer = client.post("/fleet/stop?site=all", **JSON)
        assert (answer.status_code, answer.json()["text"]) == (
            401,
            "You are signed out. Sign in again, then repeat it.",
        )


def test_the_page_names_what_stop_all_stops(client, supervisor, admin_person, robot, other_site, site):
    client.force_login(supervisor)
    for path in ("/fleet/", f"/fleet/?site={site.pk}"):  # one site is all there is for her
        assert "<small><bdi>Hall 1</bdi></small>" in client.get(path).content.decode()
    client.force_login(admin_person)
    assert "<small><bdi>all sites</bdi></small>" in client.get("/fleet/").content.decode()
    html = client.get(f"/fleet/?site={other_site.pk}").content.decode()
    assert "<small><bdi>Hall 2</bdi></small>" in html and f"/fleet/stop?site={other_site.pk}" in html
