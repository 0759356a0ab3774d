"""The fleet page over plain HTTP: who may see it, what its buttons do, and what they say when they cannot."""

import uuid
from collections import Counter
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.urls import reverse
from django.utils import timezone

from fleet.models import Hold
from fleet.people.actions import grant_access
from fleet.robots import actions as robots
from fleet.robots import stopping
from missions import actions, drawing_up, facts
from missions.models import Mission
from telemetry import snapshots
from telemetry.live import access, fragments, loading
from telemetry.live.board import Board
from telemetry.live.fragments import EVERYWHERE
from telemetry.pages import fleet_page
from tests import varied_fleet
from tests.actors import SYSTEM, tell, user

ROLES = ("admin_person", "supervisor", "auditor", "outsider")
JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def people(admin_person, supervisor, auditor, outsider):
    return {"admin_person": admin_person, "supervisor": supervisor, "auditor": auditor, "outsider": outsider}


def test_the_root_leads_to_the_fleet_and_the_fleet_to_the_login(client, db):
    assert client.get("/").url == "/fleet/"
    assert client.get("/fleet/").url == "/login/?next=/fleet/"
    page = client.get("/login/?next=/fleet/")
    assert page.status_code == 200 and b"csrfmiddlewaretoken" in page.content


def test_sign_in_and_out(client, supervisor):
    wrong = client.post("/login/", {"username": "Ana", "password": "no"})
    assert b"do not fit" in wrong.content
    right = client.post("/login/", {"username": "Ana", "password": "correct horse battery", "next": "/fleet/?site=1"})
    assert right.url == "/fleet/?site=1"
    assert client.post("/logout/").url == "/login/"
    assert client.get("/fleet/").status_code == 302


def test_who_has_a_role_and_no_site_is_told_so(client, db):
    nora = user("Nora")
    grant_access(nora, role="supervisor", by=SYSTEM)
    client.force_login(nora)
    assert client.get("/fleet/").status_code == 403


@pytest.mark.parametrize(
    ("sites", "asked", "shown"),
    [
        ({1, 2}, None, {1, 2}),
        ({1, 2}, 2, {2}),
        ({1, 2}, 3, set()),
        (set(), 3, set()),
        (None, 3, {3}),
        (None, None, None),
    ],
)
def test_of_the_sites_that_are_asked_for_only_the_own_are_shown(sites, asked, shown):
    assert access.view(None if sites is None else frozenset(sites), asked) == shown


@pytest.mark.parametrize(("who", "status"), [(who, 403 if who == "outsider" else 200) for who in ROLES])
def test_who_may_see_the_fleet(client, people, robot, who, status):
    client.force_login(people[who])
    assert client.get("/fleet/").status_code == client.head("/fleet/").status_code == status


@pytest.mark.parametrize(
    ("who", "classes"),
    [
        ("admin_person", "can-stop can-release can-pause can-resume can-cancel can-acknowledge"),
        ("supervisor", "can-stop can-release can-pause can-resume can-cancel can-acknowledge"),
        ("auditor", ""),
    ],
)
def test_the_body_says_what_the_role_may_do(client, people, who, classes):
    client.force_login(people[who])
    assert f'<body class="{classes}">' in client.get("/fleet/").content.decode()


def test_the_page_is_complete_without_its_socket(client, admin_person):
    varied_fleet.build(timezone.now())
    client.force_login(admin_person)
    page = client.get("/fleet/")
    html = page.content.decode()
    assert html.count("<article") == 12 and html.count('<li id="mission-') == 8
    assert html.index("Fritz") < html.index("Carla") < html.index("Hugo")
    assert "no-store" in page["Cache-Control"]


def test_a_site_shows_its_own(client, admin_person, monkeypatch):
    fleet = varied_fleet.build(timezone.now())
    client.force_login(admin_person)
    html = client.get(f"/fleet/?site={fleet.site.pk}").content.decode()
    assert html.count("<article") == 10 and f'/live/ws?site={fleet.site.pk}"' in html
    for nonsense in ("999", "x", "-1", "1 OR 1", "9" * 5000, "\N{SUPERSCRIPT TWO}"):
        assert client.get("/fleet/", {"site": nonsense}).content.decode().count("<article") == 12
    monkeypatch.setattr(fleet_page, "MOST", 5)  # of thousands the page itself has the worst, and says so
    page = client.get("/fleet/").content.decode()
    assert page.count("<article") == 5 and "7 more robots come in a moment" in page
    page = client.get(f"/fleet/?site={fleet.site.pk}").content.decode()
    assert page.count("<article") == 5 and "5 more robots come in a moment" in page


def test_what_the_page_has_no_room_for_is_counted_but_not_rendered(client, admin_person, monkeypatch):
    varied_fleet.build(timezone.now())
    client.force_login(admin_person)
    live = Board()
    found = loading.load(None)
    live.put(live.take(), found, snapshots.last_known(list(found.robots)), 0.0)
    counts = client.get("/fleet/").content.decode().partition('<section id="counts"')[2].partition("</section>")[0]
    rendered: Counter[str] = Counter()
    render = fragments._render
    monkeypatch.setattr(fragments, "_render", lambda kind, **more: rendered.update([kind]) or render(kind, **more))
    monkeypatch.setattr(fleet_page, "MOST", 5)
    page = client.get("/fleet/").content.decode()
    assert {kind: rendered[kind] for kind in ("robots", "vitals", "missions")} == dict.fromkeys(
        ("robots", "vitals", "missions"), 5
    )
    assert counts and counts in page
    for kind in ("robots", "missions"):  # in the order in which the socket brings them
        worst = [fragment.html for _key, fragment in live.shown(EVERYWHERE) if fragment.kind == kind][:5]
        assert len(worst) == 5 and "".join(worst) in page


def test_queries_of_the_page_do_not_grow_with_the_fleet(client, admin_person, django_assert_num_queries):
    client.force_login(admin_person)
    with django_assert_num_queries(9):  # session, user, permissions (2), person, sites, rows, ended, alerts
        client.get("/fleet/")
    varied_fleet.build(timezone.now())
    with django_assert_num_queries(9):
        client.get("/fleet/")


def test_the_policy_is_strict_and_nothing_on_the_page_needs_it_loosened(client, admin_person):
    varied_fleet.build(timezone.now())
    client.force_login(admin_person)
    page = client.get("/fleet/")
    policy = page["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    html = page.content.decode()
    assert " style=" not in html and "<style" not in html and " onclick" not in html
    assert html.count("<script") == html.count("<script src=") == 3


@pytest.mark.parametrize("who", ROLES)
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/fleet/robots/RB-001/stop", ("admin_person", "supervisor")),
        ("/fleet/robots/RB-001/release", ("admin_person", "supervisor")),
        ("/fleet/missions/{}/pause", ("admin_person", "supervisor")),
        ("/fleet/missions/{}/cancel", ("admin_person", "supervisor")),
        ("/fleet/missions/{}/resume", ("admin_person", "supervisor")),
    ],
)
def test_every_button_checks_the_role_again(client, people, dispatched, who, path, allowed):
    client.force_login(people[who])
    answer = client.post(path.format(dispatched.pk), **JSON)
    refused = 404 if who == "outsider" else 403  # what one may not see does not exist
    assert (answer.status_code == refused) is (who not in allowed)
    assert answer.json()["text"]
    assert client.get(path.format(dispatched.pk)).status_code == 405


@pytest.mark.parametrize("path", ["/fleet/robots/RB-001/stop", f"/fleet/missions/{uuid.UUID(int=7)}/cancel"])
def test_nobody_does_nothing(client, robot, path):
    assert client.post(path, **JSON).status_code == 401
    assert not Hold.objects.exists()


def test_a_button_needs_the_token(supervisor, robot):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(supervisor)
    assert client.post("/fleet/robots/RB-001/stop", **JSON).status_code == 403
    assert not Hold.objects.exists()


def test_stop_holds_and_release_lets_go(client, supervisor, robot):
    client.force_login(supervisor)
    for _ in range(2):  # idempotent
        assert client.post("/fleet/robots/RB-001/stop", {"why": "blocked\x00 aisle"}, **JSON).status_code == 200
    hold = Hold.objects.get()
    assert (hold.kind, hold.by, hold.why) == ("stopped", "Ana", "blocked aisle")
    assert client.post("/fleet/robots/RB-001/release", **JSON).json() == {"text": "RB-001 is released."}
    assert Hold.objects.get().released_by == "Ana"


def test_release_of_one_hold_by_its_number(client, admin_person):
    fleet = varied_fleet.build(timezone.now())
    client.force_login(admin_person)
    hold = Hold.objects.get(robot="RB-011", kind="unconfirmed")
    html = client.get(f"/fleet/?site={fleet.site.pk}").content.decode()
    assert f'formaction="/fleet/robots/RB-011/release?hold={hold.number}"' in html
    assert client.post(f"/fleet/robots/RB-011/release?hold={hold.number}", **JSON).status_code == 200
    assert Hold.objects.get(pk=hold.pk).released_at


def test_pause_resume_cancel(client, supervisor, dispatched):
    tell(dispatched, facts.Delivered(), facts.Accepted(1))
    client.force_login(supervisor)
    base = f"/fleet/missions/{dispatched.pk}"
    assert client.post(f"{base}/pause", **JSON).json() == {"text": "Pausing."}
    tell(dispatched, facts.Paused(1, 1, 9))
    seen = Mission.objects.get(pk=dispatched.pk).version
    assert client.post(f"{base}/resume?version={seen - 1}", **JSON).status_code == 409
    assert client.post(f"{base}/resume?version={seen}", **JSON).json() == {"text": "Resuming."}
    assert client.post(f"{base}/cancel", **JSON).json() == {"text": "Cancel: stopping."}
    assert client.post(f"{base}/cancel", **JSON).json() == {"text": "Cancel: already stopping."}


def test_a_refusal_is_a_sentence(client, supervisor, mission):
    client.force_login(supervisor)
    answer = client.post(f"/fleet/missions/{mission.pk}/pause", **JSON)
    assert answer.status_code == 409 and answer.json()["text"].endswith(".")
    for nowhere in ("robots/RB-404/stop", f"missions/{uuid.uuid4()}/cancel"):
        answer = client.post(f"/fleet/{nowhere}", **JSON)
        assert answer.status_code == 404 and "at your sites" in answer.json()["text"]


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 25, "-1", "x", "\0"])
def test_a_damaged_number_releases_and_resumes_nothing(client, supervisor, dispatched, number):
    client.force_login(supervisor)
    client.post("/fleet/robots/RB-001/stop", **JSON)
    for path in ("robots/RB-001/release?hold=", f"missions/{dispatched.pk}/resume?version="):
        answer = client.post(f"/fleet/{path}{quote(number)}", **JSON)
        assert answer.status_code == 409 and "is no number" in answer.json()["text"]
    assert not Hold.objects.get().released_at


def test_releasing_what_is_not_held_says_so(client, supervisor, robot):
    client.force_login(supervisor)
    assert "no such hold" in client.post("/fleet/robots/RB-001/release?hold=7", **JSON).json()["text"]


def test_stop_and_cancel_take_any_words(client, supervisor, dispatched):
    client.force_login(supervisor)
    words = "a\0b\ud800" + "x" * 600
    assert client.post("/fleet/robots/RB-001/stop", {"why": "a\0b" + "x" * 600}, **JSON).status_code == 200
    assert Hold.objects.get().why == "ab" + "x" * 498
    assert client.post(f"/fleet/missions/{dispatched.pk}/cancel", {"reason": "a\0b"}, **JSON).status_code == 200
    stopping.stop_robot("RB-001", by=SYSTEM, why=words)
    actions.cancel_mission(dispatched.pk, by=SYSTEM, reason=words)


@pytest.mark.parametrize("error", [OperationalError("connection refused"), InterfaceError("connection is closed")])
def test_without_the_database_a_button_says_that_nothing_was_done(client, supervisor, robot, monkeypatch, error):
    def away(*args: object, **kwargs: object) -> None:
        raise error

    client.force_login(supervisor)
    monkeypatch.setattr(stopping, "stop_robot", away)
    answer = client.post("/fleet/robots/RB-001/stop", **JSON)
    assert answer.status_code == 503 and answer.json()["text"].startswith("Not done")


def test_without_script_a_button_leads_back_to_the_page(client, supervisor, robot):
    client.force_login(supervisor)
    answer = client.post("/fleet/robots/RB-001/stop", follow=True)
    assert answer.redirect_chain == [("/fleet/", 302)]
    assert b"Stopping RB-001." in answer.content


def test_robot_text_in_the_page_is_text(client, supervisor, site, brand):
    robots.enrol_robot(id="RB-001", name="<img src=x onerror=alert(1)>", site=site, brand=brand, by=SYSTEM)
    drawing_up.draft_mission(
        title="</li><script>x</script>", site=site, robot=None, steps=varied_fleet.STEPS[:1], by=SYSTEM
    )
    client.force_login(supervisor)
    html = client.get("/fleet/").content.decode()
    assert "<img" not in html and "<script>" not in html and "&lt;img src=x" in html


def test_every_url_of_a_fragment_exists(client, robot):
    assert reverse("robot-stop", args=["RB-001"]) == "/fleet/robots/RB-001/stop"
    assert reverse("login") == settings.LOGIN_URL


@pytest.mark.parametrize("path", ["/login/", "/fleet/stop?site=all"])
def test_a_form_in_another_coding_is_told_so(client, supervisor, path):
    client.force_login(supervisor)
    answer = client.post(path, "a=b", content_type="application/x-www-form-urlencoded; charset=utf-7")
    assert (answer.status_code, answer["Content-Type"]) == (400, "text/plain; charset=utf-8")
